"""Do the server's own counters agree with what the answers told?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import aiohttp

from rotoscope.replayer.doctor.asking import Asker
from rotoscope.replayer.doctor.checks import Check, Known, none, ok, warn
from rotoscope.replayer.server_metrics.counts import Growth, ServerMetrics, growth
from rotoscope.replayer.server_metrics.scrape import Endpoint, NoMetrics, scrape

_LOOKS = 4
"""Counters may lag behind the answers by a step of the engine or a tick of its log."""


def check_endpoint(found: Endpoint | NoMetrics, known: Known) -> Check:
    """Say whether there are metrics, and whose."""
    if isinstance(found, NoMetrics):
        advice = "SGLang: --enable-metrics, llama.cpp: --metrics"
        return none("metrics", found.reason, advice)
    known.family = found.metrics.family
    return ok("metrics", f"{found.url.path}, those of {found.metrics.family}")


class Counters:
    """The counters of a server, looked at again and again."""

    def __init__(self, http: aiohttp.ClientSession, endpoint: Endpoint, *, timeout_s: float, pause_s: float) -> None:
        """`pause_s` stands between looks at counters that lag behind."""
        self.start = endpoint.metrics
        self.tells_cached = endpoint.metrics.cached is not None and endpoint.metrics.unit == "tokens"
        self._http = http
        self._url = endpoint.url
        self._last = endpoint.metrics
        self._timeout_s = timeout_s
        self._pause_s = pause_s

    async def look(self) -> None:
        """Take the counters as they are for the start of the next request."""
        now = await self._scrape()
        self._last = now if isinstance(now, ServerMetrics) else self._last

    async def of_last(self, prompt_tokens: int) -> int | None:
        """Return the cached tokens of the one request since the last look; None if others were served, too."""
        counted = await self.growth_since(self._last, until=lambda found: (found.prompt or 0) >= prompt_tokens)
        await self.look()
        if isinstance(counted, NoMetrics) or counted.prompt != prompt_tokens or counted.found is None:
            return None
        return int(counted.found)

    async def growth_since(self, before: ServerMetrics, *, until: Callable[[Growth], bool]) -> Growth | NoMetrics:
        """Return the growth since then, as soon as it is what was waited for, or after a few looks as it is."""
        for left in reversed(range(_LOOKS)):
            after = await self._scrape()
            if isinstance(after, NoMetrics):
                return after
            counted = growth(before, after)
            if not left or until(counted):
                break
            await asyncio.sleep(self._pause_s)
        return counted

    async def _scrape(self) -> ServerMetrics | NoMetrics:
        return await scrape(self._http, self._url, timeout_s=self._timeout_s)


async def check_counters(asker: Asker, counters: Counters) -> Check:
    """Compare the growth of the counters since their start with the usage of all requests since then."""
    name = "counters"
    counted = await counters.growth_since(counters.start, until=lambda found: _agree(found, asker))
    if isinstance(counted, NoMetrics):
        return warn(name, f"the second time: {counted.reason}", "no hit rate by counters")
    if counted.restarted:
        return warn(name, "they began anew meanwhile", "no hit rate by counters")
    if counted.prompt is None or counted.found is None:
        return none(name, f"{counted.family} tells no prompt or cached tokens")
    seen = f"{counted.found:,.0f} of {counted.prompt:,.0f} {counted.unit} cached"
    if asker.uncounted or not asker.prompt_tokens:
        return none(name, f"{seen}; not all answers tell theirs, to compare")
    by_usage = f"by usage {asker.cached_tokens:,} of {asker.prompt_tokens:,} tokens"
    if counted.unit == "blocks":
        return ok(name, f"{seen}, {by_usage}")
    if _agree(counted, asker):
        agreed = "agree with usage" if asker.tells_cached else "agree with the prompt tokens of usage"
        return ok(name, f"{agreed}: {seen}")
    return warn(name, f"{seen}, {by_usage}", "the server serves others too, or several servers answer")


def _agree(counted: Growth, asker: Asker) -> bool:
    return counted.prompt == asker.prompt_tokens and (counted.found == asker.cached_tokens or not asker.tells_cached)
