from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.load.mix import Share, mixed, parse_weights
from rotoscope.traces import UnusableInput

SHARES = st.lists(st.builds(Share, st.integers(1, 5), st.floats(0.01, 100.0)), min_size=1, max_size=5)


@pytest.mark.parametrize("text", ["", "a:1", "1:0", "1:-1", "nan:1", "inf:1", "1,2", "1:"])
def test_weights_are_numbers_more_than_0(text: str) -> None:
    with pytest.raises(UnusableInput, match="weights of a mix"):
        parse_weights(text, paths=2)


def test_there_is_a_weight_for_each_path() -> None:
    assert parse_weights("3:0.5", paths=2) == (3.0, 0.5)
    with pytest.raises(UnusableInput, match="each path: 3 paths, not 2"):
        parse_weights("3:1", paths=3)


def test_shares_come_as_often_as_they_weigh_and_traces_of_each_in_turn() -> None:
    assert mixed([Share(1, 3.0), Share(2, 1.0)], 8) == (0, 3, 1, 6, 9, 12, 2, 15)


@given(SHARES, st.integers(1, 200))
def test_any_first_sessions_hold_each_share_as_often_as_it_weighs(shares: list[Share], sessions: int) -> None:
    traces = sum(share.traces for share in shares)
    of_trace = [index for index, share in enumerate(shares) for _ in range(share.traces)]
    had = Counter(of_trace[number % traces] for number in mixed(shares, sessions))

    total = sum(share.weight for share in shares)
    for index, share in enumerate(shares):
        assert abs(had[index] - sessions * share.weight / total) <= len(shares)


@given(SHARES, st.integers(1, 100), st.integers(0, 100))
def test_the_first_sessions_do_not_depend_on_how_many_follow(shares: list[Share], sessions: int, more: int) -> None:
    numbers = mixed(shares, sessions + more)

    assert numbers[:sessions] == mixed(shares, sessions)
    assert len(set(numbers)) == len(numbers)


@given(SHARES, st.integers(1, 100))
def test_the_copies_of_a_trace_are_numbered_without_a_hole(shares: list[Share], sessions: int) -> None:
    traces = sum(share.traces for share in shares)
    copies: dict[int, list[int]] = {}
    for number in mixed(shares, sessions):
        copies.setdefault(number % traces, []).append(number // traces)

    assert all(found == list(range(len(found))) for found in copies.values())
