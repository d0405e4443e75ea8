"""Prompt tokens found in the cache in a stretch of the run, by usage, beside the realised optimum of the same requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rotoscope.replayer import metrics
from rotoscope.replayer.metrics import Interval
from rotoscope.replayer.results import RequestResult
from rotoscope.replayer.token_rates import isl

_SOON_S = 1e-6
"""Stretches hold their end and not their beginning, so that the last token of a run is in its last one; this is in the
first."""

Looked: TypeAlias = tuple[RequestResult, int]
"""An answered request and its optimal tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheUse:
    """Of the answered requests whose prompts were looked up in the stretch."""

    requests: int
    prompt_tokens: int
    cached_tokens: int | None
    """None where the server reports none for any request of the run."""
    hit_rate: float | None
    optimal_tokens: int
    optimal_hit_rate: float | None


def answered_of(requests: Sequence[RequestResult], optimal_tokens: Sequence[int]) -> list[Looked]:
    """Return the answered ones of these requests, each with its optimum."""
    return [(one, tokens) for one, tokens in zip(requests, optimal_tokens, strict=True) if one.status == "ok"]


def looked_up_s(request: RequestResult) -> float | None:
    """Return the moment at which a request counts, which is when its first token came; None if it was never sent.

    A prompt is looked up when its turn has come, which is between sending and the first token, and nearer to that: where
    there is a queue, most of the time before is spent in it. Engines count a prompt then, too.
    """
    if request.start_s is None:
        return None
    return request.start_s + (request.latency_s or 0.0 if request.ttft_s is None else request.ttft_s)


def cache_use(looked: Iterable[Looked], stretch: Interval, *, is_told: bool) -> CacheUse:
    """Sum up the requests that count within the stretch; `is_told` says whether the server reports cached tokens."""
    within = list(_within(looked, stretch))
    prompt_tokens = sum(isl(one) for one, _ in within)
    cached_tokens = sum(one.cached_tokens or 0 for one, _ in within) if is_told else None
    optimal_tokens = sum(tokens for _, tokens in within)
    return CacheUse(
        requests=len(within),
        prompt_tokens=prompt_tokens,
        cached_tokens=cached_tokens,
        hit_rate=None if cached_tokens is None else metrics.hit_rate(cached_tokens, prompt_tokens),
        optimal_tokens=optimal_tokens,
        optimal_hit_rate=metrics.hit_rate(optimal_tokens, prompt_tokens),
    )


def tells_cached(looked: Iterable[Looked]) -> bool:
    """Say whether the server reports cached tokens of any of these requests."""
    return any(one.cached_tokens is not None for one, _ in looked)


def _within(looked: Iterable[Looked], stretch: Interval) -> Iterator[Looked]:
    for one, tokens in looked:
        at_s = looked_up_s(one)
        if at_s is not None and stretch.start_s < max(at_s, _SOON_S) <= stretch.end_s:
            yield one, tokens
