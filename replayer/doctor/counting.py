"""Do the server's own counters agree with what the answers told?"""

from __future__ import annotations

import asyncio

from rotoscope.replayer.doctor.asking import Asker
from rotoscope.replayer.doctor.checks import Check, Known, none, ok, warn
from rotoscope.replayer.server_metrics.counts import Growth, ServerMetrics, growth
from rotoscope.replayer.server_metrics.scrape import Endpoint, NoMetrics, scrape

_TRIES = 4
"""Counters may lag behind the answers by a step of the engine or a tick of its log."""


def check_endpoint(found: Endpoint | NoMetrics, known: Known) -> Check:
    """Say whether there are metrics, and whose."""
    if isinstance(found, NoMetrics):
        advice = "SGLang: --enable-metrics, llama.cpp: --metrics"
        return none("metrics", found.reason, advice)
    known.family = found.metrics.family
    return ok("metrics", f"{found.url.path}, those of {found.metrics.family}")


async def check_counters(asker: Asker, endpoint: Endpoint, *, pause_s: float) -> Check:
    """Compare the growth of the counters since `endpoint` was found with the usage of all requests since then."""
    name = "counters"
    counted = await _growth(asker, endpoint, pause_s)
    if isinstance(counted, NoMetrics):
        return warn(name, f"the second time: {counted.reason}", "no hit rate by counters")
    if counted.restarted:
        return warn(name, "they began anew meanwhile", "no hit rate by counters")
    if counted.prompt is None or counted.cached is None:
        return none(name, f"{counted.family} tells no prompt or cached tokens")
    seen = f"{counted.cached:,.0f} of {counted.prompt:,.0f} {counted.unit} cached"
    if asker.uncounted or not asker.prompt_tokens:
        return none(name, f"{seen}; not all answers tell theirs, to compare")
    by_usage = f"by usage {asker.cached_tokens:,} of {asker.prompt_tokens:,} tokens"
    if counted.unit == "blocks":
        return ok(name, f"{seen}, {by_usage}")
    if _agree(counted, asker):
        return ok(name, f"agree with usage: {seen}")
    return warn(name, f"{seen}, {by_usage}", "the server serves others too, or several servers answer")


async def _growth(asker: Asker, endpoint: Endpoint, pause_s: float) -> Growth | NoMetrics:
    for left in reversed(range(_TRIES)):
        after = await scrape(asker.wire.http, endpoint.url, timeout_s=asker.wire.timeout_s)
        if not isinstance(after, ServerMetrics):
            return after
        counted = growth(endpoint.metrics, after)
        if not left or _agree(counted, asker):
            break
        await asyncio.sleep(pause_s)
    return counted


def _agree(counted: Growth, asker: Asker) -> bool:
    cached = (counted.cached or 0) + (counted.external_cached or 0)
    return counted.prompt == asker.prompt_tokens and cached == asker.cached_tokens
