"""Where the GPUs behind a server are asked: at the DCGM exporter that is named, or, for a server on this machine, here."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any

import aiohttp
from yarl import URL

from rotoscope.replayer.connection import client_session
from rotoscope.replayer.gpu_telemetry.dcgm import read_gpus
from rotoscope.replayer.gpu_telemetry.nvml import installed_nvml, nvml_source
from rotoscope.replayer.gpu_telemetry.readings import GpuSource, Readings
from rotoscope.replayer.server_metrics.samples import NotPrometheus
from rotoscope.replayer.server_metrics.scrape import NoMetrics, text_at
from rotoscope.traces.errors import RunFailed, UnusableInput

_LONGEST_S = 2.0


def dcgm_url(text: str) -> URL:
    """Return the URL of an exporter's metrics, from one given with or without the path; raise UnusableInput otherwise."""
    try:
        url = URL(text if "://" in text else f"http://{text}")
    except ValueError as error:
        raise UnusableInput(f"{text!r} is no URL: expected one like http://127.0.0.1:9400") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise UnusableInput(f"{text!r} is no URL of a DCGM exporter: expected one like http://127.0.0.1:9400")
    return url.with_path("/metrics") if url.path in ("", "/") else url


@asynccontextmanager
async def gpu_source(
    dcgm: str | None, server: URL, *, simulated: bool, nvml: Callable[[], Any | None] = installed_nvml
) -> AsyncIterator[GpuSource | None]:
    """Yield the GPUs behind a server, as they are known; None where they are not.

    Raises RunFailed where an exporter is named that tells of none. It is asked without the server's API key.
    """
    if dcgm is not None:
        async with client_session(timeout_s=_LONGEST_S, reuses_connections=True) as http:
            yield await _dcgm_source(http, dcgm_url(dcgm))
    elif not simulated and is_loopback(server) and (module := nvml()) is not None:
        yield nvml_source(module)
    else:
        yield None


def is_loopback(url: URL) -> bool:
    """Say whether a URL leads to this machine."""
    try:
        return url.host == "localhost" or ip_address(url.host or "").is_loopback
    except ValueError:
        return False


async def _dcgm_source(http: aiohttp.ClientSession, url: URL) -> GpuSource:
    start = await _readings(http, url)
    if isinstance(start, NoMetrics):
        raise RunFailed(
            f"cannot read the GPUs at {url.with_user(None)}: {start.reason}: correct --dcgm or leave it out"
        )

    async def read() -> Readings | None:
        now = await _readings(http, url)
        return None if isinstance(now, NoMetrics) else now

    return GpuSource("dcgm", start, read)


async def _readings(http: aiohttp.ClientSession, url: URL) -> Readings | NoMetrics:
    text = await text_at(http, url, timeout_s=_LONGEST_S)
    if isinstance(text, NoMetrics):
        return text
    try:
        return read_gpus(text) or NoMetrics("no GPU tells anything")
    except NotPrometheus:
        return NoMetrics("not Prometheus text")
