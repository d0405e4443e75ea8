from __future__ import annotations

from itertools import chain
from statistics import mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.bootstrap import (
    Bounds,
    mean_interval,
    percentile_intervals,
    ratio_interval,
    share_interval,
)

TRIALS = 200
NUMBERS = st.integers(0, 1000).map(float)


def of_whole_sessions(values: list[list[float]], percents: tuple[float, ...], *, seed: int = 0) -> tuple[Bounds, ...]:
    owners = [number for number, session in enumerate(values) for _ in session]
    found = percentile_intervals([*chain(*values)], owners, percents, seed=seed)
    assert found is not None
    return found


@given(st.lists(NUMBERS, min_size=2, max_size=30))
def test_an_interval_contains_the_mean(values: list[float]) -> None:
    bounds = mean_interval(values, seed=1)

    assert bounds is not None
    assert bounds.low - 1e-9 <= mean(values) <= bounds.high + 1e-9


@given(st.lists(st.tuples(NUMBERS, st.integers(1, 1000)), min_size=2, max_size=30))
def test_an_interval_contains_the_ratio(pairs: list[tuple[float, int]]) -> None:
    parts, wholes = zip(*pairs, strict=True)
    bounds = ratio_interval(parts, wholes, seed=1)

    assert bounds is not None
    assert bounds.low - 1e-9 <= sum(parts) / sum(wholes) <= bounds.high + 1e-9


@given(
    st.lists(NUMBERS, min_size=1, max_size=6),
    st.lists(NUMBERS, min_size=1, max_size=6),
    st.sampled_from([0, 10, 50, 90, 99, 100]),
)
def test_percentiles_are_those_of_the_drawn_sessions_with_all_their_values(
    one: list[float], other: list[float], percent: int
) -> None:
    (bounds,) = of_whole_sessions([one, other], (percent,))

    each = [float(np.percentile(drawn, percent)) for drawn in (one + one, one + other, other + other)]
    assert (bounds.low, bounds.high) == pytest.approx((min(each), max(each)))


def test_four_times_the_sessions_halve_the_interval() -> None:
    values = np.random.default_rng(5).gamma(4.0, size=50)

    few, many = mean_interval(list(values), seed=1), mean_interval([*values] * 4, seed=1)

    assert few is not None
    assert many is not None
    assert (many.high - many.low) / (few.high - few.low) == pytest.approx(0.5, abs=0.06)


def test_95_of_100_intervals_hold_the_true_mean() -> None:
    trials = np.random.default_rng(7).gamma(4.0, size=(TRIALS, 60))
    found = [mean_interval(list(values), seed=trial) for trial, values in enumerate(trials)]

    held = sum(bounds.low <= 4.0 <= bounds.high for bounds in found if bounds)

    assert 0.91 <= held / TRIALS <= 0.98


@pytest.mark.parametrize(("sessions", "most_missed"), [(8, 0.09), (12, 0.08), (20, 0.08)])
def test_intervals_of_few_skewed_sessions_hold_the_true_mean_nearly_as_often_as_they_say(
    sessions: int, most_missed: float
) -> None:
    """Percentiles alone miss it 15, 13 and 10 times of 100."""
    trials = np.random.default_rng(3).exponential(size=(2 * TRIALS, sessions))
    found = [mean_interval(list(values), seed=trial) for trial, values in enumerate(trials)]

    missed = sum(not bounds.low <= 1.0 <= bounds.high for bounds in found if bounds)

    assert 0.02 <= missed / len(found) <= most_missed


def test_five_sessions_have_an_interval_that_is_wider_than_the_middle_of_the_results() -> None:
    trials = np.random.default_rng(5).gamma(4.0, size=(2 * TRIALS, 5))
    found = [mean_interval(list(values), seed=trial) for trial, values in enumerate(trials)]

    held = sum(bounds.low <= 4.0 <= bounds.high for bounds in found if bounds)

    assert held / len(found) >= 0.89  # without Student's t it is 0.83


@given(st.lists(st.tuples(st.integers(0, 10), st.integers(10, 20)), min_size=2, max_size=30))
def test_the_interval_of_a_share_is_within_0_and_1(pairs: list[tuple[int, int]]) -> None:
    parts, wholes = zip(*pairs, strict=True)
    bounds = share_interval(parts, wholes, seed=1)

    assert bounds is not None
    assert 0 <= bounds.low <= sum(parts) / sum(wholes) + 1e-9
    assert sum(parts) / sum(wholes) - 1e-9 <= bounds.high <= 1


def test_sessions_that_are_all_alike_leave_no_doubt() -> None:
    bounds = mean_interval([0.1] * 12, seed=0)

    assert bounds is not None
    assert [bounds.low, bounds.high] == pytest.approx([0.1, 0.1])


@pytest.mark.parametrize("spread", [0.0, 0.001])
def test_one_failed_session_among_others_that_are_alike_does_not_make_an_interval_endless(spread: float) -> None:
    seconds = 10.0 + spread * np.arange(20)
    jobs = [0.0] + [1.0] * 19

    bounds = ratio_interval(jobs, [*seconds], seed=0)

    assert bounds is not None
    assert 0.07 < bounds.low < 0.095 <= bounds.high < 0.11


def test_requests_of_a_session_depend_on_each_other_so_that_sessions_are_drawn_whole() -> None:
    """The true 90th percentile of a sum of two normal draws is 1.2816 x sqrt(5); each request by itself says too much."""
    random = np.random.default_rng(11)
    truth, held, held_alone = 1.2816 * 5**0.5, 0, 0
    for trial in range(TRIALS // 4):
        values = [*(2 * random.normal(size=(50, 1)) + random.normal(size=(50, 6)))]
        (bounds,) = of_whole_sessions([list(session) for session in values], (90,), seed=trial)
        (alone,) = of_whole_sessions([[value] for value in chain(*values)], (90,), seed=trial)
        held += bounds.low <= truth <= bounds.high
        held_alone += alone.low <= truth <= alone.high

    assert 0.88 <= held / (TRIALS // 4) < 1
    assert held_alone / (TRIALS // 4) < 0.8


def test_a_seed_gives_the_same_interval_again_and_another_nearly_so() -> None:
    values = [float(number) for number in range(50)]

    first, again, other = (mean_interval(values, seed=seed) for seed in (3, 3, 4))

    assert first == again
    assert first is not None
    assert other is not None
    assert 0 < abs(first.high - other.high) < 1.0


def test_many_sessions_are_drawn_part_by_part_all_the_same() -> None:
    values = [float(number) for number in range(2000)]

    bounds = mean_interval(values, seed=0)

    assert bounds is not None
    assert bounds.high - bounds.low == pytest.approx(2 * 1.96 * 2000 / 12**0.5 / 2000**0.5, rel=0.1)


def test_one_session_has_no_interval() -> None:
    assert mean_interval([1.0], seed=0) is None
    assert mean_interval([], seed=0) is None
    assert ratio_interval([1.0, 2.0], [1.0, 0.0], seed=0) is None
    assert percentile_intervals([1.0, 2.0], [7, 7], (50,), seed=0) is None
    assert percentile_intervals([], [], (50,), seed=0) is None
