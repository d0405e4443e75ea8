from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from event_loops import in_event_loop
from raw_server import serving
from yarl import URL

from rotoscope.replayer.server_metrics.counts import growth
from rotoscope.replayer.server_metrics.scrape import Endpoint, NoMetrics, find_metrics
from rotoscope.replayer.simulator.server import SimulatorOptions, running_simulator

LINE = "llamacpp:prompt_tokens_total 5\n"


async def found(url: str, *, timeout_s: float = 60.0) -> Endpoint | NoMetrics:
    async with aiohttp.ClientSession() as http:
        return await find_metrics(http, URL(url) / "v1", timeout_s=timeout_s)


def says(**reply: Any) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.method == "GET"
        return web.Response(**reply)

    return answer


@in_event_loop
async def test_metrics_are_found_beside_the_api() -> None:
    async with serving({"/behind/metrics": says(text=LINE)}) as url:
        endpoint = await found(f"{url}/behind")

    assert isinstance(endpoint, Endpoint)
    assert endpoint.url.path == "/behind/metrics"
    assert endpoint.metrics.family == "llama.cpp"


@in_event_loop
async def test_where_metrics_are_json_the_place_of_tensorrt_llm_is_tried() -> None:
    metrics = {"/metrics": says(text='[{"iter": 1}]'), "/prometheus/metrics": says(text="trtllm_prompt_tokens_total 5")}
    async with serving(metrics) as url:
        endpoint = await found(url)

    assert isinstance(endpoint, Endpoint)
    assert (endpoint.url.path, endpoint.metrics.family) == ("/prometheus/metrics", "trtllm")


async def cut(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(LINE.encode())
    assert request.transport is not None
    request.transport.close()
    return response


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (says(status=404), "status 404"),
        (says(status=500, text=LINE), "status 500"),
        (says(status=302, headers={"Location": "/elsewhere"}), "status 302"),
        (says(text="<html>metrics</html>"), "no metrics of a known engine"),
        (says(text="vllm:prefix_cache_hits{ broken"), "not Prometheus text"),
        (says(body=b"x" * (17 << 20)), "more than 16 MiB"),
        (cut, "the connection failed"),
    ],
    ids=["404", "500", "redirect", "html", "broken", "huge", "cut"],
)
@in_event_loop
async def test_what_is_no_metrics_is_told(
    answer: Callable[[web.Request], Awaitable[web.StreamResponse]], reason: str
) -> None:
    async with serving({"/metrics": answer}) as url:
        endpoint = await found(url)

    assert isinstance(endpoint, NoMetrics)
    assert f"/metrics: {reason}; /prometheus/metrics: status 404" == endpoint.reason


@in_event_loop
async def test_nobody_listening_is_told() -> None:
    endpoint = await found("http://127.0.0.1:1")

    assert endpoint == NoMetrics("/metrics: the connection failed; /prometheus/metrics: the connection failed")


@in_event_loop
async def test_a_server_that_does_not_answer_is_given_up() -> None:
    async def hang(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        return web.Response()

    async with serving({"/metrics": hang}) as url:
        endpoint = await found(url, timeout_s=0.05)

    assert endpoint == NoMetrics("/metrics: no answer in time")


@in_event_loop
async def test_the_simulator_counts_what_it_was_sent() -> None:
    prompt = list(range(1000, 1100))
    async with running_simulator(SimulatorOptions(speed=0)) as url, aiohttp.ClientSession() as http:
        before = await found(url)
        for _ in range(2):
            await http.post(f"{url}/v1/completions", json={"prompt": prompt, "max_tokens": 4})
        after = await found(url)

    assert isinstance(before, Endpoint)
    assert isinstance(after, Endpoint)
    counted = growth(before.metrics, after.metrics)
    assert (counted.prompt, counted.cached, counted.output_tokens, counted.restarted) == (200, 96, 8, False)
    assert after.metrics.block_size == 16
