from __future__ import annotations

from dataclasses import replace

import pytest
from replay_doubles import make_request_result, make_results, make_session_result

from rotoscope.replayer.bootstrap import Bounds
from rotoscope.replayer.reading import Results
from rotoscope.replayer.slo.objectives import Objective, Reached, objectives_of, reached
from rotoscope.traces.errors import UnusableInput


def results(count: int = 12, concurrency: int = 2) -> Results:
    """Return a run whose window goes from 10 s to 50 s: before the end of its last two jobs."""
    sessions = [
        make_session_result(
            number, admitted_s=10.0 * (number // 2), start_s=10.0 * (number // 2), latency_s=10.0 + number / 100
        )
        for number in range(count)
    ]
    requests = [
        make_request_result(session=number, start_s=10.0 * (number // 2) + 5, ttft_s=0.1 * (number + 1))
        for number in range(count)
    ]
    return make_results(sessions, requests, concurrency=concurrency)


def test_percentiles_are_of_what_was_sent_in_the_steady_state() -> None:
    found = results()
    assert found.summary.window is not None
    assert (found.summary.window.opens_s, found.summary.window.closes_s) == (10.0, 50.0)

    (ttft,) = reached(found, [Objective(50, "ttft", 0.6)])

    assert ttft.value_s == pytest.approx(0.65)  # the median of 0.3 to 1.0 s: two requests were sent at 5 s, two at 55 s
    assert ttft.interval_s is not None
    assert ttft.interval_s.low < 0.6 < ttft.interval_s.high
    assert not ttft.is_met
    assert not ttft.is_sure


def test_jobs_are_those_that_were_let_in_within_it() -> None:
    (job,) = reached(results(), [Objective(99, "job_latency", 10.2)])

    assert job.value_s == pytest.approx(10.1091)
    assert job.is_met
    assert job.is_sure


@pytest.mark.parametrize(("metric", "value_s"), [("itl", 0.0125), ("tpot", 0.1), ("latency", 1.0)])
def test_every_metric_of_a_request_can_be_limited(metric: str, value_s: float) -> None:
    found = results()
    same = tuple(make_request_result(session=one.session, start_s=one.start_s, ttft_s=0.8) for one in found.requests)

    (one,) = reached(replace(found, requests=same), [Objective(95, metric, 2)])

    assert one.value_s == pytest.approx(value_s)


def test_failed_requests_have_no_times() -> None:
    found = results()
    failed = tuple(make_request_result(session=n, start_s=5.0, status="failed", ttft_s=9.0) for n in range(4))

    (one,) = reached(replace(found, requests=failed), [Objective(50, "ttft", 99.0)])

    assert one.value_s is None
    assert not one.is_met


def test_without_a_steady_state_nothing_is_reached() -> None:
    (one,) = reached(results(count=3, concurrency=2), [Objective(50, "ttft", 99.0)])

    assert (one.value_s, one.is_met, one.is_sure) == (None, False, False)


@pytest.mark.parametrize(
    ("low", "high", "met", "sure"), [(1.0, 1.9, True, True), (1.0, 2.1, True, False), (2.1, 3.0, False, True)]
)
def test_it_is_sure_where_the_limit_lies_outside_of_the_interval(
    low: float, high: float, met: bool, sure: bool
) -> None:
    one = Reached(Objective(50, "ttft", 2.0), 1.5 if met else 2.5, Bounds(low, high))

    assert (one.is_met, one.is_sure) == (met, sure)


def test_a_limit_that_is_just_reached_is_met() -> None:
    assert Reached(Objective(50, "ttft", 2.0), 2.0, None).is_met


def test_objectives_have_their_percent_and_metric() -> None:
    assert objectives_of({"p95_ttft": 2.0, "p99_job_latency": 60.0}) == (
        Objective(95, "ttft", 2.0),
        Objective(99, "job_latency", 60.0),
    )
    assert objectives_of({"p50_itl": 0.05})[0].name == "p50_itl"
    with pytest.raises(UnusableInput, match="--p95-ttft 2s"):
        objectives_of({})
