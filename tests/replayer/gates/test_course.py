from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gate_evidence import evidence_of
from replay_doubles import make_session_result

from rotoscope.replayer.client_load import ClientLoad
from rotoscope.replayer.gates.course import errors, jobs, lag, least_sessions
from rotoscope.replayer.gates.evidence import Evidence
from rotoscope.replayer.metrics import Distribution
from rotoscope.replayer.results import SessionResult


def sessions_of(ok: int, failed: int = 0, cancelled: int = 0) -> list[SessionResult]:
    statuses = ["ok"] * ok + ["failed"] * failed + ["cancelled"] * cancelled
    return [make_session_result(number, status=status) for number, status in enumerate(statuses)]


@pytest.mark.parametrize(("failed", "passed"), [(0, True), (1, True), (2, False)])
def test_more_than_one_failed_session_of_a_hundred_is_too_many(failed: int, passed: bool) -> None:
    gate = errors(evidence_of(sessions=sessions_of(100 - failed, failed)))

    assert (gate.passed, gate.measured) == (passed, failed / 100)


def test_sessions_that_an_interruption_cut_off_have_not_failed() -> None:
    assert errors(evidence_of(sessions=sessions_of(1, cancelled=9), interrupted=True)).passed
    assert errors(evidence_of(sessions=sessions_of(0, cancelled=9), interrupted=True)).passed is None


def late(seconds: float, *, count: int = 100, **client: Any) -> Evidence:
    """Return evidence of sessions that were let in so late."""
    evidence = evidence_of(sessions=[make_session_result(number, lag_s=seconds) for number in range(count)])
    changed = replace(evidence.summary.client, **client)
    return replace(evidence, summary=replace(evidence.summary, client=changed))


def test_a_client_that_is_late_is_saturated() -> None:
    assert lag(late(0.02)).passed
    gate = lag(late(0.03))
    assert (gate.passed, gate.measured, gate.limit) == (False, 0.03, 0.02)
    assert "this client is saturated" in (gate.says or "")


def test_an_event_loop_that_is_late_is_enough_without_planned_starts() -> None:
    delay_s = Distribution(count=100, mean=0.03, p50=0.03, p90=0.03, p99=0.04, max=0.05)
    client = ClientLoad(loop_delay_s=delay_s, above_limit=("loop delay",))
    evidence = evidence_of()
    gate = lag(replace(evidence, summary=replace(evidence.summary, client=client)))

    assert (gate.passed, gate.measured) == (False, 0.04)


def test_late_requests_alone_may_be_the_server_s_doing() -> None:
    assert lag(late(0.0, above_limit=("request lag",))).passed


def test_few_values_have_no_99th_percentile() -> None:
    assert lag(late(0.03, count=99)).passed is None


@pytest.mark.parametrize(("sessions", "passed"), [(12, True), (11, False)])
def test_a_load_takes_ten_jobs_in_the_window(sessions: int, passed: bool) -> None:
    gate = jobs(evidence_of(sessions=sessions_of(sessions)))

    assert (gate.passed, gate.measured) == (passed, sessions - 2)


def test_a_load_without_a_window_fails_and_says_why_there_is_none() -> None:
    gate = jobs(evidence_of(concurrency=3))

    assert (gate.passed, gate.measured) == (False, 0.0)
    assert "takes at least 9 sessions" in (gate.says or "")


def test_an_interrupted_run_has_no_window() -> None:
    assert jobs(evidence_of(sessions=sessions_of(20), interrupted=True)).passed is False


@pytest.mark.parametrize(
    ("setup", "is_checked"),
    [
        ({"concurrency_assumed": True}, False),
        ({"concurrency_assumed": True, "duration_s": 5.0}, True),
        ({"concurrency_assumed": True, "concurrency": None, "arrivals": "poisson", "rate_per_h": 60.0}, True),
        ({"concurrency_assumed": False}, True),
        ({"concurrency_assumed": None}, True),
    ],
)
def test_a_run_for_which_no_load_was_asked_is_a_check(setup: dict[str, Any], is_checked: bool) -> None:
    assert (jobs(evidence_of(**setup)).passed is not None) == is_checked


@pytest.mark.parametrize("concurrency", [1, 2, 7])
def test_the_least_sessions_of_a_perfect_closed_loop_are_enough(concurrency: int) -> None:
    count = least_sessions(concurrency)
    done = [make_session_result(n // concurrency, session=n) for n in range(count)]

    assert jobs(evidence_of(sessions=done, concurrency=concurrency)).passed


@pytest.mark.parametrize(("longest_s", "passed"), [(100.0, False), (2.0, True)])
def test_a_window_in_which_long_jobs_only_begin_is_too_short(longest_s: float, passed: bool) -> None:
    starts = [(float(at), 1.0) for at in range(16)] + [(at + 0.5, 1.0) for at in range(9)] + [(9.5, longest_s)]
    done = [
        make_session_result(session=n, admitted_s=at, start_s=at, latency_s=latency_s)
        for n, (at, latency_s) in enumerate(sorted(starts))
    ]

    gate = jobs(evidence_of(sessions=done, concurrency=2))

    assert gate.passed is passed
    assert ("long ones are rare there yet" in (gate.says or "")) is not passed
