"""The counts of a server at one moment, whichever engine it is, and what they grew by between two moments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

Series: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
"""Name of a metric and the labels of one of its series, sorted."""
Unit: TypeAlias = Literal["tokens", "blocks"]


@dataclass(frozen=True, slots=True)
class Counter:
    """A count that only grows, kept by series: each rank and replica has its own and restarts by itself."""

    series: Mapping[Series, float]

    @property
    def total(self) -> float:
        """Return the sum over all series."""
        return sum(self.series.values())

    def with_those_of(self, other: Counter) -> Counter:
        """Return the counter whose total is the sum of both; they have no series in common."""
        return Counter(MappingProxyType({**self.series, **other.series}))

    def times(self, factor: float) -> Counter:
        """Return the same counts in another unit."""
        return Counter(MappingProxyType({series: value * factor for series, value in self.series.items()}))

    def growth_since(self, before: Counter) -> float | None:
        """Return what was counted since then; None where a series has restarted or is gone.

        A series that was not there before counts from 0: engines show many only once they are used.
        """
        growth = {series: value - before.series.get(series, 0.0) for series, value in self.series.items()}
        if before.series.keys() - self.series.keys() or any(value < 0 for value in growth.values()):
            return None
        return sum(growth.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMetrics:
    """What a server tells of itself at one moment; None where its engine does not tell."""

    family: str
    """Engine by the names of its metrics, a key of `FAMILIES`."""
    unit: Unit = "tokens"
    """Of the two counters that a hit rate is made of."""
    prompt: Counter | None = None
    """Prompt tokens (or blocks) looked up in the cache, those found included."""
    cached: Counter | None = None
    """Of them those found in the engine's own cache."""
    external_prompt: Counter | None = None
    """Tokens looked up in a cache beside the engine's own: host memory, storage, another machine."""
    external_cached: Counter | None = None
    """Of them those found there; they are not among `cached`."""
    output_tokens: Counter | None = None
    preemptions: Counter | None = None
    """Requests that were set back because the cache was full."""
    kv_usage: float | None = None
    """Share of the KV cache in use, 0 to 1, of the fullest rank."""
    running: float | None = None
    """Requests in the batch now."""
    waiting: float | None = None
    """Requests in the queue now."""
    block_size: int | None = None
    """Tokens a block of the KV cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What was counted between two moments; None where nothing is known."""

    family: str
    unit: Unit
    restarted: bool
    """Whether a counter began anew in between, so that part of the counts is lost."""
    prompt: float | None
    cached: float | None
    external_cached: float | None
    output_tokens: float | None
    preemptions: float | None

    @property
    def hit_rate(self) -> float | None:
        """Return what was found in any cache / what was looked up, by the server's counters."""
        if self.prompt is None or self.cached is None or self.prompt <= 0:
            return None
        return (self.cached + (self.external_cached or 0.0)) / self.prompt


def growth(before: ServerMetrics, after: ServerMetrics) -> Growth:
    """Return what was counted from `before` to `after`, which are of the same server."""
    names = ("prompt", "cached", "external_cached", "output_tokens", "preemptions")
    values = {name: _growth(getattr(before, name), getattr(after, name)) for name in names}
    told = {name for name in names if getattr(before, name) is not None or getattr(after, name) is not None}
    return Growth(
        family=after.family,
        unit=after.unit,
        restarted=before.family != after.family or any(values[name] is None for name in told),
        **values,
    )


def _growth(before: Counter | None, after: Counter | None) -> float | None:
    if after is None:
        return None
    return after.growth_since(before or Counter(MappingProxyType({})))
