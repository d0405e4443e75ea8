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

    def without_those_of(self, other: Counter) -> Counter:
        """Return the counter of the series that the other does not have."""
        return Counter(MappingProxyType({one: value for one, value in self.series.items() if one not in other.series}))

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
    host_cached: Counter | None = None
    """Of them those found in host memory, where the engine tells; not among the others."""
    external_prompt: Counter | None = None
    """Tokens looked up in a cache beside the engine's own: storage, another machine, a connector that tells no tier."""
    external_cached: Counter | None = None
    """Of them those found there; not among the others."""
    output_tokens: Counter | None = None
    preemptions: Counter | None = None
    """Requests that were set back because the cache was full."""
    queue_s: Counter | None = None
    """Seconds that requests were queued, summed over `queued_requests`."""
    queued_requests: Counter | None = None
    prefill_s: Counter | None = None
    """Seconds from being scheduled to the first token, summed over `prefilled_requests`."""
    prefilled_requests: Counter | None = None
    """None where the engine sums without counting."""
    kv_usage: float | None = None
    """Share of the KV cache in use, 0 to 1, of the fullest rank."""
    host_usage: float | None = None
    """Share of the host tier in use, of the fullest rank."""
    running: float | None = None
    """Requests in the batch now; of a frontend that sees no batch, those whose answer has begun."""
    waiting: float | None = None
    """Requests in the queue now; of such a frontend, those whose answer has not begun."""
    max_batch: int | None = None
    """Most requests in the batch of all replicas together."""
    block_size: int | None = None
    """Tokens a block of the KV cache."""
    capacity_tokens: int | None = None
    """What the KV cache of one engine holds."""
    replicas: int | None = None
    """Engines with a KV cache of their own."""


COUNTERS = (
    "prompt",
    "cached",
    "host_cached",
    "external_cached",
    "output_tokens",
    "preemptions",
    "queue_s",
    "queued_requests",
    "prefill_s",
    "prefilled_requests",
)
"""Fields of `ServerMetrics` whose growth is told."""
GAUGES = ("kv_usage", "host_usage", "running", "waiting")
"""Those that are what they are at the moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What was counted between two moments; None where nothing is known."""

    family: str
    unit: Unit
    restarted: bool
    """Whether a counter began anew in between, so that part of the counts is lost."""
    prompt: float | None
    cached: float | None
    host_cached: float | None = None
    external_cached: float | None
    output_tokens: float | None
    preemptions: float | None
    queue_s: float | None = None
    queued_requests: float | None = None
    prefill_s: float | None = None
    prefilled_requests: float | None = None

    @property
    def found(self) -> float | None:
        """Return what was found in any tier."""
        return found_in_any(self.cached, self.host_cached, self.external_cached)

    @property
    def hit_rate(self) -> float | None:
        """Return what was found in any tier / what was looked up, by the server's counters."""
        return share(self.found, self.prompt)


def found_in_any(cached: float | None, *other_tiers: float | None) -> float | None:
    """Return the sum over tiers; one of which nothing is told found nothing, but for the engine's own cache."""
    return None if cached is None else cached + sum(found or 0.0 for found in other_tiers)


def share(part: float | None, whole: float | None) -> float | None:
    """Return part / whole; None where one is not known, or there is nothing."""
    return part / whole if part is not None and whole else None


def growth(before: ServerMetrics, after: ServerMetrics) -> Growth:
    """Return what was counted from `before` to `after`, which are of the same server."""
    values = {name: counter_growth(getattr(before, name), getattr(after, name)) for name in COUNTERS}
    told = {name for name in COUNTERS if getattr(before, name) is not None or getattr(after, name) is not None}
    return Growth(
        family=after.family,
        unit=after.unit,
        restarted=before.family != after.family or any(values[name] is None for name in told),
        **values,
    )


def counter_growth(before: Counter | None, after: Counter | None) -> float | None:
    """Return what was counted in between; None where it is not told, or began anew."""
    if after is None:
        return None
    return after.growth_since(before or Counter(MappingProxyType({})))
