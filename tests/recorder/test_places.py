from __future__ import annotations

from chat_wire import Wire, assistant, user
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.recorder.part_sizes import PartSizes
from rotoscope.recorder.part_tree import PartTree
from rotoscope.recorder.places import Place, PlaceTree
from rotoscope.recorder.rendering import Rendering
from rotoscope.traces.journal import CallOpened, PartCounted, PartSeen


def places_of(*prompts: list[dict[str, object]]) -> tuple[PlaceTree, list[list[Place]]]:
    """Return the tree of places of some prompts, and for each the places behind its parts."""
    wire = Wire()
    for messages in prompts:
        wire.ask(messages)
    records = wire.written().records
    tree = PartTree([record for record in records if isinstance(record, PartSeen)])
    places = PlaceTree(tree)
    paths = [tree.path(record.head) for record in records if isinstance(record, CallOpened)]
    return places, [[places.end_of(path, count) for count in range(len(path) + 1)] for path in paths]


def line(weights: list[float]) -> tuple[PlaceTree, list[Place]]:
    """Return places in one line behind the root."""
    tree = PlaceTree(PartTree([]))
    places = []
    place = tree.root
    for index, weight in enumerate(weights):
        place = tree._child(place, index, weight)
        places.append(place)
    return tree, places


def test_prompts_pass_the_same_places_until_they_part() -> None:
    _, (a, b) = places_of([user("x"), user("y")], [user("x"), user("z")])

    assert [one is other for one, other in zip(a, b, strict=True)] == [True, True, False]


def test_messages_that_begin_alike_part_inside() -> None:
    start = "word " * 200
    _, ((_, a), (_, b)) = places_of([user(start + "a")], [user(start + "b")])
    above = set()
    step: Place | None = a
    while step is not None:
        above.add(id(step))
        step = step.parent
    depth = 0
    step = b
    while step is not None and id(step) not in above:
        step, depth = step.parent, depth + 1

    assert step is not None
    assert step.parent is not None
    assert depth < 4


def test_an_answer_begins_where_a_whole_prompt_ends() -> None:
    places, (a, b) = places_of([user("x")], [user("x"), assistant("y")])
    step: Place | None = b[-1]
    while step is not None and step is not places.answer_start(a[-1]):
        step = step.parent

    assert step is not None


def test_an_answer_with_thinking_parts_from_one_without_where_it_begins() -> None:
    _, (a, b) = places_of([user("x"), assistant("y", thinking="z")], [user("x"), assistant("y")])

    assert a[-1] is not b[-1]
    assert a[-2] is b[-2]


def test_tokens_between_measured_places_are_shared_out_by_weight() -> None:
    tree, places = line([1.0, 3.0, 2.0])
    places[2].measured = 60
    tree.settle()
    tree.fill(places[2])

    assert [place.position for place in places] == [10, 40, 60]


def test_behind_the_last_measured_place_weights_count() -> None:
    tree, places = line([1.0, 6.0])
    places[0].measured = 10
    tree.settle()
    tree.fill(places[1])

    assert [place.position for place in places] == [10, 16]


def test_a_number_stays_when_it_was_given() -> None:
    tree, places = line([5.0, 5.0])
    tree.settle()
    tree.fill(places[1])
    places[0].weight = 7.0
    tree.fill(places[1])

    assert [place.position for place in places] == [5, 10]


def test_places_stand_where_sizes_and_what_the_server_makes_of_them_say() -> None:
    wire = Wire()
    wire.ask([user("x"), assistant("y", thinking="z"), user("w")])
    tree = PartTree([record for record in wire.written().records if isinstance(record, PartSeen)])
    counts = {part: PartCounted(part=part, tokens=100, reasoning_tokens=10 * (part == 1)) for part in range(3)}
    places = PlaceTree(tree, PartSizes(tree, counts, "t"), Rendering(once=50, message=6, ratio=2))
    path = tree.path(2)
    places.fill(places.prompt_end(path))

    ends = [places.end_of(path, count).position for count in range(1, 4)]
    assert ends == [50 + 206, 256 + 226, 482 + 206]
    assert places.prompt_end(path).position == 688 + 3


LINES = st.lists(
    st.tuples(
        st.integers(0, 400).map(lambda quarters: quarters / 4), st.none() | st.integers(0, 200), st.integers(0, 150)
    ),
    min_size=1,
    max_size=8,
)


@given(steps=LINES, fork=st.integers(0, 7), branch=LINES)
def test_numbers_never_fall_and_none_is_behind_a_measured_place_that_follows(
    steps: list[tuple[float, int | None, int]], fork: int, branch: list[tuple[float, int | None, int]]
) -> None:
    tree, places = line([weight for weight, _, _ in steps])
    here = places[min(fork, len(places) - 1)]
    other = []
    for index, (weight, _, _) in enumerate(branch):
        here = tree._child(here, ("branch", index), weight)
        other.append(here)
    for place, (_, measured, floor) in zip([*places, *other], [*steps, *branch], strict=True):
        place.measured, place.floor = measured, floor
    tree.settle()
    tree.fill(places[-1])
    tree.fill(other[-1])

    for place in [*places, *other]:
        assert place.parent is not None
        assert place.parent.position <= place.position
        assert place.measured is None or place.position <= place.measured


def test_what_has_no_known_size_takes_what_others_leave() -> None:
    tree, (first, unseen, last) = line([10, 4, 20])
    unseen.is_elastic = True
    last.measured = 1000
    tree.settle()
    tree.fill(last)

    assert [place.position for place in (first, unseen, last)] == [10, 980, 1000]


def test_where_nothing_is_left_what_has_no_known_size_shrinks_like_the_others() -> None:
    tree, (first, unseen, last) = line([10, 10, 20])
    unseen.is_elastic = True
    last.measured = 20
    tree.settle()
    tree.fill(last)

    assert [place.position for place in (first, unseen, last)] == [5, 10, 20]
