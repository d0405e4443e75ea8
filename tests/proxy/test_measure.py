from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from loopback import (
    CHAT,
    PATIENCE_S,
    STREAMED,
    Handler,
    chat_answer,
    chat_chunk,
    measuring,
    recording,
    serving,
    sse,
)

from rotoscope.proxy.measure import QUEUE_LENGTH, Measurer
from rotoscope.proxy.upstream import open_session, upstream_given
from rotoscope.recorder.exchange import Exchange
from rotoscope.traces.journal import DialectName
from rotoscope.traces.model import Call

CHAT_BODY: dict[str, Any] = {
    "model": "m",
    "stream": True,
    "temperature": 0.5,
    "messages": [{"role": "user", "content": "hello"}],
    "tools": [{"type": "function", "function": {"name": "look"}}],
    "chat_template_kwargs": {"enable_thinking": False},
}


class Prompt(Exchange):
    """An exchange that keeps what was measured."""

    def __init__(self, body: Mapping[str, Any] = CHAT_BODY, dialect: DialectName | None = "chat") -> None:
        super().__init__(json.dumps(body).encode())
        self._dialect = dialect
        self.ids: list[Sequence[int] | None] = []

    @property
    def measurable(self) -> DialectName | None:
        return self._dialect

    def measured(self, ids: Sequence[int] | None) -> None:
        self.ids.append(ids)


@dataclass
class Asked:
    """A request of the measurer."""

    path: str
    body: dict[str, Any]
    headers: Mapping[str, str]


@contextlib.asynccontextmanager
async def measuring_at(origin: str) -> AsyncIterator[tuple[Measurer, list[str]]]:
    """Run a measurer; give it and what it says."""
    upstream, notices = upstream_given(origin), list[str]()
    async with open_session(upstream) as session, measuring(upstream, session, notices.append) as measurer:
        yield measurer, notices


def measured(handler: Handler, *prompts: Prompt, headers: Mapping[str, str] = {}) -> tuple[int, list[str]]:
    """Measure prompts at a server; return how many were missed and what was said."""

    async def run() -> tuple[int, list[str]]:
        async with serving(handler) as origin, measuring_at(origin) as (measurer, notices):
            for prompt in prompts:
                measurer.submit(prompt, headers)
            await measurer.settle(timeout_s=PATIENCE_S)
            return measurer.missed, notices

    return asyncio.run(run())


def answering(answers: Mapping[str, Any], asked: list[Asked]) -> Handler:
    """Return a server with an answer for each path it knows: JSON, or a status."""

    async def handler(request: web.Request) -> web.Response:
        asked.append(Asked(request.path, await request.json(), request.headers.copy()))
        known = answers.get(request.path, 404)
        return web.Response(status=known) if isinstance(known, int) else web.json_response(known)

    return handler


def test_llama_server_renders_the_request_and_tokenizes_the_text_as_its_chat_endpoint_does() -> None:
    asked: list[Asked] = []
    prompt = Prompt()

    measured(answering({"/apply-template": {"prompt": "<s>hello"}, "/tokenize": {"tokens": [1, 2, 3]}}, asked), prompt)

    assert prompt.ids == [[1, 2, 3]]
    assert [(one.path, one.body) for one in asked] == [
        ("/apply-template", CHAT_BODY),
        ("/tokenize", {"content": "<s>hello", "add_special": True, "parse_special": True}),
    ]


def test_vllm_tokenizes_the_messages_and_is_asked_at_once_the_second_time() -> None:
    asked: list[Asked] = []
    first, second = Prompt(), Prompt()

    measured(answering({"/tokenize": {"count": 2, "max_model_len": 9, "tokens": [7, 8]}}, asked), first, second)

    assert (first.ids, second.ids) == ([[7, 8]], [[7, 8]])
    assert [one.path for one in asked] == ["/apply-template", "/tokenize", "/tokenize"]
    assert asked[-1].body == {
        "model": "m",
        "messages": CHAT_BODY["messages"],
        "tools": CHAT_BODY["tools"],
        "chat_template_kwargs": CHAT_BODY["chat_template_kwargs"],
        "add_generation_prompt": True,
    }


def test_a_text_is_tokenized_as_it_is() -> None:
    llama: list[Asked] = []
    vllm: list[Asked] = []
    body = {"model": "m", "prompt": "once"}
    first, second = Prompt(body, "completions"), Prompt(body, "completions")

    measured(answering({"/apply-template": {"prompt": ""}, "/tokenize": {"tokens": [1]}}, llama), first)
    measured(answering({"/tokenize": {"tokens": [1]}}, vllm), second)

    assert (first.ids, second.ids) == ([[1]], [[1]])
    assert llama[-1].body == {"content": "once", "add_special": True, "parse_special": True}
    assert vllm[-1].body == {"prompt": "once"}


def test_a_prompt_that_has_none_of_its_own_is_not_asked_about() -> None:
    asked: list[Asked] = []
    opaque, unmeasurable = Prompt({"input": "x", "previous_response_id": "r"}, "responses"), Prompt(CHAT_BODY, None)

    missed, notices = measured(answering({"/tokenize": {"tokens": [1]}}, asked), opaque, unmeasurable)

    assert (missed, opaque.ids, unmeasurable.ids, asked) == (1, [None], [], [])
    assert "its prompt is not all in its request" in notices[0]


def test_key_of_the_call_goes_along_and_nothing_else_of_its_header() -> None:
    asked: list[Asked] = []
    headers = {"authorization": "Bearer k", "cookie": "c", "x-session": "s"}

    measured(answering({"/tokenize": {"tokens": [1]}}, asked), Prompt(), headers=headers)

    assert {one.headers.get("Authorization") for one in asked} == {"Bearer k"}
    assert not any("Cookie" in one.headers or "x-session" in one.headers for one in asked)


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        ({}, "neither /apply-template nor a /tokenize that takes messages"),
        ({"/apply-template": 500}, "/apply-template answers 500"),
        ({"/apply-template": {"prompt": "x"}, "/tokenize": 401}, "/tokenize answers 401"),
        ({"/apply-template": ["x"]}, "/apply-template answers with something else than an object"),
        ({"/tokenize": {"tokens": None}}, "/tokenize answers without token ids"),
        ({"/tokenize": {"tokens": ["a"]}}, "/tokenize answers without token ids"),
    ],
)
def test_server_that_cannot_measure_is_told_once_and_every_prompt_stays_unmeasured(
    answers: Mapping[str, Any], says: str
) -> None:
    prompts = [Prompt(), Prompt()]

    missed, notices = measured(answering(answers, []), *prompts)

    assert [prompt.ids for prompt in prompts] == [[None], [None]]
    assert missed == 2
    assert len(notices) == 1
    assert says in notices[0]


def test_broken_answer_does_not_end_the_measuring() -> None:
    broken = iter([True, False])

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/apply-template":
            return web.Response(text="secret, no JSON") if next(broken) else web.json_response({"prompt": "p"})
        return web.json_response({"tokens": [1]})

    prompts = [Prompt(), Prompt()]
    _, notices = measured(handler, *prompts)

    assert [prompt.ids for prompt in prompts] == [[None], [[1]]]
    assert len(notices) == 1
    assert "secret" not in notices[0]


def test_server_that_closes_a_connection_is_asked_once_more() -> None:
    seen: list[str] = []

    async def closing(request: web.Request) -> web.StreamResponse:
        seen.append(request.path)
        if len(seen) in (1, 3):
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"prompt": "hello", "tokens": [1, 2]})

    prompt = Prompt()
    missed, _ = measured(closing, prompt)

    assert (missed, prompt.ids) == (0, [[1, 2]])
    assert seen == ["/apply-template", "/apply-template", "/tokenize", "/tokenize"]


def test_server_that_resets_a_connection_while_it_is_asked_is_asked_once_more() -> None:
    seen: list[str] = []

    async def resetting(request: web.Request) -> web.StreamResponse:
        seen.append(request.path)
        if len(seen) == 1:
            assert request.transport is not None
            connection = request.transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            request.transport.abort()
        await request.read()
        return web.json_response({"prompt": "hello", "tokens": [1, 2]})

    prompt = Prompt({"messages": [{"role": "user", "content": "x" * 900_000}]})
    missed, said = measured(resetting, prompt)

    assert (missed, said, prompt.ids) == (0, [], [[1, 2]])
    assert seen == ["/apply-template", "/apply-template", "/tokenize"]


def test_server_that_is_gone_leaves_the_prompt_unmeasured() -> None:
    prompt = Prompt()

    async def run() -> list[str]:
        async with measuring_at("http://127.0.0.1:9") as (measurer, notices):
            measurer.submit(prompt, {})
            await measurer.settle(timeout_s=PATIENCE_S)
            return notices

    notices = asyncio.run(run())

    assert prompt.ids == [None]
    assert "ClientConnectorError" in notices[0]


def test_prompts_beyond_the_queue_stay_unmeasured() -> None:
    prompts = [Prompt() for _ in range(QUEUE_LENGTH + 3)]

    missed, notices = measured(answering({"/tokenize": {"tokens": [1]}}, []), *prompts)

    assert missed == 3
    assert [prompt.ids for prompt in prompts[-3:]] == [[None]] * 3
    assert prompts[-4].ids == [[1]]
    assert len(notices) == 1


def test_end_does_not_wait_for_a_server_that_does_not_answer() -> None:
    arrived = asyncio.Event()

    async def handler(_: web.Request) -> web.Response:
        arrived.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    prompts = [Prompt(), Prompt(), Prompt()]

    async def run() -> list[str]:
        async with serving(handler) as origin, measuring_at(origin) as (measurer, notices):
            for prompt in prompts:
                measurer.submit(prompt, {})
            await arrived.wait()
            assert measurer.waiting == 3
            await measurer.settle(timeout_s=0.01)
            return notices

    notices = asyncio.run(run())

    assert [prompt.ids for prompt in prompts] == [[None], [], []]
    assert len(notices) == 1


def test_prompts_that_come_later_are_not_waited_for() -> None:
    tokenized: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        if request.path != "/tokenize":
            return web.Response(status=404)
        tokenized.append(request.path)
        if len(tokenized) > 1:
            await asyncio.Event().wait()
        return web.json_response({"tokens": [1]})

    first, second = Prompt(), Prompt()

    async def run() -> list[str]:
        async with serving(handler) as origin, measuring_at(origin) as (measurer, notices):
            await measurer.settle(timeout_s=PATIENCE_S)
            measurer.submit(first, {})
            settling = asyncio.create_task(measurer.settle(timeout_s=PATIENCE_S))
            await asyncio.sleep(0)
            measurer.submit(second, {})
            await settling
            return list(notices)

    assert asyncio.run(run()) == []
    assert first.ids == [[1]]


def rendered(messages: Sequence[Mapping[str, str]]) -> str:
    """Return the prompt that a template makes of messages."""
    return "".join(f"<{message['role']}>{message['content']}" for message in messages) + "<assistant>"


async def character_server(request: web.Request) -> web.Response:
    """Serve a model whose tokens are characters."""
    body = await request.json()
    if request.path == "/apply-template":
        return web.json_response({"prompt": rendered(body["messages"])})
    if request.path == "/tokenize":
        return web.json_response({"tokens": [ord(character) for character in body["content"]]})
    return web.json_response(chat_answer("fine", prompt_tokens=len(rendered(body["messages"])), completion_tokens=4))


def test_measured_prompts_have_their_true_common_prefix_in_the_trace(tmp_path: Path) -> None:
    first = [{"role": "user", "content": "one two three"}]
    conversations = [
        first,
        [*first, {"role": "assistant", "content": "fine"}, {"role": "user", "content": "four"}],
        [{"role": "user", "content": "one twice"}],
    ]

    async def run() -> list[Call]:
        async with (
            serving(character_server) as origin,
            recording(origin, tmp_path / "journal", measure=True) as gateway,
            aiohttp.ClientSession() as client,
        ):
            for messages in conversations:
                body = {"model": "m", "messages": messages}
                async with client.post(gateway.origin + CHAT, json=body) as answer:
                    await answer.read()
            return await gateway.calls()

    calls = asyncio.run(run())

    assert [(call.prefix.of, call.prefix.tokens) for call in calls] == [
        (None, 0),
        (0, len(rendered(first) + "fine")),
        (0, len("<user>one tw")),
    ]
    assert [call.prefix.source for call in calls] == ["ids", "text", "ids"]  # the ids of an answer are not seen
    assert calls[1].prefix.least >= len(rendered(first))
    assert calls[2].prefix.least == calls[2].prefix.greatest == len("<user>one tw")


def test_answer_does_not_wait_for_the_measuring(tmp_path: Path) -> None:
    answered = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        if request.path != CHAT:
            await asyncio.wait_for(answered.wait(), PATIENCE_S)
        return await character_server(request)

    async def run() -> list[Call]:
        async with (
            serving(handler) as origin,
            recording(origin, tmp_path / "journal", measure=True) as gateway,
            aiohttp.ClientSession() as client,
        ):
            body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
            async with client.post(gateway.origin + CHAT, json=body) as answer:
                await answer.read()
            answered.set()
            return await gateway.calls()

    assert len(asyncio.run(run())) == 1


def test_prompt_whose_client_left_is_measured_too(tmp_path: Path) -> None:
    left = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path != CHAT:
            return await character_server(request)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(sse(chat_chunk({"content": "fi"})))
        try:
            await asyncio.Event().wait()
        finally:
            left.set()
        return response

    async def run() -> list[Call]:
        async with (
            serving(handler) as origin,
            recording(origin, tmp_path / "journal", measure=True) as gateway,
            aiohttp.ClientSession() as client,
        ):
            async with client.post(gateway.origin + CHAT, json=STREAMED) as answer:
                await answer.content.readuntil(b"\n\n")
                answer.close()
            await asyncio.wait_for(left.wait(), PATIENCE_S)
            return await gateway.calls()

    (call,) = asyncio.run(run())

    assert (call.finish_reason, call.prompt_tokens) == ("cancelled", len("<user>hello<assistant>"))
