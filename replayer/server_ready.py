"""When a server that was just started can be measured: it offers a model and does not say that it is still loading."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import aiohttp
import orjson
from yarl import URL

from rotoscope.replayer.clock import Clock
from rotoscope.traces.errors import RunFailed

POLL_S = 0.1
ANSWER_S = 5.0
"""A server that loads a model may let a question wait; it is asked again."""


async def until_ready(
    is_ready: Callable[[], Awaitable[bool]], is_alive: Callable[[], bool], *, clock: Clock, timeout_s: float
) -> float:
    """Return how long it took until the server was ready; raise RunFailed when it ends before or takes too long."""
    began_s = clock.now()
    while True:
        if not is_alive():
            raise RunFailed("the server ended before it was ready")
        ready = await is_ready()
        took_s = clock.now() - began_s
        if ready and is_alive():
            return took_s
        if took_s >= timeout_s:
            raise RunFailed(f"the server was not ready within {timeout_s:g} s: wait longer with --ready-timeout")
        await clock.sleep(POLL_S)


async def is_ready(http: aiohttp.ClientSession, url: URL) -> bool:
    """Return whether a server at the URL of its API can be asked for answers.

    It offers a model (Dynamo's frontend has none until a worker is there) and its `/health`, if it has one, does not fail
    (llama-server lists its model before it has loaded it). One that wants a key, or has no list of models, will tell
    whoever asks it more.
    """
    status, body = await _get(http, url / "models")
    if status == 200:
        return _offers_a_model(body) and (await _get(http, url.parent / "health"))[0] < 500
    if status in (401, 403):
        return True
    return status == 404 and (await _get(http, url.parent / "health"))[0] == 200


async def listens(url: URL) -> bool:
    """Return whether anybody accepts connections there."""
    try:
        async with asyncio.timeout(ANSWER_S):
            _, writer = await asyncio.open_connection(url.host, url.port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


async def _get(http: aiohttp.ClientSession, url: URL) -> tuple[int, bytes]:
    """Return status and body; the status is 599 where there is no answer."""
    try:
        async with asyncio.timeout(ANSWER_S), http.get(url, allow_redirects=False) as response:
            return response.status, await response.content.read(1 << 20)
    except (aiohttp.ClientError, OSError, TimeoutError):
        return 599, b""


def _offers_a_model(body: bytes) -> bool:
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return bool(isinstance(answer, dict) and answer.get("data"))
