"""The server's side of a run, over its steady-state window: hit rate by usage and by counters, tiers, cache, batch and queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rotoscope.replayer import metrics
from rotoscope.replayer.cache_use import CacheUse, answered_of, cache_use, tells_cached
from rotoscope.replayer.metrics import Interval, Level
from rotoscope.replayer.results import RequestResult
from rotoscope.replayer.server_metrics.counts import Unit, found_in_any, share
from rotoscope.replayer.server_metrics.series import ServerSample, ServerSeries
from rotoscope.replayer.stretch import counted, level_of

Over: TypeAlias = Literal["window", "run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiers:
    """What was looked up in the cache and where it was found, by counters; None where nothing is known."""

    unit: Unit
    prompt: float
    """Looked up."""
    cached: float | None
    """Found in the engine's own cache."""
    host_cached: float | None
    """Found in host memory, where the engine tells."""
    external_cached: float | None
    """Found in another tier: storage, another machine, and host memory where that is not told."""
    hit_rate: float | None
    """Of all tiers together; the next three are of each."""
    own_hit_rate: float | None
    host_hit_rate: float | None
    external_hit_rate: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSide:
    """What the server did in a stretch of time; None where it does not tell, or was not heard."""

    over: Over
    """The steady-state window, or the whole run where there is none."""
    from_s: float
    to_s: float
    usage: CacheUse
    samples: int
    """Looks at the server's metrics in that time."""
    missed: int
    """Looks of the whole run that gave nothing."""
    counters: Tiers | None
    kv_usage: Level | None
    """Share of the KV cache in use, of the fullest rank."""
    host_usage: Level | None
    """Share of the host tier in use."""
    running: Level | None
    """Requests in the batch."""
    waiting: Level | None
    """Requests in the queue."""
    max_batch: int | None
    """Most requests in the batch."""
    batch_fill: float | None
    """Mean running / most."""
    request_queue_s: float | None
    """Mean time in the queue of a request."""
    request_prefill_s: float | None
    """Mean time from there to its first token."""


def server_side_of(
    requests: Sequence[RequestResult],
    optimal_tokens: Sequence[int],
    *,
    window: Interval | None,
    duration_s: float,
    series: ServerSeries | None,
    max_batch: int | None,
) -> ServerSide:
    """Return the server's side of the window, or of the whole run; `max_batch` is what is known beside the metrics."""
    stretch = window or Interval(0.0, duration_s)
    looked = answered_of(requests, optimal_tokens)
    samples = series.samples if series else []
    running = level_of(samples, "running", stretch)
    max_batch = max_batch or (series.source.start.max_batch if series else None)
    return ServerSide(
        over="window" if window else "run",
        from_s=stretch.start_s,
        to_s=round(stretch.end_s, 6),
        usage=cache_use(looked, stretch, is_told=tells_cached(looked)),
        samples=sum(stretch.start_s < sample.at_s <= stretch.end_s for sample in samples),
        missed=series.missed if series else 0,
        counters=_tiers(samples, stretch, series.source.start.unit) if series else None,
        kv_usage=level_of(samples, "kv_usage", stretch),
        host_usage=level_of(samples, "host_usage", stretch),
        running=running,
        waiting=level_of(samples, "waiting", stretch),
        max_batch=max_batch,
        batch_fill=metrics.batch_fill(running.mean, max_batch) if running and max_batch else None,
        request_queue_s=_mean(samples, "queue_s", "queued_requests", stretch=stretch),
        request_prefill_s=_mean(samples, "prefill_s", "prefilled_requests", stretch=stretch),
    )


def _tiers(samples: Sequence[ServerSample], stretch: Interval, unit: Unit) -> Tiers | None:
    prompt, cached, host, external = (
        counted(samples, name, stretch) for name in ("prompt", "cached", "host_cached", "external_cached")
    )
    if prompt is None:
        return None
    return Tiers(
        unit=unit,
        prompt=prompt,
        cached=cached,
        host_cached=host,
        external_cached=external,
        hit_rate=share(found_in_any(cached, host, external), prompt),
        own_hit_rate=share(cached, prompt),
        host_hit_rate=share(host, prompt),
        external_hit_rate=share(external, prompt),
    )


def _mean(samples: Sequence[ServerSample], seconds: str, requests: str, *, stretch: Interval) -> float | None:
    return share(counted(samples, seconds, stretch), counted(samples, requests, stretch))
