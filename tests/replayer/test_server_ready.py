from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp import web
from event_loops import in_event_loop, in_jumping_loop
from loopback import serving
from yarl import URL

from rotoscope.replayer.clock import LoopClock
from rotoscope.replayer.server_ready import POLL_S, is_ready, listens, until_ready
from rotoscope.traces.errors import RunFailed


def at(seconds: float) -> bool:
    return asyncio.get_running_loop().time() >= seconds


async def ready_at_7() -> bool:
    return at(7.0)


@in_jumping_loop
async def test_a_server_is_waited_for() -> None:
    took_s = await until_ready(ready_at_7, lambda: True, clock=LoopClock(), timeout_s=10)

    assert took_s == pytest.approx(7.0, abs=2 * POLL_S)


@in_jumping_loop
async def test_a_server_that_takes_too_long_is_told() -> None:
    with pytest.raises(RunFailed, match="not ready within 5 s: wait longer with --ready-timeout"):
        await until_ready(ready_at_7, lambda: True, clock=LoopClock(), timeout_s=5)

    assert 5.0 <= asyncio.get_running_loop().time() < 5.5


@in_jumping_loop
async def test_a_server_that_ends_is_not_waited_for() -> None:
    with pytest.raises(RunFailed, match="ended before it was ready"):
        await until_ready(ready_at_7, lambda: not at(3.0), clock=LoopClock(), timeout_s=100)

    assert asyncio.get_running_loop().time() < 4.0


@pytest.mark.parametrize(
    ("models", "health", "ready"),
    [
        ((200, b'{"data": [{"id": "m"}]}'), 404, True),
        ((200, b'{"data": [{"id": "m"}]}'), 200, True),
        ((200, b'{"data": [{"id": "m"}]}'), 503, False),
        ((200, b'{"data": []}'), 200, False),
        ((200, b"<html>"), 200, False),
        ((503, b""), 200, False),
        ((401, b""), 404, True),
        ((404, b""), 200, True),
        ((404, b""), 404, False),
    ],
)
def test_readiness_is_a_model_and_health(models: tuple[int, bytes], health: int, ready: bool) -> None:
    @in_event_loop
    async def check() -> None:
        async def answer(request: web.Request) -> web.Response:
            status, body = {"/v1/models": models, "/health": (health, b"")}.get(request.path, (500, b""))
            return web.Response(status=status, body=body)

        async with serving(answer) as origin, aiohttp.ClientSession() as http:
            assert await is_ready(http, URL(origin) / "v1") is ready

    check()


@in_event_loop
async def test_nobody_is_not_ready_and_does_not_listen() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response()

    async with serving(answer) as origin, aiohttp.ClientSession() as http:
        assert await listens(URL(origin))
    async with aiohttp.ClientSession() as http:
        assert not await listens(URL(origin))
        assert not await is_ready(http, URL(origin) / "v1")
