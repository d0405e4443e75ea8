from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web
from event_loops import in_event_loop
from raw_server import serving

from rotoscope.replayer.server import api_url
from rotoscope.replayer.server_metrics.window import CountedWindow


@asynccontextmanager
async def window_over(*texts: str | None) -> AsyncIterator[tuple[CountedWindow, Sequence[str | None]]]:
    """Yield a window over a server that says one text after another, None being 404, and those it has yet to say."""
    rest = list(texts)

    async def metrics(request: web.Request) -> web.StreamResponse:
        text = rest.pop(0) if rest else None
        return web.Response(status=404) if text is None else web.Response(text=text)

    async with serving({"/metrics": metrics}) as url, aiohttp.ClientSession() as http:
        yield await CountedWindow.opened(http, api_url(url), timeout_s=60.0), rest


def vllm(prompt: int, cached: int) -> str:
    return f"vllm:prefix_cache_queries_total {prompt}\nvllm:prefix_cache_hits_total {cached}\n"


@in_event_loop
async def test_what_was_counted_in_between_is_told() -> None:
    async with window_over(vllm(100, 50), vllm(300, 100)) as (window, _):
        counted = await window.growth(expected_tokens=200, pause_s=0.0)

    assert counted is not None
    assert (counted.prompt, counted.cached, counted.hit_rate) == (200, 50, 0.25)


@in_event_loop
async def test_counters_that_lag_behind_are_looked_at_again() -> None:
    async with window_over(vllm(0, 0), vllm(0, 0), vllm(90, 0), vllm(100, 40), vllm(900, 0)) as (window, rest):
        counted = await window.growth(expected_tokens=100, pause_s=0.0)

    assert counted is not None
    assert counted.hit_rate == 0.4
    assert len(rest) == 1


@in_event_loop
async def test_a_window_begins_anew_once_what_was_sent_before_is_counted() -> None:
    async with window_over(vllm(0, 0), vllm(40, 0), vllm(80, 16), vllm(180, 66)) as (window, rest):
        await window.begin(expected_tokens=80, pause_s=0.0)
        assert len(rest) == 1
        counted = await window.growth(pause_s=0.0)

    assert counted is not None
    assert (counted.prompt, counted.cached) == (100, 50)


@in_event_loop
async def test_counters_that_never_reach_what_was_expected_are_told_as_they_are() -> None:
    async with window_over(vllm(0, 0), *[vllm(50, 0)] * 20) as (window, rest):
        counted = await window.growth(expected_tokens=100, pause_s=0.0)

    assert counted is not None
    assert counted.prompt == 50
    assert len(rest) > 10


@in_event_loop
async def test_blocks_are_not_compared_with_tokens() -> None:
    text = "trtllm_kv_cache_reused_blocks_total 1\ntrtllm_kv_cache_missed_blocks_total 9\n"
    async with window_over(text, text, text) as (window, rest):
        await window.growth(expected_tokens=100, pause_s=0.0)

    assert len(rest) == 1


@in_event_loop
async def test_without_metrics_nothing_is_told() -> None:
    async with window_over(None) as (window, _):
        assert await window.growth(expected_tokens=5, pause_s=0.0) is None

    async with window_over(vllm(0, 0), None) as (window, _):
        assert await window.growth(pause_s=0.0) is None


@in_event_loop
async def test_a_look_gives_what_the_server_tells_and_nothing_where_it_is_late_or_gone() -> None:
    texts = [vllm(100, 50), vllm(300, 100), "late", None]

    async def metrics(request: web.Request) -> web.StreamResponse:
        text = texts.pop(0)
        if text == "late":
            await asyncio.Event().wait()
        return web.Response(status=404) if text is None else web.Response(text=text)

    async with serving({"/metrics": metrics}) as url, aiohttp.ClientSession() as http:
        source = (await CountedWindow.opened(http, api_url(url), timeout_s=0.5)).source
        assert source is not None
        looks = [await source.read() for _ in range(3)]

    assert [None if look is None or look.prompt is None else look.prompt.total for look in looks] == [300, None, None]
