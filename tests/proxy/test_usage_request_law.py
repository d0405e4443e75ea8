"""A server that refuses what the recorder adds to a request: the agent gets what it would get without a recorder."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from loopback import (
    CHAT,
    PATIENCE_S,
    STREAMED,
    STREAMED_WITH_USAGE,
    WHOLE,
    Recording,
    chat_answer,
    chat_chunk,
    recording,
    serving,
    sse,
    usage_chunk,
)

from rotoscope.traces.model import Call

EVENTS = sse(chat_chunk({"content": "hi"}), chat_chunk({}, "stop"), "[DONE]")
REFUSAL = {"error": {"message": "Extra inputs are not permitted"}}


@dataclass
class Strict:
    """A server that refuses fields it does not know, or every request."""

    status: int = 400
    known: frozenset[str] = frozenset({"model", "messages", "stream"})
    events: bytes = EVENTS
    bodies: list[bytes] = field(default_factory=list)
    """Taken off their encodings."""
    encodings: list[str] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.read())
        self.encodings.append(request.headers.get("Content-Encoding", ""))
        body = json.loads(self.bodies[-1])
        if not body.keys() <= self.known:
            return web.json_response(REFUSAL | {"attempt": len(self.bodies)}, status=self.status)
        if body.get("stream"):
            return web.Response(body=self.events, content_type="text/event-stream")
        return web.json_response(chat_answer())


Seen = tuple[int, bytes]


def asked(
    server: Strict,
    bodies: Sequence[dict[str, Any]],
    journal: Path,
    *,
    paths: Sequence[str] = (CHAT,),
    asks_usage: bool = True,
) -> tuple[list[Seen], list[Call], Recording]:
    """Send bodies one after another to each of the paths; return the answers, the calls of the trace and the recording."""

    async def run() -> tuple[list[Seen], list[Call], Recording]:
        async with (
            serving(server.answer) as origin,
            recording(origin, journal, asks_usage=asks_usage) as gateway,
            aiohttp.ClientSession() as client,
        ):
            seen = []
            for path in paths:
                for body in bodies:
                    async with client.post(gateway.origin + path, json=body) as answer:
                        seen.append((answer.status, await answer.read()))
            return seen, await gateway.calls(), gateway

    return asyncio.run(run())


@pytest.mark.parametrize("status", [400, 422])
def test_stream_of_a_server_that_refuses_the_addition_is_answered_as_without_a_recorder(
    status: int, tmp_path: Path
) -> None:
    server = Strict(status)

    seen, calls, gateway = asked(server, [STREAMED], tmp_path / "journal")

    assert seen == [(200, EVENTS)]
    assert [json.loads(body) for body in server.bodies] == [STREAMED_WITH_USAGE, STREAMED]
    assert [(call.finish_reason, call.attempts) for call in calls] == [("stop", None)]
    assert len(gateway.notices) == 1
    assert (gateway.gateway.requests, gateway.gateway.calls, gateway.gateway.answered) == (1, 1, 1)


def test_server_that_refused_is_not_asked_again_and_that_is_said_once(tmp_path: Path) -> None:
    server = Strict()

    seen, calls, gateway = asked(server, [STREAMED] * 3, tmp_path / "journal")

    assert seen == [(200, EVENTS)] * 3
    assert [json.loads(body) for body in server.bodies] == [STREAMED_WITH_USAGE, STREAMED, STREAMED, STREAMED]
    assert len(calls) == 3
    assert len(gateway.notices) == 1


def test_another_path_of_that_server_is_asked(tmp_path: Path) -> None:
    server = Strict()

    asked(server, [STREAMED], tmp_path / "journal", paths=[CHAT, "/other" + CHAT])

    assert [json.loads(body) for body in server.bodies] == [STREAMED_WITH_USAGE, STREAMED] * 2


def test_usage_that_such_a_server_sends_by_itself_is_not_withheld(tmp_path: Path) -> None:
    events = sse(chat_chunk({"content": "hi"}), chat_chunk({}, "stop"), usage_chunk(), "[DONE]")
    server = Strict(events=events)

    seen, calls, _ = asked(server, [STREAMED, STREAMED], tmp_path / "journal")

    assert seen == [(200, events)] * 2
    assert [call.prompt_tokens for call in calls] == [20, 20]


def test_refusal_that_is_not_owed_to_the_addition_is_passed_on_and_not_remembered(tmp_path: Path) -> None:
    server = Strict(known=frozenset({"nothing"}))

    seen, calls, gateway = asked(server, [STREAMED, STREAMED], tmp_path / "journal")

    assert [(status, json.loads(body)["attempt"]) for status, body in seen] == [(400, 2), (400, 4)]
    assert [json.loads(body) for body in server.bodies] == [STREAMED_WITH_USAGE, STREAMED] * 2
    assert (calls, gateway.notices) == ([], [])


@pytest.mark.parametrize("body", [WHOLE, STREAMED_WITH_USAGE], ids=str)
def test_refused_request_to_which_nothing_was_added_is_sent_once(body: dict[str, Any], tmp_path: Path) -> None:
    server = Strict(known=frozenset({"nothing"}))

    seen, _, _ = asked(server, [body], tmp_path / "journal")

    assert [status for status, _ in seen] == [400]
    assert len(server.bodies) == 1


def test_other_refusals_are_passed_on_at_once(tmp_path: Path) -> None:
    server = Strict(status=429)

    seen, _, _ = asked(server, [STREAMED], tmp_path / "journal")

    assert [status for status, _ in seen] == [429]
    assert len(server.bodies) == 1


def test_usage_is_not_asked_for_where_that_is_not_wanted(tmp_path: Path) -> None:
    events = sse(chat_chunk({"content": "hi"}), chat_chunk({}, "stop"), usage_chunk(), "[DONE]")
    server = Strict(events=events)

    seen, calls, _ = asked(server, [STREAMED], tmp_path / "journal", asks_usage=False)

    assert seen == [(200, events)]
    assert [json.loads(body) for body in server.bodies] == [STREAMED]
    assert [call.prompt_tokens for call in calls] == [20]


def test_packed_request_is_sent_again_as_it_was_packed(tmp_path: Path) -> None:
    server = Strict()
    packed = gzip.compress(json.dumps(STREAMED).encode())

    async def run() -> bytes:
        async with (
            serving(server.answer) as origin,
            recording(origin, tmp_path / "journal") as gateway,
            aiohttp.ClientSession() as client,
            client.post(gateway.origin + CHAT, data=packed, headers={"Content-Encoding": "gzip"}) as answer,
        ):
            return await answer.read()

    assert asyncio.run(run()) == EVENTS
    assert [json.loads(body) for body in server.bodies] == [STREAMED_WITH_USAGE, STREAMED]
    assert server.encodings == ["", "gzip"]


def test_second_answer_is_passed_on_as_it_comes(tmp_path: Path) -> None:
    first_arrived = asyncio.Event()

    async def upstream(request: web.Request) -> web.StreamResponse:
        if "stream_options" in await request.json():
            return web.json_response(REFUSAL, status=400)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(sse(chat_chunk({"content": "first"})))
        await asyncio.wait_for(first_arrived.wait(), PATIENCE_S)
        await response.write(sse("[DONE]"))
        return response

    async def run() -> bytes:
        async with (
            serving(upstream) as origin,
            recording(origin, tmp_path / "journal") as gateway,
            aiohttp.ClientSession() as client,
            client.post(gateway.origin + CHAT, json=STREAMED) as answer,
        ):
            first = await answer.content.readany()
            first_arrived.set()
            return first + await answer.content.read()

    assert asyncio.run(run()) == sse(chat_chunk({"content": "first"}), "[DONE]")
