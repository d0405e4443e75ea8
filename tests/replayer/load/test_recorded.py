from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.load.recorded import period_s, recorded_arrivals, recorded_starts_s
from rotoscope.testing import make_trace
from rotoscope.traces import UnusableInput
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.recognise import LabelledTrace

SEEDS = st.integers(0, 2**64)
STARTS_S = st.lists(st.integers(0, 10_000).map(float), min_size=2, max_size=50).filter(lambda s: len(set(s)) > 1)
ONE = LabelledTrace("label", Path("many.jsonl"), Member(name="0", trace=make_trace(), start_ms=1500.0))


def rate_of(starts_s: list[float], factor: float) -> float:
    """Return so many times the recorded rate."""
    return factor * 3600 * len(starts_s) / period_s(starts_s)


@given(STARTS_S, SEEDS)
def test_without_a_rate_each_session_starts_when_it_was_recorded(starts_s: list[float], seed: int) -> None:
    times_s, numbers = recorded_arrivals(starts_s, rate_per_h=None, seed=seed)

    assert sorted(numbers) == list(range(len(starts_s)))
    assert list(times_s) == [starts_s[number] - min(starts_s) for number in numbers]
    assert times_s == tuple(sorted(times_s))


@given(STARTS_S, SEEDS, st.floats(0.05, 1.0))
def test_a_lower_rate_drops_sessions_and_moves_none(starts_s: list[float], seed: int, factor: float) -> None:
    wanted = round(factor * len(starts_s))
    if not wanted:
        return
    times_s, numbers = recorded_arrivals(starts_s, rate_per_h=rate_of(starts_s, factor), seed=seed)

    assert len(numbers) == pytest.approx(wanted, abs=1)
    assert len(set(numbers)) == len(numbers)
    first_s = starts_s[numbers[0]]
    assert list(times_s) == [starts_s[number] - first_s for number in numbers]


@given(STARTS_S, SEEDS, st.integers(1, 4), st.floats(0.0, 0.99))
def test_a_higher_rate_adds_whole_copies_and_a_part_of_one_within_the_same_time(
    starts_s: list[float], seed: int, whole: int, part: float
) -> None:
    traces = len(starts_s)
    times_s, numbers = recorded_arrivals(starts_s, rate_per_h=rate_of(starts_s, whole + part), seed=seed)

    assert len(numbers) == pytest.approx((whole + part) * traces, abs=1)
    assert len(set(numbers)) == len(numbers)
    assert times_s[0] == 0.0
    assert times_s == tuple(sorted(times_s))
    assert times_s[-1] <= period_s(starts_s)


@given(STARTS_S, SEEDS)
def test_a_copy_keeps_the_times_between_its_sessions_but_where_it_was_turned(starts_s: list[float], seed: int) -> None:
    traces, over_s = len(starts_s), period_s(starts_s)
    times_s, numbers = recorded_arrivals(starts_s, rate_per_h=rate_of(starts_s, 2.0), seed=seed)

    copied = {number - traces: time_s for time_s, number in zip(times_s, numbers, strict=True) if number >= traces}
    for trace, time_s in copied.items():
        turned_s = (time_s - copied[0] - starts_s[trace] + starts_s[0]) / over_s
        assert turned_s == pytest.approx(round(turned_s), abs=1e-6)


def test_the_same_seed_gives_the_same_arrivals_and_another_one_others() -> None:
    starts_s = [float(number**2) for number in range(100)]
    one, again, other = (recorded_arrivals(starts_s, rate_per_h=rate_of(starts_s, 0.5), seed=s) for s in (1, 1, 2))

    assert one == again
    assert set(one[1]) != set(other[1])


def test_where_all_started_together_there_is_no_rate_to_change() -> None:
    assert recorded_arrivals([5.0, 5.0], rate_per_h=None, seed=1) == ((0.0, 0.0), (0, 1))
    with pytest.raises(UnusableInput, match="started together"):
        recorded_arrivals([5.0, 5.0], rate_per_h=10.0, seed=1)


def test_a_rate_at_which_nobody_arrives_is_refused() -> None:
    with pytest.raises(UnusableInput, match="higher --rate"):
        recorded_arrivals([0.0, 1.0], rate_per_h=1.0, seed=1)


def test_starts_are_those_of_the_members() -> None:
    other = replace(ONE, member=replace(ONE.member, name="1", start_ms=250.0))

    assert recorded_starts_s([ONE, other]) == (1.5, 0.25)


def test_traces_without_a_common_clock_are_refused() -> None:
    with pytest.raises(UnusableInput, match="no common clock"):
        recorded_starts_s([ONE, replace(ONE, path=Path("others.jsonl"))])
    with pytest.raises(UnusableInput, match="do not say when they started"):
        recorded_starts_s([ONE, replace(ONE, member=replace(ONE.member, start_ms=None))])


def test_the_files_of_a_corpus_have_its_clock() -> None:
    files = [replace(ONE, path=Path(f"folder/{name}.json"), corpus=Path("folder")) for name in "ab"]

    assert recorded_starts_s(files) == (1.5, 1.5)
