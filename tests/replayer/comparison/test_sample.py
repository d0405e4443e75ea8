from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from noisy_runs import Machine, replay_on
from replay_doubles import make_request_result, make_results, make_session_result

from rotoscope.replayer.comparison.sample import sample_of
from rotoscope.replayer.failures import FailureKind
from rotoscope.replayer.limits import Limits
from rotoscope.replayer.reading import read_results


def test_a_failed_session_has_time_in_the_window_and_no_job() -> None:
    sessions = [make_session_result(number) for number in range(4)]
    sessions[1] = make_session_result(1, status="failed", latency_s=None, failure=FailureKind.SERVER_ERROR)
    requests = [make_request_result(session=number, start_s=10.0 * number, latency_s=10.0) for number in range(4)]

    sample = sample_of(make_results(sessions, requests), (0, 1, 2, 3), completed=frozenset({0, 2, 3}))

    assert sample.window is not None
    assert sample.window.gpu_seconds == 40.0
    assert list(sample.window.jobs) == [0.0, 0.0, 1.0, 0.0]
    assert list(sample.window.worked_s) == [0.0, 0.0, 10.0, 0.0]
    assert list(sample.window.taken_s) == [0.0, 10.0, 10.0, 0.0]
    np.testing.assert_array_equal(sample.latency_s, [10.0, np.nan, 10.0, 10.0])


def test_sessions_stand_in_the_order_given_and_those_left_out_take_no_part() -> None:
    sessions = [make_session_result(number, latency_s=1.0 + number) for number in range(4)]
    requests = [make_request_result(session=number, ttft_s=float(number)) for number in range(4)]

    sample = sample_of(make_results(sessions, requests), (2, 0), completed=frozenset({0, 1, 2, 3}))

    assert list(sample.latency_s) == [3.0, 1.0]
    assert list(sample.ttft_s) == [0.0, 2.0]
    assert list(sample.owners) == [1, 0]


def test_what_is_not_told_is_not_known() -> None:
    requests = [make_request_result(cached_tokens=None, itl_s=None)]

    sample = sample_of(
        make_results([make_session_result(0)], requests, concurrency=None), (0,), completed=frozenset({0})
    )

    assert sample.cached_tokens is None
    assert sample.good is None
    assert sample.window is None
    assert np.isnan(sample.itl_s[0])


def test_failed_requests_are_no_good_answers_and_cancelled_ones_are_not_counted() -> None:
    requests = [
        make_request_result(ttft_s=0.1),
        make_request_result(ttft_s=9.0),
        make_request_result(status="failed", failure=FailureKind.REFUSED),
        make_request_result(status="cancelled"),
    ]

    sample = sample_of(
        make_results([make_session_result(0)], requests, limits=Limits(ttft_s=1.0)), (0,), completed=frozenset({0})
    )

    assert sample.good is not None
    assert (list(sample.good), list(sample.ended)) == ([1.0], [3.0])


def test_tokens_count_with_their_share_in_the_window(tmp_path: Path) -> None:
    summary = replay_on(Machine(), tmp_path / "a", noise=1, sessions=20)
    results = read_results(tmp_path / "a")

    sample = sample_of(results, range(20), completed=frozenset(range(20)))

    assert sample.window is not None
    assert summary.window is not None
    rate = sample.window.tokens.sum() / sample.window.gpu_seconds
    assert rate == pytest.approx(summary.window.tokens.tokens_per_s_per_gpu)
