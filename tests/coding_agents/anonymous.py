"""A proxy between an agent and the recorder that takes off who sends a request, and tells only the server behind it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

TAKEN_OFF = "x-claude-code-"
KEPT_AS = "x-taken-off-"
"""The recorder knows no header of this name; it passes them on, so that the server has seen what it has not read."""
HOP_BY_HOP = ("host", "connection", "transfer-encoding", "content-length")


@asynccontextmanager
async def without_names() -> AsyncIterator[str]:
    """Run it; `URL/PORT` is then the base URL of whatever listens at that port of this machine."""
    async with aiohttp.ClientSession(auto_decompress=False) as client:

        async def forward(request: web.Request) -> web.StreamResponse:
            url = f"http://127.0.0.1:{request.match_info['port']}/{request.match_info['rest']}"
            async with client.request(
                request.method, url, params=request.query, data=await request.read(), headers=_renamed(request)
            ) as answer:
                response = web.StreamResponse(status=answer.status, headers=_end_to_end(answer.headers.items()))
                await response.prepare(request)
                async for piece in answer.content.iter_any():
                    await response.write(piece)
                await response.write_eof()
                return response

        app = web.Application(client_max_size=1 << 28)
        app.router.add_route("*", "/{port:[0-9]+}/{rest:.*}", forward)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


def _renamed(request: web.Request) -> list[tuple[str, str]]:
    headers = _end_to_end(request.headers.items())
    return [(name.lower().replace(TAKEN_OFF, KEPT_AS), value) for name, value in headers]


def _end_to_end(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name.lower() not in HOP_BY_HOP]
