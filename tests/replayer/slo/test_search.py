from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.slo.search import Border, find_border, majority


@given(limit=st.integers(0, 300), first=st.integers(1, 40), most=st.integers(40, 260))
def test_the_border_is_found_and_nothing_is_asked_twice(limit: int, first: int, most: int) -> None:
    asked: list[int] = []

    def meets(number: int) -> bool:
        asked.append(number)
        return number <= limit

    border = find_border(meets, first=first, most=most)

    assert len(asked) == len({*asked})
    assert all(first <= number <= most for number in asked)
    if limit < first:
        assert border == Border(None, first)
    elif limit >= most:
        assert border == Border(most, None)
    else:
        assert border == Border(limit, limit + 1)


def test_it_doubles_and_then_halves() -> None:
    asked: list[int] = []

    def meets(number: int) -> bool:
        asked.append(number)
        return number <= 11

    find_border(meets, first=1, most=1000)

    assert asked == [1, 2, 4, 8, 16, 12, 10, 11]


@pytest.mark.parametrize(
    ("outcomes", "repeats", "asked", "wins"),
    [
        ("yyy", 3, 2, True),
        ("yny", 3, 3, True),
        ("nyn", 3, 3, False),
        ("nn", 3, 2, False),
        ("y", 1, 1, True),
        ("n", 1, 1, False),
        ("yn", 2, 2, False),
        ("n", 2, 1, False),
        ("yy", 2, 2, True),
        ("ynyny", 5, 5, True),
    ],
)
def test_more_than_half_decide_and_no_more_is_asked(outcomes: str, repeats: int, asked: int, wins: bool) -> None:
    numbers: list[int] = []

    def outcome(number: int) -> bool:
        numbers.append(number)
        return outcomes[number - 1] == "y"

    assert majority(outcome, repeats=repeats) is wins
    assert numbers == [*range(1, asked + 1)]
