"""The question for usage that the recorder adds to requests: taken out of answers again, and given up where it is refused."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from pathlib import Path

import pytest
from aiohttp import web
from event_loops import in_event_loop
from intercept.answering import EVENT_STREAM, JSON, Server, body_of
from intercept.asking import VERSIONS
from intercept.fronts import Front
from intercept.opened import opened
from loopback import CHAT, STREAMED, chat_chunk, sse, usage_chunk

both_versions = pytest.mark.parametrize("version", VERSIONS)


@both_versions
@in_event_loop
async def test_usage_is_asked_for_and_taken_out_again(front: Front, tmp_path: Path, version: str) -> None:
    said = sse(chat_chunk({"content": "one"}), chat_chunk({}, "stop"))
    server = Server(said + sse(usage_chunk(2000, 7), "[DONE]"), "text/event-stream")

    async with front.of(server.answer), opened(front, tmp_path / "journal") as one:
        async with one.connected(version) as client:
            through = await client.ask_whole("POST", CHAT, JSON, body_of(STREAMED))
        (call,) = await one.calls()

    assert json.loads(server.asked[0][2]) == STREAMED | {"stream_options": {"include_usage": True}}
    assert through.body == said + sse("[DONE]")
    assert "content-length" not in dict(through.headers)
    assert (call.prompt_tokens, call.completion_tokens) == (2000, 7)


@both_versions
@in_event_loop
async def test_a_compressed_request_that_asks_for_more_is_sent_unpacked(
    front: Front, tmp_path: Path, version: str
) -> None:
    server = Server(sse(chat_chunk({"content": "one"}, "stop"), usage_chunk(), "[DONE]"), "text/event-stream")
    headers = [*JSON, ("content-encoding", "gzip")]

    async with front.of(server.answer), opened(front, tmp_path / "journal") as one, one.connected(version) as client:
        await client.ask_whole("POST", CHAT, headers, gzip.compress(body_of(STREAMED)))

    (_, lines, body) = server.asked[0]
    assert json.loads(body) == STREAMED | {"stream_options": {"include_usage": True}}
    assert b"content-encoding" not in dict(lines)


@both_versions
@in_event_loop
async def test_usage_that_comes_alone_is_taken_out_and_the_connection_is_good_for_more(
    front: Front, tmp_path: Path, version: str
) -> None:
    has_first, is_heard = asyncio.Event(), asyncio.Event()

    def clock() -> float:
        is_heard.set()
        return time.monotonic()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers=EVENT_STREAM)
        await response.prepare(request)
        await response.write(sse(chat_chunk({"content": "one"}, "stop")))
        await has_first.wait()
        is_heard.clear()
        await response.write(sse(usage_chunk()))
        await is_heard.wait()
        await response.write(sse("[DONE]"))
        return response

    came = []
    async with front.of(answer), opened(front, tmp_path / "journal", clock=clock) as one:
        async with one.connected(version) as client:
            for _ in range(2):
                has_first.clear()
                asked = await client.ask("POST", CHAT, JSON, body_of(STREAMED))
                came.append(await asked.piece())
                has_first.set()
                while piece := await asked.piece():
                    came[-1] += piece
        calls = await one.calls()

    assert came == [sse(chat_chunk({"content": "one"}, "stop"), "[DONE]")] * 2
    assert [(call.prompt_tokens, call.completion_tokens) for call in calls] == [(20, 5)] * 2


@both_versions
@in_event_loop
async def test_a_server_that_refuses_to_be_asked_for_usage_is_asked_as_the_client_did(
    front: Front, tmp_path: Path, version: str
) -> None:
    asked, keys = [], []
    said = sse(chat_chunk({"content": "one"}), chat_chunk({}, "stop"), "[DONE]")
    headers = [*JSON, ("authorization", "Bearer k")]

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(body := await request.read())
        keys.append((request.headers["authorization"], request.headers["content-type"]))
        if b"stream_options" in body:
            return web.json_response({"error": "stream_options"}, status=422)
        return web.Response(body=said, headers=EVENT_STREAM)

    async with front.of(answer), opened(front, tmp_path / "journal") as one:
        async with one.connected(version) as client:
            first = await client.ask_whole("POST", CHAT, headers, body_of(STREAMED))
        async with one.connected(version) as client:
            second = await client.ask_whole("POST", CHAT, headers, body_of(STREAMED))
        calls = await one.calls()

    assert [(x.status, x.body, dict(x.headers)["content-type"]) for x in (first, second)] == [
        (200, said, "text/event-stream")
    ] * 2
    assert [b"stream_options" in body for body in asked] == [True, False, False]
    assert asked[1] == asked[2] == body_of(STREAMED)
    assert keys == [("Bearer k", "application/json")] * 3
    assert [call.finish_reason for call in calls] == ["stop", "stop"]
    assert one.notices == ["a server refuses to be asked for the usage of response streams: it is asked no more"]


@in_event_loop
async def test_other_paths_of_a_server_that_refuses_are_asked_for_usage(front: Front, tmp_path: Path) -> None:
    asked = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asks = b"stream_options" in await request.read()
        asked.append((request.path, asks))
        if asks and request.path == CHAT:
            return web.json_response({"error": "stream_options"}, status=422)
        return web.Response(body=sse("[DONE]"), headers=EVENT_STREAM)

    async with front.of(answer), opened(front, tmp_path / "journal") as one, one.connected("1.1") as client:
        for path in (CHAT, f"/other{CHAT}"):
            await client.ask_whole("POST", path, JSON, body_of(STREAMED))

    assert asked == [(CHAT, True), (CHAT, False), (f"/other{CHAT}", True)]


@both_versions
@in_event_loop
async def test_a_refusal_that_is_not_ours_is_the_servers_own(front: Front, tmp_path: Path, version: str) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response({"error": "no"}, status=400)

    async with front.of(answer), opened(front, tmp_path / "journal") as one, one.connected(version) as client:
        through = await client.ask_whole("POST", CHAT, JSON, body_of(STREAMED))

    assert (through.status, json.loads(through.body)) == (400, {"error": "no"})
    assert one.notices == []
