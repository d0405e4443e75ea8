from __future__ import annotations

from chat_wire import Wire, assistant, result, system, tool_call, usage, user

from rotoscope.recorder.calls import gather
from rotoscope.recorder.measured_tree import MeasuredTree
from rotoscope.recorder.numbering import NumberedPlaces
from rotoscope.recorder.template_bounds import Bounds

START = [system("word " * 400), user("a " * 100)]
ASKING = assistant("I look.", calls=[tool_call("1")])


def places_of(wire: Wire) -> NumberedPlaces:
    run = gather(wire.written().records)
    return NumberedPlaces(run, Bounds(run.tree, run.calls), MeasuredTree(run.measured))


def test_a_prompt_ends_where_the_server_says() -> None:
    wire = Wire()
    wire.call(START, ASKING, counts=usage(777, 20))
    places = places_of(wire)

    assert places.ends[0].position == 777
    assert places.prompt_tokens == [777]
    assert places.stream_tokens(0) == 797


def test_parts_share_the_prompt_by_their_sizes() -> None:
    wire = Wire()
    wire.call(START, ASKING, counts=usage(600, 20))
    places = places_of(wire)
    sizes = [places.part_tokens(places.run.calls[0], index) for index in range(2)]

    assert 480 < sizes[0] < 560
    assert 40 < sizes[1] < 120


def test_what_was_appended_has_the_difference_of_what_was_counted() -> None:
    wire = Wire()
    grown = wire.call(START, ASKING, counts=usage(600, 20))
    wire.call([*grown, result("1", "x " * 700)], assistant("b"), counts=usage(1000, 5))
    places = places_of(wire)

    assert places.end_of(places.run.calls[1], 3).position == 600 + 20 + 1
    assert 360 < places.part_tokens(places.run.calls[1], 3) < 380


def test_a_place_has_one_number_whoever_passes_it_first() -> None:
    numbers = []
    for order in (0, 1):
        wire = Wire()
        prompts = [([*START, assistant("x"), user("b " * 50)], 700), ([*START, assistant("x"), user("c " * 900)], 2000)]
        for messages, tokens in prompts[:: 1 if order else -1]:
            wire.call(messages, assistant("b"), counts=usage(tokens, 5))
        places = places_of(wire)
        numbers.append({places.end_of(call, 3).position for call in places.run.calls})

    assert [len(found) for found in numbers] == [1, 1]


def test_a_short_prompt_keeps_the_places_of_a_long_one_in_front_of_its_end() -> None:
    wire = Wire()
    wire.call([START[0], user("b " * 4000)], assistant("b"), counts=usage(9000, 5))
    wire.call([START[0], user("b")], assistant("b"), counts=usage(300, 5))
    places = places_of(wire)

    assert places.end_of(places.run.calls[0], 1).position <= 300


def test_a_place_is_not_before_what_can_stand_behind_it() -> None:
    wire = Wire()
    wire.call([system("s"), user("u" * 40)], assistant("b"), counts=usage(5000, 5))
    places = places_of(wire)

    assert places.end_of(places.run.calls[0], 1).position > 4800


def test_uncounted_prompts_have_the_tokens_a_byte_of_counted_ones() -> None:
    wire = Wire()
    wire.call([user("a " * 500)], assistant("b"), counts=usage(2000, 5))
    wire.call([user("b " * 500)], assistant("b"))
    places = places_of(wire)

    assert 1900 < places.prompt_tokens[1] < 2100


def test_an_answer_whose_text_is_not_known_passes_no_place() -> None:
    wire = Wire()
    wire.ask(START)
    places = places_of(wire)

    assert places.answer(places.run.calls[0]) == []
