"""Recording without a gateway."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import httpx2
import openai
import pytest
from aiohttp import web
from loopback import CHAT, STREAMED, WHOLE, chat_answer, chat_chunk, sse, usage_chunk
from sdk_worlds import recorded_alone, serving_from_a_thread, traces_in

from rotoscope import trace_agent


async def answer(request: web.Request) -> web.StreamResponse:
    """Answer chat completions; other paths get the same."""
    body = await request.json()
    if not body.get("stream"):
        return web.json_response(chat_answer())
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    await response.write(sse(chat_chunk({"content": "do"}), chat_chunk({"content": "ne"}), chat_chunk({}, "stop")))
    if body.get("stream_options"):
        await response.write(sse(usage_chunk()))
    await response.write(sse("[DONE]"))
    return response


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with serving_from_a_thread(answer) as origin:
        yield origin


@trace_agent
def agent(origin: str) -> list[str]:
    """Ask twice, the second time for a stream; return what was said."""
    client = openai.OpenAI(base_url=f"{origin}/v1", api_key="secret", max_retries=0)
    whole = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}])
    stream = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hello"}], stream=True)
    chunks = list(stream)
    assert all(chunk.usage is None for chunk in chunks)
    return [str(whole.choices[0].message.content), "".join(x.choices[0].delta.content or "" for x in chunks)]


def test_a_run_is_a_trace_of_what_the_agent_and_its_server_said(tmp_path: Path, origin: str) -> None:
    with recorded_alone(tmp_path):
        assert agent(origin) == ["done", "done"]
        traces = traces_in(tmp_path)  # written when the agent has returned

    assert [[call.completion_tokens for call in trace.calls()] for trace in traces] == [[5, 5]]
    assert [path.suffixes for path in tmp_path.iterdir()] == [[".trace", ".json"]]


def test_runs_are_a_trace_each_and_share_a_campaign(tmp_path: Path, origin: str) -> None:
    with recorded_alone(tmp_path):
        agent(origin)
        agent(origin)

    first, second = traces_in(tmp_path)
    assert first.campaign == second.campaign


def test_calls_outside_of_every_agent_are_one_run(tmp_path: Path, origin: str) -> None:
    with recorded_alone(tmp_path):
        httpx2.post(origin + CHAT, json=WHOLE)
        agent(origin)
        httpx2.post(origin + CHAT, json=WHOLE)

    assert sorted(len(list(trace.calls())) for trace in traces_in(tmp_path)) == [2, 2]


@pytest.mark.parametrize("path", ["/v1/models", "/channels/1", "/upload"])
def test_requests_that_are_no_calls_leave_nothing(tmp_path: Path, origin: str, path: str) -> None:
    folder = tmp_path / "results"
    with recorded_alone(folder):
        httpx2.post(origin + path, json=WHOLE)
        httpx2.get(origin + CHAT)

    assert not folder.exists()


def test_a_request_to_a_path_like_that_of_calls_which_is_none_leaves_no_trace(tmp_path: Path, origin: str) -> None:
    with recorded_alone(tmp_path):
        httpx2.post(origin + "/channels/1/messages", json={"content": "secret"})

    assert list(tmp_path.iterdir()) == []


def test_what_was_recorded_is_told_in_a_line(tmp_path: Path, origin: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "rotoscope")
    with recorded_alone(tmp_path):
        agent(origin)

    assert [line.partition(":")[0] for line in caplog.messages if "tokens" in line] == [
        "2 calls, 40 prompt tokens, 10 completion tokens"
    ]
    assert "secret" not in caplog.text


def test_nothing_of_ours_is_told_to_the_server(tmp_path: Path) -> None:
    async def tell(request: web.Request) -> web.StreamResponse:
        return web.json_response({"choices": [], "told": [name.lower() for name in request.headers]})

    @trace_agent
    def ask(origin: str) -> list[str]:
        told: list[str] = httpx2.post(origin + CHAT, json=STREAMED).json()["told"]
        return told

    with serving_from_a_thread(tell) as origin, recorded_alone(tmp_path):
        told = ask(origin)

    assert [name for name in told if "rotoscope" in name or "trace" in name] == []


def test_agents_that_run_at_once_are_runs_of_their_own(tmp_path: Path, origin: str) -> None:
    @trace_agent
    async def ask(times: int) -> None:
        async with httpx2.AsyncClient() as client:
            for _ in range(times):
                await client.post(origin + CHAT, json=WHOLE)

    async def main() -> None:
        await asyncio.gather(*(ask(times) for times in (1, 2, 3)))

    with recorded_alone(tmp_path):
        asyncio.run(main())

    assert sorted(len(list(trace.calls())) for trace in traces_in(tmp_path)) == [1, 2, 3]
