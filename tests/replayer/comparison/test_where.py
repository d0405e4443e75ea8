from __future__ import annotations

import pytest
from replay_doubles import make_results, make_session_result

from rotoscope.replayer.comparison.where import JobPart, TraceChange, job_parts, trace_changes
from rotoscope.replayer.reading import Results
from rotoscope.replayer.results import SessionResult

EVERYONE = frozenset(range(4))


def run_of(*sessions: SessionResult) -> Results:
    return make_results(sessions)


def test_parts_of_a_job_are_means_over_the_jobs_of_both() -> None:
    a = run_of(make_session_result(0, decode_s=2.0), make_session_result(1, decode_s=4.0))
    b = run_of(make_session_result(0, decode_s=5.0), make_session_result(1, decode_s=90.0))

    assert [*job_parts([a], [b], frozenset({0}))] == [
        JobPart(part="queue_prefill_s", a_s=1.5, b_s=1.5),
        JobPart(part="decode_s", a_s=2.0, b_s=5.0),
        JobPart(part="waiting_s", a_s=4.0, b_s=4.0),
    ]


def test_parts_that_a_run_does_not_tell_are_left_out() -> None:
    a, b = run_of(make_session_result(0)), run_of(make_session_result(0, decode_s=None))

    assert [one.part for one in job_parts([a], [b], EVERYONE)] == ["queue_prefill_s", "waiting_s"]
    assert [*job_parts([a], [b], frozenset())] == []


def test_the_trace_that_changed_most_comes_first() -> None:
    a = run_of(*(make_session_result(number, trace=number % 2, latency_s=10.0) for number in range(4)))
    b = run_of(
        *(make_session_result(number, trace=number % 2, latency_s=(10.5, 8.0)[number % 2]) for number in range(4))
    )

    changes = trace_changes([a, a], [b, b], EVERYONE)

    assert changes == [
        TraceChange(trace=1, jobs=2, a_s=10.0, b_s=8.0),
        TraceChange(trace=0, jobs=2, a_s=10.0, b_s=10.5),
    ]
    assert [one.change_percent for one in changes] == pytest.approx([-20.0, 5.0])
