"""From what happened, on the run's clock, to the results that are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rotoscope.replayer import metrics
from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.failures import Failure
from rotoscope.replayer.job_path import Path
from rotoscope.replayer.metrics import Interval
from rotoscope.replayer.results import RequestResult, SessionResult, Status
from rotoscope.traces.model import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in a run a session stands."""

    session: int
    trace: int
    run_start_s: float
    """On the run's clock; results count from there."""
    planned_s: float | None = None
    """When it was to be let in, from the start of the run; None where that depends on others."""
    simulated: bool = False


def request_result(
    place: Place, call: Call, exchange: Exchange, *, due_s: float, status: Status, failure: Failure | None
) -> RequestResult:
    """Return the result of a request, answered or not; `due_s` is when it was to be sent, on the run's clock."""
    return RequestResult(
        session=place.session,
        trace=place.trace,
        call=call.call,
        branch=call.branch,
        start_s=None if exchange.sent_s is None else _seconds(exchange.sent_s - place.run_start_s),
        lag_s=None if exchange.sent_s is None else _seconds(max(0.0, exchange.sent_s - due_s)),
        ttft_s=_seconds(_ttft_s(exchange)),
        ttfo_s=_seconds(_ttfo_s(exchange)),
        itl_s=_seconds(_itl_s(exchange)),
        latency_s=_seconds(_latency_s(exchange)),
        prompt_tokens=exchange.prompt_tokens,
        completion_tokens=exchange.counted_tokens,
        cached_tokens=exchange.cached_tokens,
        planned_prompt_tokens=call.prompt_tokens,
        planned_completion_tokens=call.completion_tokens,
        asked_tokens=exchange.output_tokens,
        isl_mismatch=exchange.prompt_tokens not in (None, call.prompt_tokens),
        osl_mismatch=status == "ok" and exchange.counted_tokens not in (None, exchange.output_tokens),
        status=status,
        failure=failure.kind if failure else None,
        http_status=failure.http_status if failure else None if exchange.answered_s is None else 200,
        error_type=failure.error_type if failure else None,
        error_code=failure.error_code if failure else None,
        simulated=place.simulated,
    )


def session_result(
    place: Place,
    requests: Sequence[RequestResult],
    *,
    admitted_s: float,
    last: Path | None = None,
    join_wait_s: float = 0.0,
    status: Status,
    failure: Failure | None,
) -> SessionResult:
    """Return the result of a session from those of its requests; `admitted_s` is on the run's clock.

    `last` led to its last answer.
    """
    times = [_interval(request) for request in requests if request.start_s is not None]
    is_job = status == "ok" and bool(times)
    latency_s = metrics.job_latency_s(times) if is_job else None
    start_s = min((time.start_s for time in times), default=None)
    split = None
    if is_job and last is not None and start_s is not None:
        split = last.split_from(place.run_start_s + start_s).rounded()
    return SessionResult(
        session=place.session,
        trace=place.trace,
        admitted_s=round(admitted_s - place.run_start_s, 6),
        lag_s=None if place.planned_s is None else _seconds(admitted_s - place.run_start_s - place.planned_s),
        start_s=start_s,
        latency_s=_seconds(latency_s),
        generating_s=_seconds(split and split.generating_s),
        queue_prefill_s=_seconds(split and split.queue_prefill_s),
        decode_s=_seconds(split and split.decode_s),
        waiting_s=_seconds(split and split.waiting_s),
        tool_s=_seconds(split and split.tool_s),
        client_s=_seconds(split and split.client_s),
        overhead_s=_seconds(split and split.overhead_s),
        join_wait_s=_seconds(join_wait_s) if is_job else None,
        requests=len(requests),
        status=status,
        failure=failure.kind if failure else None,
        simulated=place.simulated,
    )


def _ttft_s(exchange: Exchange) -> float | None:
    if exchange.sent_s is None or exchange.first_token_s is None:
        return None
    return metrics.ttft_s(exchange.sent_s, exchange.first_token_s)


def _ttfo_s(exchange: Exchange) -> float | None:
    if exchange.sent_s is None or exchange.first_output_s is None:
        return None
    return metrics.ttfo_s(exchange.sent_s, exchange.first_output_s)


def _itl_s(exchange: Exchange) -> float | None:
    if exchange.first_token_s is None or exchange.last_token_s is None:
        return None
    return metrics.itl_s(
        exchange.first_token_s,
        exchange.last_token_s,
        output_tokens=exchange.delivered_tokens,
        first_event_tokens=exchange.first_event_tokens,
    )


def _latency_s(exchange: Exchange) -> float | None:
    if exchange.sent_s is None or exchange.ended_s is None:
        return None
    return metrics.latency_s(exchange.sent_s, exchange.ended_s)


def _interval(result: RequestResult) -> Interval:
    assert result.start_s is not None
    return Interval(result.start_s, result.start_s + (result.latency_s or 0.0))


def _seconds(value: float | None) -> float | None:
    """Round to microseconds, which is more than a network keeps."""
    return None if value is None else round(value, 6)
