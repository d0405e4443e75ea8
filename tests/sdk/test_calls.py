"""Which requests of clients are calls, and what becomes of a client's own retries."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from aiohttp import web
from loopback import CHAT, STREAMED, WHOLE, chat_answer, chat_chunk, sse, usage_chunk
from sdk_worlds import recorded_alone, serving_from_a_thread, traces_in

from rotoscope import trace_agent, trace_tool
from rotoscope.sdk.outgoing import Request
from rotoscope.sdk.spans import counts
from rotoscope.traces.model import Call, ToolCall


def recorded(folder: Path, handler: Callable[[web.Request], object], ask: Callable[[str], object]) -> list[Call]:
    """Return the calls of an agent that asks a server."""
    with serving_from_a_thread(handler) as origin, recorded_alone(folder):  # type: ignore[arg-type]
        trace_agent(ask)(origin)
    return [call for trace in traces_in(folder) for call in trace.calls()]


@pytest.mark.parametrize("is_stream", [False, True])
def test_retries_of_a_client_are_attempts_of_one_call(
    tmp_path: Path, is_stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.001)  # seconds, where no server says how long
    statuses = iter([429, 500, 0, 200])

    async def answer(request: web.Request) -> web.StreamResponse:
        status = next(statuses)
        if not status:
            assert request.transport is not None
            request.transport.close()
        if status != 200:
            return web.json_response({"error": {"message": "later"}}, status=status, headers={"retry-after-ms": "1"})
        if not is_stream:
            return web.json_response(chat_answer())
        return web.Response(
            body=sse(chat_chunk({"content": "done"}, "stop"), "[DONE]"), content_type="text/event-stream"
        )

    def ask(origin: str) -> None:
        said: Any = [{"role": "user", "content": "hello"}]
        with openai.OpenAI(base_url=f"{origin}/v1", api_key="x", max_retries=4) as client:
            answered = client.chat.completions.create(model="m", messages=said, stream=is_stream)
            if is_stream:
                list(answered)

    calls = recorded(tmp_path, answer, ask)

    assert [call.finish_reason for call in calls] == ["stop"]
    assert calls[0].attempts == 4


def test_a_server_that_refuses_to_be_asked_for_usage_is_asked_no_more(tmp_path: Path) -> None:
    asked: list[bool] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append("stream_options" in await request.json())
        if asked[-1]:
            return web.json_response({"error": {"message": "what is stream_options?"}}, status=400)
        return web.Response(
            body=sse(chat_chunk({"content": "done"}, "stop"), "[DONE]"), content_type="text/event-stream"
        )

    def ask(origin: str) -> None:
        for path in (CHAT, CHAT, f"/other{CHAT}"):
            assert httpx2.post(origin + path, json=STREAMED).status_code == 200

    calls = recorded(tmp_path, answer, ask)

    assert asked == [True, False, False, True, False]
    assert [(call.finish_reason, call.attempts) for call in calls] == [("stop", None)] * 3


def test_a_server_that_refuses_a_request_for_another_reason_is_still_asked(tmp_path: Path) -> None:
    asked: list[bool] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append("stream_options" in await request.json())
        if len(asked) <= 2:
            return web.json_response({"error": {"message": "who are you?"}}, status=400)
        chunks = sse(chat_chunk({"content": "done"}, "stop"), usage_chunk(), "[DONE]")
        return web.Response(body=chunks, content_type="text/event-stream")

    def ask(origin: str) -> None:
        assert [httpx2.post(origin + CHAT, json=STREAMED).status_code for _ in range(2)] == [400, 200]

    recorded(tmp_path, answer, ask)

    assert asked == [True, False, True]


def test_a_request_that_is_packed_is_read_and_sent_as_it_came(tmp_path: Path) -> None:
    came: list[bytes] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        came.append(await request.read())
        return web.json_response(chat_answer())

    packed = gzip.compress(b'{"model": "m", "messages": [{"role": "user", "content": "hello"}]}')

    def ask(origin: str) -> None:
        headers = {"content-encoding": "gzip", "content-type": "application/json"}
        for body in (packed, b"no gzip"):
            httpx2.post(origin + CHAT, content=body, headers=headers)

    calls = recorded(tmp_path, answer, ask)

    assert len(calls) == 1
    assert len(came) == 1  # the other one is none that the server could read


def test_what_a_packed_request_is_asked_besides_is_sent_plain(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        assert "content-encoding" not in request.headers
        assert (await request.json())["stream_options"] == {"include_usage": True}
        stream = sse(chat_chunk({"content": "done"}, "stop"), usage_chunk(completion_tokens=7), "[DONE]")
        return web.Response(body=stream, content_type="text/event-stream")

    def ask(origin: str) -> None:
        packed = gzip.compress(b'{"model": "m", "stream": true, "messages": [{"role": "user", "content": "hello"}]}')
        response = httpx2.post(origin + CHAT, content=packed, headers={"content-encoding": "gzip"})
        assert response.status_code == 200
        assert b'"usage": {' not in response.content
        assert response.request.headers["content-encoding"] == "gzip"

    assert [call.completion_tokens for call in recorded(tmp_path, answer, ask)] == [7]


def test_calls_of_threads_and_tasks_of_one_agent_are_of_its_run(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(chat_answer())

    async def asks(origin: str) -> None:
        def ask() -> None:
            httpx2.post(origin + CHAT, json={"model": "m", "messages": [{"role": "user", "content": "hello"}]})

        await asyncio.gather(*(asyncio.to_thread(ask) for _ in range(8)))

    with serving_from_a_thread(answer) as origin, recorded_alone(tmp_path):
        asyncio.run(trace_agent(asks)(origin))

    assert [len(list(trace.calls())) for trace in traces_in(tmp_path)] == [8]


def test_a_request_that_cannot_be_read_is_counted(tmp_path: Path) -> None:
    failed = counts.failed
    with recorded_alone(tmp_path) as alone:
        assert alone.hear(Request("POST", f"http://server{CHAT}", {"content-encoding": "gzip"}, b"no gzip")) is None

    assert counts.failed == failed + 1


def test_a_tool_that_calls_is_none(tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(chat_answer())

    with serving_from_a_thread(answer) as origin, recorded_alone(tmp_path):

        @trace_tool
        def calls() -> None:
            httpx2.post(origin + CHAT, json=WHOLE)

        trace_agent(lambda: (calls(), trace_tool(name="other")(lambda: None)()))()

    (trace,) = traces_in(tmp_path)
    assert len(list(trace.calls())) == len([x for x in trace.events if isinstance(x, ToolCall)]) == 1
