"""A proxy between an agent and the recorder that takes off who sends a request, and tells only the server behind it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

KEPT_AS = "x-taken-off-"
"""The recorder knows no header of this name; it passes them on, so that the server has seen what it has not read."""
TAKEN_OFF = re.compile(
    r"x-claude-code-(.+)"
    r"|(?:x-)?((?:parent-)?session-id|session-affinity|thread-id|codex-.+|openai-subagent|client-request-id)"
)
TAKEN_OUT = ("client_metadata", "prompt_cache_key")
"""Where a body says who sends it, beside what Claude Code's says of the session."""
TOOL_ID = re.compile(rb"call_[0-9a-f]{24}")
FIRST_TOOL_ID = f"{KEPT_AS}tool-id"
HOP_BY_HOP = ("host", "connection", "transfer-encoding", "content-length")


@asynccontextmanager
async def without_names() -> AsyncIterator[str]:
    """Run it; `URL/PORT` is then the base URL of whatever listens at that port of this machine.

    At `URL/alike/PORT` ids of tool calls are made alike too: each conversation counts its own from zero.
    """
    async with aiohttp.ClientSession(auto_decompress=False) as client:

        async def forward(request: web.Request) -> web.StreamResponse:
            url = f"http://127.0.0.1:{request.match_info['port']}/{request.match_info['rest']}"
            body, headers = _without_names(await request.read()), _renamed(request)
            if request.match_info["how"]:
                headers += [(FIRST_TOOL_ID, found[0].decode()) for found in [TOOL_ID.search(body)] if found]
                body = with_ids_alike(body)
            async with client.request(request.method, url, params=request.query, data=body, headers=headers) as answer:
                response = web.StreamResponse(status=answer.status, headers=_end_to_end(answer.headers.items()))
                await response.prepare(request)
                async for piece in answer.content.iter_any():
                    await response.write(piece)
                await response.write_eof()
                return response

        app = web.Application(client_max_size=1 << 28)
        app.router.add_route("*", "/{how:(?:alike/)?}{port:[0-9]+}/{rest:.*}", forward)
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()


def with_ids_alike(body: bytes) -> bytes:
    """Return a body whose tool calls are numbered in the order in which they stand there."""
    numbers: dict[bytes, int] = {}
    return TOOL_ID.sub(lambda found: b"call_%d" % numbers.setdefault(found[0], len(numbers)), body)


def _without_names(body: bytes) -> bytes:
    if not any(f'"{name}"'.encode() in body for name in TAKEN_OUT):
        return body
    said: dict[str, Any] = json.loads(body)
    return json.dumps({name: value for name, value in said.items() if name not in TAKEN_OUT}).encode()


def _renamed(request: web.Request) -> list[tuple[str, str]]:
    headers = _end_to_end(request.headers.items())
    return [(_kept_as(name.lower()), value) for name, value in headers]


def _kept_as(name: str) -> str:
    found = TAKEN_OFF.fullmatch(name)
    return KEPT_AS + next(filter(None, found.groups())) if found else name


def _end_to_end(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name.lower() not in HOP_BY_HOP]
