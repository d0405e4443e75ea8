from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.pareto import Place, on_frontier, staircase

PLACES = st.lists(st.none() | st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12)


def test_the_upper_right_is_the_frontier() -> None:
    places = [(1, 9), (2, 8), (1, 8), (5, 5), (4, 5), (6, 1), (6, 0.5), (0, 9)]

    assert on_frontier(places) == [True, True, False, True, False, True, False, False]


def test_equal_places_are_both_on_it_and_what_has_no_place_is_not() -> None:
    assert on_frontier([(2, 2), (2, 2), None, (1, 1)]) == [True, True, False, False]
    assert on_frontier([]) == on_frontier([None])[1:] == []


@given(PLACES)
def test_it_is_what_nothing_dominates(places: list[Place | None]) -> None:
    def is_dominated(one: Place) -> bool:
        return any(other[0] >= one[0] and other[1] >= one[1] and other != one for other in places if other)

    assert on_frontier(places) == [place is not None and not is_dominated(place) for place in places]


def test_the_staircase_falls_in_steps_below_what_was_measured() -> None:
    assert staircase([(1, 9), (5, 5), (2, 3), (6, 1)]) == [(1, 9), (1, 5), (5, 5), (5, 1), (6, 1)]
    assert staircase([]) == []
