"""The server's side of a run as rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rotoscope.replayer.metrics import Level
from rotoscope.replayer.queueing import Queueing
from rotoscope.replayer.server_side import ServerSide, Tiers
from rotoscope.replayer.timeline import Bin, sparkline


def queueing_rows(queueing: Queueing | None) -> Iterator[tuple[str, str, str]]:
    """Yield queue and prefill of a job apart."""
    if queueing is None or queueing.job_queue_s is None:
        return
    shares = "share of the queue in a request's queue and prefill by the server"
    if queueing.told == "prefill":
        shares = "what is left of the TTFT beside the prefill that the server tells"
    yield "      queue", f"{queueing.job_queue_s:,.3f} s", shares
    yield "      prefill", f"{queueing.job_prefill_s:,.3f} s", "the rest"


def server_rows(server: ServerSide) -> Iterator[tuple[str, str, str]]:
    """Yield what the server did in the stretch of time that its numbers are of."""
    if server.over == "window" and server.usage.requests:
        optimum = f"optimum {_rate(server.usage.optimal_hit_rate)}, of {server.usage.prompt_tokens:,} prompt tokens"
        yield "hit rate in the window", _rate(server.usage.hit_rate), optimum
    if server.counters:
        yield "  tiers, by counters", _rate(server.counters.hit_rate), _tiers(server.counters)
    where = "in the window" if server.over == "window" else "over the run"
    if server.kv_usage:
        yield "KV cache in use", f"{server.kv_usage.mean:.1%}", f"mean {where}, {server.kv_usage.max:.1%} at most"
    if server.host_usage:
        yield "  host tier in use", f"{server.host_usage.mean:.1%}", f"{server.host_usage.max:.1%} at most"
    if server.running:
        yield "requests running", f"{server.running.mean:,.1f}", f"mean {where}, {_half(server.running)}"
    if server.batch_fill is not None:
        yield "  batch fill", f"{server.batch_fill:.1%}", f"mean running of a batch of {server.max_batch:,}"
    if server.waiting:
        yield "requests waiting", f"{server.waiting.mean:,.1f}", f"mean {where}, {_half(server.waiting)}"


def timeline_rows(bins: Sequence[Bin]) -> Iterator[tuple[str, str, str]]:
    """Yield the run over time, where its server was looked at."""
    if not any(one.running is not None or one.counted_prompt is not None for one in bins):
        return
    seconds = f"{len(bins)} parts of {bins[0].end_s - bins[0].start_s:,.2f} s"
    yield "over time", "", seconds
    yield "  hit rate", sparkline([_measured(one) for one in bins], top=1.0), "of 1"
    yield "  optimum", sparkline([one.optimal_hit_rate for one in bins], top=1.0), "of 1"
    for name, values in (
        ("  KV cache", [one.kv_usage for one in bins]),
        ("  running", [one.running for one in bins]),
        ("  waiting", [one.waiting for one in bins]),
    ):
        told = [value for value in values if value is not None]
        if any(told):
            yield name, sparkline(values), f"of {max(told):,.2f}"


def _measured(one: Bin) -> float | None:
    return one.counted_hit_rate if one.hit_rate is None and one.cached_tokens is None else one.hit_rate


def _tiers(tiers: Tiers) -> str:
    parts = [
        (tiers.own_hit_rate, "in the engine's own cache"),
        (tiers.host_hit_rate, "in host memory"),
        (tiers.external_hit_rate, "in other tiers"),
    ]
    return ", ".join(f"{rate:.4f} {where}" for rate, where in parts if rate is not None)


def _half(level: Level) -> str:
    return f"{level.p50:,.0f} or fewer half of the time, {level.max:,.0f} at most"


def _rate(rate: float | None) -> str:
    return "not reported" if rate is None else f"{rate:.4f}"
