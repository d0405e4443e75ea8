"""A run over time, in twenty parts: hit rate by usage and counters beside the optimum, cache, batch and queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from rotoscope.replayer.cache_use import Looked, answered_of, cache_use, tells_cached
from rotoscope.replayer.metrics import Interval, Level
from rotoscope.replayer.results import RequestResult
from rotoscope.replayer.server_metrics.counts import found_in_any, share
from rotoscope.replayer.server_metrics.series import ServerSample
from rotoscope.replayer.stretch import counted, level_of

_BINS = 20
_BARS = "▁▂▃▄▅▆▇█"
_NOTHING = "·"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """One part of the run; the fields are the keys of its line, None where nothing is known."""

    start_s: float
    end_s: float
    requests: int
    """Answered ones whose first token came in this time; so are the tokens of the next three, by usage."""
    prompt_tokens: int
    cached_tokens: int | None
    optimal_tokens: int
    hit_rate: float | None
    """By usage; None where no prompt was looked up."""
    optimal_hit_rate: float | None
    counted_prompt: float | None
    """Looked up in the cache by counters; the next three were found, in the engine's own, in host memory, elsewhere."""
    counted_cached: float | None
    counted_host_cached: float | None
    counted_external_cached: float | None
    counted_hit_rate: float | None
    """In all tiers, by counters."""
    kv_usage: float | None
    """Mean; so are the next two."""
    running: float | None
    waiting: float | None


def timeline_of(
    requests: Sequence[RequestResult],
    optimal_tokens: Sequence[int],
    samples: Sequence[ServerSample],
    *,
    duration_s: float,
    bins: int = _BINS,
) -> list[Bin]:
    """Return the parts of a run, all as long; none of a run that took no time."""
    if duration_s <= 0:
        return []
    looked = answered_of(requests, optimal_tokens)
    is_told = tells_cached(looked)
    edges = [duration_s * number / bins for number in range(bins)]
    stretches = [Interval(*pair) for pair in pairwise([*edges, duration_s])]
    return [_bin(stretch, looked, samples, is_told=is_told) for stretch in stretches]


def sparkline(values: Sequence[float | None], *, top: float | None = None) -> str:
    """Return values as bars, of which the highest is `top`, or the highest of them; a point where there is none."""
    highest = top or max((value for value in values if value is not None), default=0.0)
    return "".join(_NOTHING if value is None else _bar(value / highest if highest else 0.0) for value in values)


def _bar(share_of_top: float) -> str:
    return _BARS[min(int(share_of_top * len(_BARS)), len(_BARS) - 1)]


def _bin(stretch: Interval, looked: Sequence[Looked], samples: Sequence[ServerSample], *, is_told: bool) -> Bin:
    use = cache_use(looked, stretch, is_told=is_told)
    prompt, cached, host, external = (
        counted(samples, name, stretch) for name in ("prompt", "cached", "host_cached", "external_cached")
    )
    return Bin(
        start_s=round(stretch.start_s, 6),
        end_s=round(stretch.end_s, 6),
        requests=use.requests,
        prompt_tokens=use.prompt_tokens,
        cached_tokens=use.cached_tokens,
        optimal_tokens=use.optimal_tokens,
        hit_rate=use.hit_rate,
        optimal_hit_rate=use.optimal_hit_rate,
        counted_prompt=prompt,
        counted_cached=cached,
        counted_host_cached=host,
        counted_external_cached=external,
        counted_hit_rate=share(found_in_any(cached, host, external), prompt),
        kv_usage=_mean(level_of(samples, "kv_usage", stretch)),
        running=_mean(level_of(samples, "running", stretch)),
        waiting=_mean(level_of(samples, "waiting", stretch)),
    )


def _mean(level: Level | None) -> float | None:
    return None if level is None else level.mean
