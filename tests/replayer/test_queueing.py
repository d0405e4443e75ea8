from __future__ import annotations

from typing import Any

import pytest
from replay_doubles import make_request_result

from rotoscope.replayer.queueing import Queueing, queueing_of
from rotoscope.replayer.results import RequestResult
from rotoscope.replayer.server_metrics.counts import Growth

ANSWERED = [make_request_result(ttft_s=1.0), make_request_result(ttft_s=3.0)]


def growth_of(**told: float | None) -> Growth:
    fields: dict[str, Any] = {"family": "vllm", "unit": "tokens", "restarted": False, "prompt": 1.0, "cached": 0.0}
    return Growth(**(fields | {"external_cached": None, "output_tokens": None, "preemptions": None} | told))


def test_a_job_s_time_before_its_answers_divides_as_that_of_requests_does() -> None:
    counted = growth_of(queue_s=6.0, queued_requests=2.0, prefill_s=4.0, prefilled_requests=4.0)

    assert queueing_of(counted, ANSWERED, job_queue_prefill_s=20.0) == Queueing(
        told="queue and prefill",
        request_queue_s=3.0,
        request_prefill_s=1.0,
        job_queue_s=15.0,
        job_prefill_s=5.0,
    )


def test_of_the_prefill_alone_the_queue_is_what_is_left_of_the_time_to_first_token() -> None:
    assert queueing_of(growth_of(prefill_s=1.0), ANSWERED, job_queue_prefill_s=8.0) == Queueing(
        told="prefill",
        request_queue_s=1.5,
        request_prefill_s=0.5,
        job_queue_s=6.0,
        job_prefill_s=2.0,
    )


def test_a_prefill_that_is_longer_than_the_time_to_first_token_leaves_no_queue() -> None:
    queueing = queueing_of(growth_of(prefill_s=10.0), ANSWERED, job_queue_prefill_s=8.0)

    assert queueing is not None
    assert (queueing.request_queue_s, queueing.job_queue_s, queueing.job_prefill_s) == (0.0, 0.0, 8.0)


@pytest.mark.parametrize(
    "requests",
    [[*ANSWERED, make_request_result(status="failed", ttft_s=None)], []],
    ids=["one failed", "none"],
)
def test_a_sum_that_holds_requests_without_a_first_token_is_no_mean(requests: list[RequestResult]) -> None:
    assert queueing_of(growth_of(prefill_s=1.0), requests, job_queue_prefill_s=8.0) is None


@pytest.mark.parametrize(
    "counted",
    [
        None,
        growth_of(),
        growth_of(queue_s=6.0, queued_requests=2.0),
        growth_of(queue_s=0.0, queued_requests=0.0, prefill_s=0.0, prefilled_requests=0.0),
        growth_of(queue_s=6.0, queued_requests=2.0, prefill_s=4.0, prefilled_requests=4.0, restarted=True),
    ],
    ids=["no metrics", "none told", "queue only", "none counted", "restarted"],
)
def test_where_the_server_does_not_tell_they_are_one(counted: Growth | None) -> None:
    assert queueing_of(counted, ANSWERED, job_queue_prefill_s=8.0) is None


def test_without_a_job_the_times_of_requests_are_told() -> None:
    counted = growth_of(queue_s=6.0, queued_requests=2.0, prefill_s=4.0, prefilled_requests=4.0)
    queueing = queueing_of(counted, ANSWERED, job_queue_prefill_s=None)

    assert queueing is not None
    assert (queueing.request_queue_s, queueing.job_queue_s, queueing.job_prefill_s) == (3.0, None, None)
