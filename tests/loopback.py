"""Loopback for tests: upstreams made of one handler or of bytes, a gateway in front of them, and raw requests."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from event_loops import GUARD_S

from rotoscope.proxy.gateway import Gateway
from rotoscope.proxy.measure import Measurer
from rotoscope.proxy.upstream import Upstream, open_session, upstream_given
from rotoscope.recorder.recorded_run import Run
from rotoscope.recorder.recorder import Recorder
from rotoscope.traces.journal_files import JournalWriter
from rotoscope.traces.model import Call

CHAT = "/v1/chat/completions"
WHOLE = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
STREAMED = WHOLE | {"stream": True}
STREAMED_WITH_USAGE = STREAMED | {"stream_options": {"include_usage": True}}
PATIENCE_S = GUARD_S
"""Only a failure takes as long."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """Serve every request with one handler; give the origin. A client that hangs up cancels the handler."""
    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


class RawUpstream:
    """Reads one request a connection and answers with the bytes it is given; keeps what it read."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.requests: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection and close it."""
        self.requests.append(await read_message(reader))
        writer.write(self.answer)
        await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def serving_bytes(upstream: RawUpstream) -> AsyncIterator[str]:
    """Serve connections with a raw upstream; give the origin."""
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0, limit=1 << 20)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def read_message(reader: asyncio.StreamReader) -> bytes:
    """Read the header of a message and as much body as its Content-Length says."""
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return head + await reader.readexactly(int(line.partition(b":")[2]))
    return head


async def exchange_bytes(origin: str, request: bytes) -> bytes:
    """Send raw bytes and return all that comes until the server closes."""
    host, port = origin.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(request)
        return await reader.read()
    finally:
        writer.close()


@dataclass(frozen=True)
class OneRun:
    """Lets all requests be of one run."""

    run: Run

    def find(self, headers: Mapping[str, str], body: bytes, *, name: str, port: str) -> Run:
        """Return the run."""
        return self.run


@dataclass
class Recording:
    """A gateway in front of an upstream, with its recorder and what it said."""

    gateway: Gateway
    recorder: Recorder
    measurer: Measurer
    notices: list[str]

    @property
    def origin(self) -> str:
        return self.gateway.origin

    async def calls(self) -> list[Call]:
        """End the recording; return its calls."""
        await self.gateway.stop(drain_s=PATIENCE_S)
        await self.measurer.settle(timeout_s=PATIENCE_S)
        trace = self.recorder.close()
        return list(trace.calls()) if trace else []


@contextlib.asynccontextmanager
async def recording(
    upstream: str, journal: Path, *, measure: bool = False, asks_usage: bool = True
) -> AsyncIterator[Recording]:
    """Run a gateway in front of `upstream`."""
    chosen = upstream_given(upstream)
    notices: list[str] = []
    recorder = Recorder(JournalWriter(journal))
    async with open_session(chosen) as session, measuring(chosen, session, notices.append) as measurer:
        gateway = Gateway(
            chosen,
            OneRun(Run(recorder)),
            session=session,
            notice=notices.append,
            measurer=measurer if measure else None,
            asks_usage=asks_usage,
        )
        try:
            await gateway.start()
            yield Recording(gateway, recorder, measurer, notices)
        finally:
            await gateway.stop(drain_s=1.0)
            recorder.close()


@contextlib.asynccontextmanager
async def measuring(
    upstream: Upstream, session: aiohttp.ClientSession, notice: Callable[[str], None]
) -> AsyncIterator[Measurer]:
    """Run a measurer."""
    measurer = Measurer(upstream, session, notice=notice)
    task = asyncio.create_task(measurer.run())
    try:
        yield measurer
    finally:
        task.cancel()
        await asyncio.wait([task])


def chat_answer(content: str = "done", **usage: Any) -> dict[str, Any]:
    """Return a chat completion that is not streamed."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content},
                "finish_reason": "stop",
                "logprobs": None,
            }
        ],
        "usage": {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25} | usage,
    }


def chat_chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    """Return a chunk of a streamed chat completion."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def usage_chunk(prompt_tokens: int = 20, completion_tokens: int = 5) -> dict[str, Any]:
    """Return the chunk that tells usage at the end of a stream that was asked for it."""
    total = prompt_tokens + completion_tokens
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": total}
    return chat_chunk({}) | {"choices": [], "usage": usage}


def sse(*events: dict[str, Any] | str) -> bytes:
    """Return events as they stand in a response stream; a string stands as it is."""
    return b"".join(
        b"data: " + (event if isinstance(event, str) else json.dumps(event)).encode() + b"\n\n" for event in events
    )
