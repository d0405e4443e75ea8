"""What a server tells of itself over a run: samples of its counters and gauges, beside the run and out of its way.

A look that fails leaves no sample: a gap, which is no zero. Counters are told from the start of the run on; one that
begins anew, or is gone, is not known from then on, because a part of it is lost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import TypeAlias

from rotoscope.replayer.clock import LoopClock
from rotoscope.replayer.polling import Interval, interval_s, looking
from rotoscope.replayer.results import SERVER_FILE, ResultsFolder
from rotoscope.replayer.server_metrics.counts import (
    COUNTERS,
    GAUGES,
    Counter,
    ServerMetrics,
    counter_growth,
    found_in_any,
)

Read: TypeAlias = Callable[[], Awaitable[ServerMetrics | None]]


@dataclass(slots=True)
class Source:
    """Where samples come from: an endpoint, or a server within this process."""

    start: ServerMetrics
    """What the server told before the run."""
    read: Read
    """Tells what it is now; None where nothing came."""
    interval: Interval = interval_s
    """Between looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSample:
    """A server at one moment; the fields are the keys of its line, None where the server does not tell.

    Counts are those since the start of the run, in tokens (`prompt` and what was found in blocks, where the engine counts
    no tokens), requests and seconds.
    """

    at_s: float
    """From the start of the run: the middle between asking and the answer."""
    prompt: float | None = None
    """Looked up in the cache; the next three are what was found in the engine's own, in host memory, elsewhere."""
    cached: float | None = None
    host_cached: float | None = None
    external_cached: float | None = None
    output_tokens: float | None = None
    preemptions: float | None = None
    queue_s: float | None = None
    queued_requests: float | None = None
    prefill_s: float | None = None
    prefilled_requests: float | None = None
    kv_usage: float | None = None
    """Share of the KV cache in use."""
    host_usage: float | None = None
    """Share of the host tier in use."""
    running: float | None = None
    """Requests in the batch."""
    waiting: float | None = None
    """Requests in the queue."""

    @property
    def found(self) -> float | None:
        """Return what was found in any tier."""
        return found_in_any(self.cached, self.host_cached, self.external_cached)


class Tally:
    """What counters have counted since a start, taken step by step so that one that begins anew is noticed."""

    def __init__(self, start: ServerMetrics) -> None:
        self._last = start
        self._counted = {name: None if getattr(start, name) is None else 0.0 for name in COUNTERS}
        self._lost: set[str] = set()

    def counted(self, now: ServerMetrics) -> dict[str, float | None]:
        """Take a step and return all counts by name."""
        if now.family != self._last.family or now.unit != self._last.unit:
            self._lost |= set(COUNTERS)
        for name in COUNTERS:
            self._add(name, getattr(self._last, name), getattr(now, name))
        self._last = now
        return {name: None if name in self._lost else value for name, value in self._counted.items()}

    def _add(self, name: str, before: Counter | None, after: Counter | None) -> None:
        step = counter_growth(before, after)
        if step is not None:
            self._counted[name] = (self._counted[name] or 0.0) + step
        elif before is not None:
            self._lost.add(name)


class ServerSeries:
    """The samples of a run, from the start on, where all is zero and nothing has been asked yet."""

    def __init__(
        self, source: Source, *, elapsed_s: Callable[[], float], write: Callable[[ServerSample], None]
    ) -> None:
        """Write each sample where it belongs as soon as it is there."""
        self.source = source
        self._tally = Tally(source.start)
        self._elapsed_s = elapsed_s
        self._write = write
        self.samples: list[ServerSample] = []
        self.missed = 0
        """Looks that gave no sample."""
        self._keep(ServerSample(at_s=0.0, **self._tally.counted(source.start)))

    def looking(self) -> AbstractAsyncContextManager[None]:
        """Take samples beside what is done in this context."""
        return looking(self.look, elapsed_s=self._elapsed_s, clock=LoopClock(), interval=self.source.interval)

    async def look(self) -> None:
        """Take a sample."""
        sample = await self._sample()
        if sample is None:
            self.missed += 1
        else:
            self._keep(sample)

    async def look_at_end(self, ended_s: float) -> None:
        """Take the counters as they are when the run has ended; gauges say nothing about it any more."""
        sample = await self._sample()
        if sample is not None:
            self._keep(replace(sample, at_s=round(ended_s, 6), **dict.fromkeys(GAUGES)))

    async def _sample(self) -> ServerSample | None:
        asked_s = self._elapsed_s()
        now = await self.source.read()
        if now is None:
            return None
        at_s = round((asked_s + self._elapsed_s()) / 2, 6)
        gauges = {name: getattr(now, name) for name in GAUGES}
        return ServerSample(at_s=at_s, **self._tally.counted(now), **gauges)

    def _keep(self, sample: ServerSample) -> None:
        self.samples.append(sample)
        self._write(sample)


def series_of(source: Source | None, *, elapsed_s: Callable[[], float], results: ResultsFolder) -> ServerSeries | None:
    """Return the samples of a run, which are written to the folder of its results; None without a source."""
    if source is None:
        return None
    return ServerSeries(source, elapsed_s=elapsed_s, write=lambda sample: results.write_line(SERVER_FILE, sample))
