"""A proxy before a server that changes what passes: requests, events of answers, metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from aiohttp import web
from loopback import serving

Json = dict[str, Any]


def unchanged(value: Any) -> Any:
    return value


@dataclass
class Misbehaviour:
    """What the proxy does, by default nothing."""

    body: Callable[[Json], Json] = unchanged
    """Of a request."""
    usage: Callable[[Json], Json] = unchanged
    """Of an answer."""
    metrics: Callable[[str], str] = unchanged
    """As Prometheus text."""
    fails_each: int = 0
    """So many requests that are answered, then one that is not."""
    completions: int = 0


@asynccontextmanager
async def misbehaving(url: str, how: Misbehaviour) -> AsyncIterator[str]:
    """Yield the URL of a proxy before the server at `url`."""
    async with aiohttp.ClientSession(auto_decompress=False) as http:

        async def pass_on(request: web.Request) -> web.StreamResponse:
            data = await request.read()
            if request.path == "/v1/completions":
                how.completions += 1
                if how.fails_each and how.completions % how.fails_each == 0:
                    return web.json_response({"error": {"message": "out of order"}}, status=500)
                data = orjson.dumps(how.body(orjson.loads(data)))
            async with http.request(request.method, url + request.path, data=data) as response:
                answer = await response.read()
                kind = response.headers["Content-Type"]
                return web.Response(
                    body=_changed(answer, kind, how), status=response.status, headers={"Content-Type": kind}
                )

        async with serving(pass_on) as origin:
            yield origin


def _changed(answer: bytes, kind: str, how: Misbehaviour) -> bytes:
    if kind.startswith("text/plain"):
        return how.metrics(answer.decode()).encode()
    if kind.startswith("text/event-stream"):
        return b"\n\n".join(_changed_event(one, how) for one in answer.split(b"\n\n"))
    return answer


def _changed_event(event: bytes, how: Misbehaviour) -> bytes:
    if b'"usage":{' not in event:
        return event
    value = orjson.loads(event.removeprefix(b"data: "))
    return b"data: " + orjson.dumps(value | {"usage": how.usage(value["usage"])})
