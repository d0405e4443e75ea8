from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.load.arrivals import POISSON, Arrivals
from rotoscope.replayer.load.mix import Share, mixed
from rotoscope.replayer.load.plan import MOST_SESSIONS, LoadPlan, closed_loop, open_loop, plan_load, recorded_loop
from rotoscope.replayer.options import ReplayOptions
from rotoscope.traces import UnusableInput

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


@given(COUNTS, SEEDS)
def test_in_an_open_loop_every_session_has_its_time_and_nobody_waits_for_a_place(sessions: int, seed: int) -> None:
    plan = open_loop(sessions, POISSON, rate_per_h=720.0, seed=seed)

    assert plan.concurrency is None
    assert plan.sessions == sessions
    assert plan.starts_s == tuple(islice(POISSON.times_s(rate_per_s=0.2, seed=seed), sessions))


@given(COUNTS, st.floats(0.001, 1000.0), SEEDS)
def test_an_open_loop_holds_the_sessions_that_arrive_before_its_end(
    sessions: int, duration_s: float, seed: int
) -> None:
    without_end = open_loop(sessions, POISSON, rate_per_h=720.0, seed=seed).starts_s
    plan = open_loop(sessions, POISSON, rate_per_h=720.0, seed=seed, duration_s=duration_s)

    assert plan.starts_s == tuple(time_s for time_s in without_end if time_s < duration_s)
    assert plan.sessions == len(plan.starts_s)
    assert plan.ends_by == ("sessions" if plan.sessions == sessions else "duration")


@pytest.mark.parametrize(
    ("options", "sessions"),
    [
        ({}, 7),
        ({"sessions": 20}, 20),
        ({"duration_s": 60.0}, MOST_SESSIONS),
        ({"until_ci": 0.05}, MOST_SESSIONS),
        ({"until_ci": 0.05, "sessions": 20}, 20),
        ({"duration_s": 60.0, "sessions": 20}, 20),
        ({"rate_per_h": 3600.0}, 7),
        ({"rate_per_h": 3600.0, "duration_s": 60.0, "arrivals": Arrivals.parse("constant")}, 60),
        ({"rate_per_h": 3600.0, "duration_s": 60.0, "sessions": 20, "arrivals": Arrivals.parse("constant")}, 20),
    ],
)
def test_each_trace_is_performed_once_unless_it_is_said_how_many_or_how_long(
    options: dict[str, Any], sessions: int
) -> None:
    plan = plan_load(ReplayOptions(url="http://127.0.0.1:1", **options), traces=7)

    assert (plan.sessions, plan.duration_s) == (sessions, options.get("duration_s"))


RECORDED_S = tuple(float(number) for number in range(100))


def test_recorded_sessions_come_as_recorded_up_to_their_number_and_the_end() -> None:
    def plan(**options: Any) -> LoadPlan:
        return recorded_loop(RECORDED_S, rate_per_h=None, seed=1, **options)

    assert (plan().numbers, plan().starts_s) == (tuple(range(100)), RECORDED_S)
    assert plan(sessions=10).starts_s == RECORDED_S[:10]
    assert plan(duration_s=10.0).starts_s == RECORDED_S[:10]
    assert plan(duration_s=10.0, sessions=3).numbers == (0, 1, 2)
    ends = [plan(**given).ends_by for given in ({}, {"duration_s": 10.0}, {"duration_s": 10.0, "sessions": 3})]
    assert ends == ["sessions", "duration", "sessions"]
    with pytest.raises(UnusableInput, match="100 sessions arrive in the time recorded"):
        plan(sessions=101)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rate_per_h": 1e9, "duration_s": 1e9}, "more than 1,000,000 sessions would arrive"),
        ({"rate_per_h": 1e-6, "sessions": 2, "arrivals": Arrivals.parse("constant")}, "arrive after 3.6e.09 s"),
        ({"rate_per_h": 1e9, "recorded_starts_s": (0.0, 3600.0)}, "more than 1,000,000 sessions arrive at this rate"),
    ],
)
def test_a_plan_that_nobody_could_perform_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UnusableInput, match=says):
        plan_load(ReplayOptions(url="http://127.0.0.1:1", **given), traces=2)


def test_a_plan_knows_how_many_numbers_it_needs() -> None:
    assert LoadPlan(numbers=(7, 2), concurrency=None).numbered == 8
    assert LoadPlan(numbers=(), concurrency=None).numbered == 0


def test_recorded_starts_make_the_loop_open() -> None:
    options = ReplayOptions(url="http://127.0.0.1:1", recorded_starts_s=RECORDED_S, rate_per_h=360.0, seed=5)

    assert plan_load(options, traces=100) == recorded_loop(RECORDED_S, rate_per_h=360.0, seed=5)


def test_a_mix_says_which_traces_and_leaves_the_times() -> None:
    without = ReplayOptions(url="http://127.0.0.1:1", rate_per_h=60.0, sessions=8)
    shares = (Share(1, 3.0), Share(2, 1.0))
    plan = plan_load(replace(without, mix=shares), traces=3)

    assert plan.starts_s == plan_load(without, traces=3).starts_s
    assert plan.numbers == mixed(shares, 8)


def test_a_rate_makes_the_loop_open() -> None:
    url = "http://127.0.0.1:1"
    closed = plan_load(ReplayOptions(url=url, concurrency=4, ramp_s=9.0, seed=3), traces=20)
    opened = plan_load(ReplayOptions(url=url, rate_per_h=60.0, seed=3), traces=20)

    assert closed == closed_loop(20, 4, ramp_s=9.0, seed=3)
    assert opened == open_loop(20, POISSON, rate_per_h=60.0, seed=3)
    assert plan_load(ReplayOptions(url=url), traces=20) == closed_loop(20, 1, ramp_s=0.0, seed=0)
