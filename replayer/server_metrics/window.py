"""What a server counted between the beginning and the end of a run."""

from __future__ import annotations

import asyncio
from typing import Self

import aiohttp
from yarl import URL

from rotoscope.replayer.server_metrics.counts import Growth, ServerMetrics, growth
from rotoscope.replayer.server_metrics.scrape import Endpoint, find_metrics, scrape
from rotoscope.replayer.server_metrics.series import Source

_LONGEST_S = 2.0
"""Metrics are worth no longer a wait; beside a run, looks may then be ten seconds from one another at most."""
_LOOKS = 5


class CountedWindow:
    """A stretch of time over which a server's counters are watched, where it has some."""

    def __init__(self, source: Source | None) -> None:
        self.source = source
        self._last: ServerMetrics | None = None

    @classmethod
    async def opened(cls, http: aiohttp.ClientSession, api: URL, *, timeout_s: float) -> Self:
        """Look for the metrics of the server whose API is at `api`, and begin."""
        timeout_s = min(timeout_s, _LONGEST_S)
        found = await find_metrics(http, api, timeout_s=timeout_s)
        if not isinstance(found, Endpoint):
            return cls(None)

        async def read() -> ServerMetrics | None:
            now = await scrape(http, found.url, timeout_s=timeout_s)
            return now if isinstance(now, ServerMetrics) else None

        return cls(Source(found.metrics, read))

    async def growth(self, *, expected_tokens: int = 0, pause_s: float = 0.1) -> Growth | None:
        """Return what was counted so far; None where the server has no metrics, or no longer.

        Counters may lag behind the answers: while fewer prompt tokens are counted than `expected_tokens`, they are
        looked at again a few times, `pause_s` apart.
        """
        counted: Growth | None = None
        for look in range(_LOOKS if self.source else 0):
            if look:
                await asyncio.sleep(pause_s)
            counted = await self._look()
            if counted is None or counted.prompt is None or counted.prompt >= expected_tokens:
                break
            if counted.unit == "blocks":
                break
        return counted

    async def begin(self, *, expected_tokens: int, pause_s: float = 0.1) -> None:
        """Begin anew behind what was sent so far, of which at least `expected_tokens` prompt tokens are to be counted."""
        await self.growth(expected_tokens=expected_tokens, pause_s=pause_s)
        if self.source is not None and self._last is not None:
            self.source.start = self._last

    async def _look(self) -> Growth | None:
        assert self.source is not None
        self._last = await self.source.read()
        return None if self._last is None else growth(self.source.start, self._last)
