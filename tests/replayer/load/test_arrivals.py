from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.load.arrivals import POISSON, Arrivals
from rotoscope.traces import UnusableInput

SEEDS = st.integers(0, 2**64)
ARRIVALS = st.sampled_from(["constant", "poisson", "gamma:0.3", "gamma:1", "gamma:4"]).map(Arrivals.parse)


def first(arrivals: Arrivals, count: int, *, rate_per_s: float, seed: int) -> tuple[float, ...]:
    return tuple(islice(arrivals.times_s(rate_per_s=rate_per_s, seed=seed), count))


@pytest.mark.parametrize("text", ["constant", "poisson", "gamma:0.5", "gamma:3"])
def test_arrivals_are_written_as_they_are_read(text: str) -> None:
    assert str(Arrivals.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no arrivals ''"),
        ("Poisson", "choose one of constant, poisson, gamma:CV"),
        ("poisson:2", "no arrivals"),
        ("gamma", "such as gamma:2"),
        ("gamma:", "CV of gamma"),
        ("gamma:0", "CV of gamma"),
        ("gamma:nan", "CV of gamma"),
        ("gamma:101", "at most 100"),
        ("gamma:1e-300", "at least 0.001"),
    ],
)
def test_others_are_refused(text: str, says: str) -> None:
    with pytest.raises(UnusableInput, match=says):
        Arrivals.parse(text)


@given(ARRIVALS, st.integers(1, 100), st.integers(0, 100), st.floats(1e-6, 1e6), SEEDS)
def test_the_first_sessions_arrive_at_the_same_times_however_many_follow(
    arrivals: Arrivals, count: int, more: int, rate_per_s: float, seed: int
) -> None:
    times_s = first(arrivals, count, rate_per_s=rate_per_s, seed=seed)

    assert first(arrivals, count + more, rate_per_s=rate_per_s, seed=seed)[:count] == times_s
    assert times_s[0] == 0.0
    assert times_s == tuple(sorted(times_s))


@pytest.mark.parametrize(("text", "cv"), [("constant", 0.0), ("poisson", 1.0), ("gamma:0.3", 0.3), ("gamma:2.5", 2.5)])
def test_the_rate_and_the_spread_are_those_asked(text: str, cv: float) -> None:
    between_s = np.diff(first(Arrivals.parse(text), 20_001, rate_per_s=0.2, seed=1))

    assert between_s.mean() == pytest.approx(5.0, rel=0.05)
    assert between_s.std() / between_s.mean() == pytest.approx(cv, rel=0.05, abs=1e-6)


@given(SEEDS, st.floats(0.01, 100.0))
def test_another_rate_scales_the_plan(seed: int, factor: float) -> None:
    times_s = first(POISSON, 20, rate_per_s=1.0, seed=seed)

    assert first(POISSON, 20, rate_per_s=factor, seed=seed) == pytest.approx([time / factor for time in times_s])


def test_another_seed_gives_other_times() -> None:
    one, other = (first(POISSON, 100, rate_per_s=1.0, seed=seed) for seed in (1, 2))

    assert not set(one[1:]) & set(other)


def test_the_times_of_a_seed_are_these_on_every_machine() -> None:
    assert first(POISSON, 4, rate_per_s=1.0, seed=0) == pytest.approx((0.0, 1.989676, 2.626168, 5.155069))
