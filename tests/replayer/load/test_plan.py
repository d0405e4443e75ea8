from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.load.plan import closed_loop

SEEDS = st.integers(0, 2**64)
COUNTS = st.integers(1, 200)


def test_without_a_ramp_nobody_waits_for_a_time() -> None:
    assert closed_loop(100, 10, ramp_s=0.0, seed=1).starts_s == ()


@given(COUNTS, COUNTS, st.floats(0.001, 1e5), SEEDS)
def test_a_ramp_takes_the_time_asked_whatever_the_sessions_and_the_concurrency_are(
    sessions: int, concurrency: int, ramp_s: float, seed: int
) -> None:
    starts = closed_loop(sessions, concurrency, ramp_s=ramp_s, seed=seed).starts_s

    assert len(starts) == min(sessions, concurrency)
    assert starts == tuple(sorted(starts))
    assert starts[0] == 0.0
    assert len(starts) == 1 or starts[-1] == ramp_s


@given(COUNTS, st.integers(0, 200), SEEDS)
def test_a_ramp_is_the_same_for_any_number_of_sessions_that_fill_it(concurrency: int, more: int, seed: int) -> None:
    fewest = closed_loop(concurrency, concurrency, ramp_s=60.0, seed=seed)

    assert closed_loop(concurrency + more, concurrency, ramp_s=60.0, seed=seed).starts_s == fewest.starts_s


def test_another_seed_gives_other_times_and_they_are_spread_evenly() -> None:
    one, other = (closed_loop(10_000, 10_000, ramp_s=60.0, seed=seed).starts_s for seed in (1, 2))

    assert not set(one[1:-1]) & set(other)
    for quarter in range(4):
        assert sum(quarter * 15 <= start_s < (quarter + 1) * 15 for start_s in one) == pytest.approx(2500, rel=0.1)


def test_the_times_of_a_seed_are_these_on_every_machine() -> None:
    assert closed_loop(4, 4, ramp_s=60.0, seed=0).starts_s == pytest.approx((0.0, 7.323424, 17.5026, 60.0))
