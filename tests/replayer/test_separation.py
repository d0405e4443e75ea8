from __future__ import annotations

from rotoscope.replayer.separation import Separation


def test_streams_that_go_on_differently_are_separated() -> None:
    separation = Separation()
    separation.add("place", 1, prompted=True)
    separation.add("place", 2, prompted=True)
    separation.add("elsewhere", 1, prompted=True)

    assert separation.unseparated == 0


def test_those_that_go_on_alike_count_but_for_the_first() -> None:
    separation = Separation()
    for _ in range(3):
        separation.add("place", 1, prompted=True)

    assert separation.unseparated == 2


def test_outputs_that_go_on_alike_count_only_where_a_prompt_does_too() -> None:
    separation = Separation()
    separation.add("place", 1, prompted=False)
    separation.add("place", 1, prompted=False)
    before = separation.unseparated
    separation.add("place", 1, prompted=True)

    assert before == 0
    assert separation.unseparated == 2


def test_a_place_is_known_once_a_stream_goes_on_there() -> None:
    separation = Separation()
    separation.add("place", 1, prompted=False)

    assert "place" in separation
    assert "elsewhere" not in separation
