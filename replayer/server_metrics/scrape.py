"""Fetch a server's metrics: where engines have them, in bounded time and size."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import aiohttp
from yarl import URL

from rotoscope.replayer.server_metrics.counts import ServerMetrics
from rotoscope.replayer.server_metrics.families import read_metrics
from rotoscope.replayer.server_metrics.samples import NotPrometheus

PATHS = ("/metrics", "/prometheus/metrics")
"""The second is TensorRT-LLM's, whose /metrics is JSON of its last iterations."""

_LARGEST_BODY_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a server's metrics were found, and what they were then."""

    url: URL
    metrics: ServerMetrics


@dataclass(frozen=True, slots=True)
class NoMetrics:
    """Why there are none, for people."""

    reason: str
    is_silent: bool = False
    """Whether nothing came in time, so that asking again would only take more of it."""


async def find_metrics(http: aiohttp.ClientSession, api: URL, *, timeout_s: float) -> Endpoint | NoMetrics:
    """Look for the metrics of the server whose API is at `api`, which ends in /v1; raises nothing."""
    root = api.parent
    reasons = []
    for path in PATHS:
        url = root.with_path(root.path.rstrip("/") + path)
        found = await scrape(http, url, timeout_s=timeout_s)
        if isinstance(found, ServerMetrics):
            return Endpoint(url, found)
        reasons.append(f"{path}: {found.reason}")
        if found.is_silent:
            break
    return NoMetrics("; ".join(reasons))


async def scrape(http: aiohttp.ClientSession, url: URL, *, timeout_s: float) -> ServerMetrics | NoMetrics:
    """Get the metrics of an inference server at `url`."""
    text = await text_at(http, url, timeout_s=timeout_s)
    if isinstance(text, NoMetrics):
        return text
    try:
        return read_metrics(text) or NoMetrics("no metrics of a known engine")
    except NotPrometheus:
        return NoMetrics("not Prometheus text")


async def text_at(http: aiohttp.ClientSession, url: URL, *, timeout_s: float) -> str | NoMetrics:
    """Get the text at `url`; GET, because servers answer HEAD with 405 or not at all."""
    try:
        async with asyncio.timeout(timeout_s), http.get(url, allow_redirects=False) as response:
            if response.status != 200:
                return NoMetrics(f"status {response.status}")
            text = await _text(response)
    except TimeoutError:
        return NoMetrics("no answer in time", is_silent=True)
    except (aiohttp.ClientError, OSError):
        return NoMetrics("the connection failed")
    return NoMetrics("more than 16 MiB") if text is None else text


async def _text(response: aiohttp.ClientResponse) -> str | None:
    body = bytearray()
    while data := await response.content.readany():
        body += data
        if len(body) > _LARGEST_BODY_BYTES:
            return None
    return body.decode(errors="replace")
