"""A server of streamed completions for tests: what it answers is a list of pieces, written one by one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

Answer = Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]
"""Takes the request and its body and returns or writes a response."""

PATHS = ("/v1/completions", "/v1/chat/completions", "/v1/responses", "/v1/messages", "/generate")


@dataclass
class CompletionServer:
    """Answers /v1/models with `cards` and every API with `answer`; keeps what it was sent."""

    answer: Answer
    cards: list[dict[str, Any]] = field(default_factory=lambda: [{"id": "m", "meta": {"n_vocab": 32768}}])
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    heads: list[Mapping[str, str]] = field(default_factory=list)
    hang_ups: int = 0

    async def models(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"object": "list", "data": self.cards})

    async def completions(self, request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        self.bodies.append(body)
        self.heads.append(request.headers)
        try:
            return await self.answer(request, body)
        except asyncio.CancelledError:
            self.hang_ups += 1
            raise


@contextlib.asynccontextmanager
async def serving_completions(answer: Answer, **fields: Any) -> AsyncIterator[CompletionServer]:
    """Serve on loopback; a client that hangs up cancels its handler."""
    server = CompletionServer(answer, **fields)
    app = web.Application(client_max_size=1 << 30)
    app.router.add_get("/v1/models", server.models)
    for path in PATHS:
        app.router.add_post(path, server.completions)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


def token_event(*ids: int, text: str = "x", **choice: Any) -> bytes:
    """Return an event that brings tokens, as vLLM writes it where ids are asked for."""
    return event({"choices": [{"index": 0, "text": text, "token_ids": list(ids), "finish_reason": None} | choice]})


def usage_event(prompt_tokens: int, completion_tokens: int, cached_tokens: int | None = None) -> bytes:
    """Return the last event but one."""
    usage: dict[str, Any] = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    usage["prompt_tokens_details"] = None if cached_tokens is None else {"cached_tokens": cached_tokens}
    return event({"choices": [], "usage": usage})


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def good_answer(body: dict[str, Any], *, first_id: int = 5000, cached_tokens: int | None = 0) -> list[bytes]:
    """Return what a server says that does all it is asked."""
    tokens = body["max_tokens"]
    events = [token_event(first_id + number) for number in range(tokens)]
    return [*events, usage_event(len(body["prompt"]), tokens, cached_tokens), DONE]


async def stream(request: web.Request, pieces: Sequence[bytes]) -> web.StreamResponse:
    """Write pieces as an event stream and end it properly."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
    await response.write_eof()
    return response


async def stream_and_hang(request: web.Request, pieces: Sequence[bytes]) -> web.StreamResponse:
    """Write pieces, then nothing more until the client has gone."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
    await asyncio.Event().wait()
    return response


async def stream_and_cut(request: web.Request, pieces: Sequence[bytes]) -> web.StreamResponse:
    """Write pieces, then close the connection in the middle of the response."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
    assert request.transport is not None
    request.transport.close()
    return response


@contextlib.contextmanager
def completions_in_a_thread(answer: Answer, **fields: Any) -> Iterator[CompletionServer]:
    """Serve from an event loop in another thread, for clients that run one of their own."""
    started: queue.SimpleQueue[tuple[CompletionServer, Callable[[], object]]] = queue.SimpleQueue()

    async def serve() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        async with serving_completions(answer, **fields) as server:
            started.put((server, lambda: loop.call_soon_threadsafe(ended.set)))
            await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    server, end = started.get()
    try:
        yield server
    finally:
        end()
        thread.join()
