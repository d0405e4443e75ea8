"""Results whose rates are known: made for the reference's formulas, of which those are computed here that are not ours."""

from __future__ import annotations

import heapq
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
from replay_doubles import make_request_result, make_session_result, make_setup

from rotoscope.replayer import metrics
from rotoscope.replayer.metrics import Interval
from rotoscope.replayer.results import RequestResult, SessionResult
from rotoscope.replayer.token_rates import token_rates_of
from rotoscope.replayer.window import Window, window_of

CASES = (
    "closed_loop_C2_N8",
    "uneven_C2_N7",
    "too_few_sessions",
    "batch_smaller_than_concurrency",
    "attention_dp",
)
STEP_S = 0.5
"""All times of the known results are multiples of it."""
TRIALS = 200
CONCURRENCY = 4
MEAN_LATENCY_S = 10.0


@dataclass(frozen=True)
class Known:
    """Jobs, how they were run, and what the reference makes of them."""

    jobs: list[Interval]
    concurrency: int
    gpus: int
    excluded: int
    expected: dict[str, Any]
    calls: list[RequestResult]

    @property
    def reference_window(self) -> Interval:
        """From the E-th admission to the end of the E-th last admitted, E the sessions excluded at each side."""
        return Interval(self.jobs[self.excluded - 1].start_s, self.jobs[-self.excluded].end_s)

    @property
    def window(self) -> Interval | None:
        return metrics.steady_window(self.jobs, self.concurrency)


@pytest.fixture
def known(request: pytest.FixtureRequest, data_dir: Path) -> Known:
    cases = {
        case["name"]: case for case in json.loads((data_dir / "trtllm" / "oracle_pareto.json").read_text())["cases"]
    }
    assert set(cases) == set(CASES)
    case = cases[request.param]
    told, expected = case["input"], case["expected"]
    times = sorted(zip(told["session_start_offset_s"], told["session_end_offset_s"], strict=True))
    return Known(
        jobs=[Interval(start_s, end_s) for start_s, end_s in times],
        concurrency=told["concurrency"],
        gpus=told["tensor_parallel_size"],
        excluded=expected["excl_count"],
        expected=expected,
        calls=[_answered(call) for call in told["calls"]],
    )


def _answered(call: dict[str, Any]) -> RequestResult:
    return make_request_result(
        session=call["session_index"],
        start_s=call["client_request_start_offset_s"],
        ttft_s=call["ttft_s"],
        latency_s=call["latency_s"],
        prompt_tokens=call["usage_prompt_tokens"],
        completion_tokens=call["usage_completion_tokens"],
        cached_tokens=None,
    )


def seconds_by_step(jobs: Sequence[Interval], window: Interval) -> tuple[float, float]:
    """Return the jobs done and the slots' seconds in a window, each job's work added up step by step."""
    steps = [window.start_s + STEP_S * number for number in range(round(window.length_s / STEP_S))]
    running = [job for step in steps for job in jobs if job.start_s <= step < job.end_s]
    return sum(STEP_S / job.length_s for job in running), STEP_S * len(running)


@pytest.mark.parametrize("known", [name for name in CASES if name != "too_few_sessions"], indirect=True)
def test_the_reference_s_own_window_and_rule_give_its_rates(known: Known) -> None:
    window, expected = known.reference_window, known.expected["pareto"]

    jobs = metrics.whole_jobs_in_window(known.jobs, window)

    assert window.start_s == known.expected["window"]["start_offset_s"]
    assert window.end_s == known.expected["window"]["end_offset_s"]
    assert jobs == expected["jobs_completed_in_window"]
    assert metrics.jobs_per_h_per_gpu(jobs, window, known.gpus) == pytest.approx(expected["job_y_jobs_per_h_per_gpu"])
    over_all_sessions_s = mean(job.length_s for job in known.jobs)
    assert metrics.jobs_per_h_per_user(over_all_sessions_s) == pytest.approx(expected["job_x_jobs_per_h_per_user"])


@pytest.mark.parametrize(
    ("known", "opens_s", "closes_s", "whole"),
    [
        ("closed_loop_C2_N8", 11, 31, 5),
        ("uneven_C2_N7", 14, 33, 4),
    ],
    indirect=["known"],
)
def test_our_window_gives_the_known_rates_under_both_rules(
    known: Known, opens_s: float, closes_s: float, whole: int
) -> None:
    window = known.window
    assert window == Interval(opens_s, closes_s)
    done, taken_s = seconds_by_step(known.jobs, window)

    jobs = metrics.jobs_in_window(known.jobs, window)
    latency_s = metrics.mean_job_latency_in_window_s(known.jobs, window)

    assert jobs == pytest.approx(done)
    assert latency_s == pytest.approx(taken_s / done)
    per_h = 3600 * done / (closes_s - opens_s) / known.gpus
    assert metrics.jobs_per_h_per_gpu(jobs, window, known.gpus) == pytest.approx(per_h)
    assert metrics.whole_jobs_in_window(known.jobs, window) == whole


@pytest.mark.parametrize("known", [name for name in CASES if name != "too_few_sessions"], indirect=True)
def test_the_reference_s_own_window_and_whole_requests_give_its_token_rates(known: Known) -> None:
    window, expected = known.reference_window, known.expected["pareto"]
    ends_s = [(one.start_s or 0.0) + (one.latency_s or 0.0) for one in known.calls]
    whole = [
        one
        for one, end_s in zip(known.calls, ends_s, strict=True)
        if (one.start_s or 0.0) >= window.start_s and end_s <= window.end_s
    ]

    rates = token_rates_of(window, whole, gpus=known.gpus)

    assert rates.whole_requests == len(whole) == expected["llm_calls_in_window"]
    assert rates.tokens_per_s_per_user == pytest.approx(expected["token_x_tps_per_user"])
    assert rates.tokens_per_s_per_gpu == pytest.approx(expected["token_y_tps_per_gpu"])
    assert rates.output_tokens_per_s_per_gpu == pytest.approx(expected["token_y_tps_per_gpu_output_only"])
    assert token_rates_of(window, known.calls, gpus=known.gpus).whole_requests == len(whole)


@pytest.mark.parametrize("known", ["batch_smaller_than_concurrency", "too_few_sessions", "attention_dp"], indirect=True)
def test_fewer_than_three_sessions_a_slot_have_no_window(known: Known) -> None:
    assert known.window is None


@dataclass(frozen=True)
class Station:
    """Performs so many jobs at once, each in the same time, in the order in which they come."""

    places: int
    service_s: float

    def sessions(self, starts_s: Sequence[float]) -> list[SessionResult]:
        free_s = [0.0] * self.places
        sessions = []
        for number, start_s in enumerate(starts_s):
            place = free_s.index(min(free_s))
            free_s[place] = max(start_s, free_s[place]) + self.service_s
            times = {"admitted_s": start_s, "start_s": start_s, "latency_s": free_s[place] - start_s}
            sessions.append(make_session_result(number, **times))
        return sessions


def open_loop_of(station: Station, *, every_s: float, sessions: int) -> Window:
    setup = make_setup(concurrency=None, arrivals="constant", rate_per_h=3600 / every_s, gpus=1)
    window = window_of(setup, station.sessions([every_s * number for number in range(sessions)]), [])
    assert window is not None
    assert window.open_loop is not None
    return window


@pytest.mark.parametrize("service_s", [30.0, 32.0, 3.0])
def test_an_open_loop_that_is_kept_up_with_gives_the_rate_and_the_latency_exactly(service_s: float) -> None:
    window = open_loop_of(Station(places=1000, service_s=service_s), every_s=5.0, sessions=200)
    loop = window.open_loop

    assert loop is not None
    assert loop.offered_per_h_per_gpu == pytest.approx(720.0)
    assert window.jobs_per_h_per_gpu == pytest.approx(720.0)
    assert window.jobs == pytest.approx(loop.arrivals)
    assert window.jobs_per_h_per_user == pytest.approx(3600 / service_s)
    assert loop.mean_in_flight == pytest.approx(service_s / 5.0)
    assert loop.latency_growth == pytest.approx(0.0, abs=1e-9)
    assert loop.overloaded is False


def test_an_open_loop_that_is_not_kept_up_with_says_so_and_whole_jobs_are_what_is_done() -> None:
    window = open_loop_of(Station(places=2, service_s=20.0), every_s=5.0, sessions=201)
    loop = window.open_loop

    assert loop is not None
    assert loop.overloaded is True
    assert loop.latency_growth == pytest.approx(1.0, rel=0.01)
    assert loop.offered_per_h_per_gpu == pytest.approx(720.0)
    assert window.whole_jobs_per_h_per_gpu == pytest.approx(360.0, rel=0.02)
    assert window.jobs_per_h_per_gpu == window.whole_jobs_per_h_per_gpu
    assert window.jobs_per_h_per_gpu_interval is not None
    assert window.jobs_per_h_per_gpu_interval.low < 360.0 < window.jobs_per_h_per_gpu_interval.high
    assert loop.mean_in_flight == pytest.approx(75.0, rel=0.05)  # 50 after half the time, 100 at its end


@pytest.mark.parametrize("known", ["closed_loop_C2_N8"], indirect=True)
def test_a_perfect_closed_loop_of_720_jobs_an_hour_gives_720_where_the_reference_gives_646(known: Known) -> None:
    window = known.window
    assert window is not None

    ours = metrics.jobs_per_h_per_gpu(metrics.jobs_in_window(known.jobs, window), window, gpus=1)
    whole = metrics.whole_jobs_in_window(known.jobs, known.reference_window)

    assert ours == 720.0
    assert round(metrics.jobs_per_h_per_gpu(whole, known.reference_window, gpus=1)) == 646
    tokens = token_rates_of(window, known.calls, gpus=1)
    assert tokens.tokens_per_s_per_gpu == pytest.approx(2 * (1000 + 2000 + 2 * 101) / 10)


def sessions_of(jobs: Sequence[Interval]) -> list[SessionResult]:
    """Return completed sessions, let in when their jobs began."""
    return [
        make_session_result(number, admitted_s=job.start_s, start_s=job.start_s, latency_s=job.length_s)
        for number, job in enumerate(jobs)
    ]


def rates_of(jobs: Sequence[Interval], *, concurrency: int, gpus: int = 1, seed: int = 0) -> Window:
    window = window_of(make_setup(concurrency=concurrency, gpus=gpus, seed=seed), sessions_of(jobs), [])
    assert window is not None
    return window


def closed_loop(random: np.random.Generator, *, sessions: int, variation: float) -> list[Interval]:
    """Return jobs of gamma distributed latencies, each begun when a place is free: in the long run C / mean latency."""
    free_s, jobs = [0.0] * CONCURRENCY, []
    shape = 1 / variation**2
    for latency_s in random.gamma(shape, MEAN_LATENCY_S / shape, size=sessions):
        start_s = heapq.heappop(free_s)
        jobs.append(Interval(start_s, start_s + float(latency_s)))
        heapq.heappush(free_s, jobs[-1].end_s)
    return jobs


@pytest.mark.parametrize("known", ["closed_loop_C2_N8", "uneven_C2_N7"], indirect=True)
def test_the_summary_s_window_has_the_known_rates_and_they_lie_in_their_intervals(known: Known) -> None:
    found = rates_of(known.jobs, concurrency=known.concurrency, gpus=known.gpus)
    window = known.window
    assert window is not None
    done, taken_s = seconds_by_step(known.jobs, window)
    per_h = 3600 * done / window.length_s / known.gpus

    assert (found.opens_s, found.closes_s) == (window.start_s, window.end_s)
    assert found.jobs_per_h_per_gpu == pytest.approx(per_h)
    assert found.jobs_per_h_per_user == pytest.approx(3600 * done / taken_s)
    for bounds, rate in (
        (found.jobs_per_h_per_gpu_interval, found.jobs_per_h_per_gpu),
        (found.jobs_per_h_per_user_interval, found.jobs_per_h_per_user),
        (found.mean_job_latency_interval_s, found.mean_job_latency_s),
    ):
        assert bounds is not None
        assert bounds.low - 1e-9 <= rate <= bounds.high + 1e-9


def test_a_perfect_closed_loop_is_known_without_a_doubt() -> None:
    jobs = [Interval(5.0 * start, 5.0 * start + 10.0) for start in range(20)]

    found = rates_of(jobs, concurrency=2)

    assert found.jobs_per_h_per_gpu == 720.0
    for bounds, rate in (
        (found.jobs_per_h_per_gpu_interval, 720.0),
        (found.jobs_per_h_per_user_interval, 360.0),
        (found.mean_job_latency_interval_s, 10.0),
    ):
        assert bounds is not None
        assert (bounds.low, bounds.high) == pytest.approx((rate, rate))


@pytest.mark.parametrize("sessions", [20, 50, 200])
def test_of_closed_loops_of_a_known_rate_95_of_100_intervals_hold_it(sessions: int) -> None:
    true_per_h = 3600 * CONCURRENCY / MEAN_LATENCY_S
    random, held = np.random.default_rng(99 + sessions), 0
    for trial in range(TRIALS):
        jobs = closed_loop(random, sessions=sessions, variation=0.4)
        bounds = rates_of(jobs, concurrency=CONCURRENCY, seed=trial).jobs_per_h_per_gpu_interval
        assert bounds is not None
        held += bounds.low <= true_per_h <= bounds.high

    assert 0.92 <= held / TRIALS <= 0.98


def test_intervals_are_as_wide_as_theory_says() -> None:
    """Of n latencies that vary by v around their mean, the mean is off by v / sqrt(n), and so is the rate."""
    random = np.random.default_rng(1)
    widths = []
    for trial in range(20):
        bounds = rates_of(
            closed_loop(random, sessions=400, variation=0.4), concurrency=CONCURRENCY, seed=trial
        ).jobs_per_h_per_gpu_interval
        assert bounds is not None
        widths.append(bounds.high - bounds.low)

    true_per_h = 3600 * CONCURRENCY / MEAN_LATENCY_S
    assert mean(widths) == pytest.approx(2 * 1.96 * 0.4 / 400**0.5 * true_per_h, rel=0.08)
