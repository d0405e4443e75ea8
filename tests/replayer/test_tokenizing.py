from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from raw_server import serving

from rotoscope.replayer.server import api_url
from rotoscope.replayer.tokenizing import Ids, ServerTokenizer, conversation

Answer = Callable[[str, dict[str, Any]], object]


def asked(answer: Answer, ask: Callable[[ServerTokenizer], Awaitable[Ids | None]]) -> list[int] | None:
    """Ask a server whose answer to a path and a body is given; None stands for status 404."""

    async def handle(request: web.Request) -> web.StreamResponse:
        value = answer(request.path, await request.json())
        if isinstance(value, bytes):
            return web.Response(body=value)
        return web.json_response(value, status=404 if value is None else 200)

    async def main() -> Ids | None:
        app = web.Application()
        app.router.add_post("/{path:.*}", handle)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        try:
            async with aiohttp.ClientSession() as http:
                return await ask(ServerTokenizer(http, api_url(url), model="m", timeout_s=10))
        finally:
            await runner.cleanup()

    ids = asyncio.run(main())
    return None if ids is None else ids.tolist()


def test_text_is_asked_for_under_both_names_beside_the_api() -> None:
    def answer(path: str, body: dict[str, Any]) -> object:
        assert (path, body["prompt"], body["content"], body["model"]) == ("/tokenize", "a b", "a b", "m")
        return {"tokens": [5, 6], "count": 2}

    assert asked(answer, lambda one: one.text("a b")) == [5, 6]


def test_messages_go_by_way_of_the_template_where_there_is_one_to_apply() -> None:
    def answer(path: str, body: dict[str, Any]) -> object:
        if path == "/apply-template":
            return {"prompt": "<" + body["messages"][0]["content"] + ">"}
        return {"tokens": [ord(one) for one in body["content"]]} if body["parse_special"] else None

    assert asked(answer, lambda one: one.prompt(conversation("a"))) == [60, 97, 62]


def test_messages_are_tokenized_as_they_are_where_the_server_takes_them() -> None:
    def answer(path: str, body: dict[str, Any]) -> object:
        return {"tokens": [len(body["messages"])]} if path == "/tokenize" and body["add_generation_prompt"] else None

    assert asked(answer, lambda one: one.prompt(conversation("a", "b", "c"))) == [3]


@pytest.mark.parametrize(
    "answer", [None, {}, {"tokens": []}, {"tokens": ["a"]}, {"tokens": [-1]}, {"tokens": [True]}, [], b"<html>", b""]
)
def test_any_other_answer_tells_nothing(answer: object) -> None:
    assert asked(lambda path, body: answer, lambda one: one.text("a")) is None
    assert asked(lambda path, body: answer, lambda one: one.prompt(conversation("a"))) is None


def test_a_server_that_tells_nothing_is_not_asked_again() -> None:
    paths: list[str] = []

    def answer(path: str, body: dict[str, Any]) -> object:
        paths.append(path)
        return {"tokens": [1]} if path == "/tokenize" and "messages" not in body else None

    async def ask(one: ServerTokenizer) -> Ids | None:
        for _ in range(2):
            assert await one.prompt(conversation("a")) is None
            assert await one.text("a") is not None
        return None

    asked(answer, ask)

    assert paths == ["/apply-template", "/tokenize", "/tokenize", "/tokenize"]


def test_a_server_that_tells_no_texts_is_not_asked_for_prompts() -> None:
    paths: list[str] = []

    def answer(path: str, body: dict[str, Any]) -> object:
        paths.append(path)
        return None

    async def ask(one: ServerTokenizer) -> Ids | None:
        assert await one.text("a") is None
        return await one.prompt(conversation("a"))

    assert asked(answer, ask) is None
    assert paths == ["/tokenize"]


def test_an_answer_without_an_end_is_not_read_to_it() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(bytes(1 << 20))

    async def main() -> Ids | None:
        async with serving({"/tokenize": endless}) as url, aiohttp.ClientSession() as http:
            return await ServerTokenizer(http, api_url(url), model="m", timeout_s=60).text("a")

    assert asyncio.run(asyncio.wait_for(main(), 20)) is None


def test_nobody_there_tells_nothing() -> None:
    async def main() -> Ids | None:
        async with aiohttp.ClientSession() as http:
            return await ServerTokenizer(http, api_url("http://127.0.0.1:1"), model="m", timeout_s=10).text("a")

    assert asyncio.run(main()) is None


def test_a_conversation_begins_with_the_user() -> None:
    assert conversation("a", "b", "c") == [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
