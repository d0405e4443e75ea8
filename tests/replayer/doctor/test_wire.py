from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from doctor_server import cut, hang, html, out_of_order
from event_loops import in_event_loop
from raw_server import Handler, serving
from yarl import URL

from rotoscope.replayer.doctor.wire import Wire
from rotoscope.replayer.failures import FailureKind


@asynccontextmanager
async def wire_to(handler: Handler, *, timeout_s: float = 60.0) -> AsyncIterator[Wire]:
    async with serving({"/v1/do": handler}) as url, aiohttp.ClientSession() as http:
        yield Wire(http, URL(url) / "v1", timeout_s=timeout_s)


async def streamed(*pieces: bytes) -> Any:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        await response.write_eof()
        return response

    async with wire_to(handler) as wire:
        return await wire.post(wire.api / "do", {})


@in_event_loop
async def test_a_json_object_is_read() -> None:
    async def echo(request: web.Request) -> web.StreamResponse:
        return web.json_response({"got": await request.json(), "header": request.headers["x-one"]})

    async with wire_to(echo) as wire:
        reply = await wire.post(wire.api / "do", {"a": 1}, {"x-one": "1"})

    assert (reply.is_ok, reply.status, reply.json) == (True, 200, {"got": {"a": 1}, "header": "1"})


@in_event_loop
async def test_events_are_read_apart_from_what_is_no_event() -> None:
    reply = await streamed(b'data: {"a": 1}\n\n', b": ping\n\ndata: nonsense\n\n", b"data: [DONE]\n\n")

    assert reply.is_ok
    assert (reply.events, reply.strays, reply.is_done) == ([{"a": 1}], 1, True)


@pytest.mark.parametrize(
    ("handler", "kind", "message"),
    [
        (out_of_order, FailureKind.SERVER_ERROR, "out of order"),
        (html, FailureKind.MALFORMED, "text/html instead of a JSON object"),
        (cut, FailureKind.CUT_STREAM, ""),
    ],
)
@in_event_loop
async def test_a_failure_is_named(handler: Handler, kind: FailureKind, message: str) -> None:
    async with wire_to(handler) as wire:
        reply = await wire.post(wire.api / "do", {})

    assert reply.failure is not None
    assert (reply.failure.kind, reply.message) == (kind, message)
    assert reply.why == f"{kind.value}: {message}" if message else kind.value


@in_event_loop
async def test_a_long_message_is_shortened() -> None:
    async def verbose(request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no\n" * 10_000}}, status=400)

    async with wire_to(verbose) as wire:
        reply = await wire.get(wire.api / "do")

    assert len(reply.why) < 200
    assert reply.why.endswith(" ...")
    assert "\n" not in reply.why


@in_event_loop
async def test_a_page_is_not_shown() -> None:
    async def page(request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>canary</html>", status=502)

    async with wire_to(page) as wire:
        reply = await wire.get(wire.api / "do")

    assert reply.why == "server_error: an HTML page"


@in_event_loop
async def test_after_two_silences_nothing_is_sent() -> None:
    requests = 0

    async def silent(request: web.Request) -> web.StreamResponse:
        nonlocal requests
        requests += 1
        return await hang(request)

    async with wire_to(silent, timeout_s=0.05) as wire:
        replies = [await wire.get(wire.api / "do") for _ in range(5)]

    assert requests <= 2
    assert {reply.failure.kind for reply in replies if reply.failure} == {FailureKind.NO_ANSWER}
    assert replies[-1].message == "no longer tried"


@in_event_loop
async def test_only_the_head_is_waited_for_where_nothing_else_matters() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"x")
        return await hang(request)

    async with wire_to(endless) as wire:
        reply = await wire.accepts(wire.api / "do", {})

    assert (reply.is_ok, reply.status) == (True, 200)


@in_event_loop
async def test_what_lies_beside_the_api_is_found_behind_a_path_too() -> None:
    async with aiohttp.ClientSession() as http:
        assert str(Wire(http, URL("http://h/v1"), timeout_s=1).of_root("/props")) == "http://h/props"
        assert str(Wire(http, URL("http://h/a/v1"), timeout_s=1).of_root("/props")) == "http://h/a/props"
