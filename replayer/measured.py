"""From what happened, on the run's clock, to the results that are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rotoscope.replayer import metrics
from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.failures import Failure
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
    status: Status,
    failure: Failure | None,
) -> SessionResult:
    """Return the result of a session from those of its requests; `admitted_s` is on the run's clock."""
    times = [_interval(request) for request in requests if request.start_s is not None]
    is_job = status == "ok" and bool(times)
    latency_s = metrics.job_latency_s(times) if is_job else None
    generating_s = metrics.generating_s(times) if is_job else None
    decode_s = metrics.decode_s(_answers(requests)) if is_job else None
    return SessionResult(
        session=place.session,
        trace=place.trace,
        admitted_s=round(admitted_s - place.run_start_s, 6),
        lag_s=None if place.planned_s is None else _seconds(admitted_s - place.run_start_s - place.planned_s),
        start_s=min((time.start_s for time in times), default=None),
        latency_s=_seconds(latency_s),
        generating_s=_seconds(generating_s),
        queue_prefill_s=None
        if generating_s is None or decode_s is None
        else _seconds(max(0.0, generating_s - decode_s)),
        decode_s=_seconds(decode_s),
        waiting_s=None if latency_s is None or generating_s is None else _seconds(latency_s - generating_s),
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


def _answers(results: Sequence[RequestResult]) -> list[Interval]:
    """Return the time of each answer, from its first token on."""
    return [
        Interval(one.start_s + one.ttft_s, one.start_s + one.latency_s)
        for one in results
        if one.start_s is not None and one.ttft_s is not None and one.latency_s is not None
    ]


def _seconds(value: float | None) -> float | None:
    """Round to microseconds, which is more than a network keeps."""
    return None if value is None else round(value, 6)
