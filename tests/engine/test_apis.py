"""Every API against every engine that is here: pieces, counts, cached tokens and lengths.

vLLM and Dynamo's mocker are tried where `make bench-engine` has installed them. SGLang and TensorRT-LLM do not run here.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import aiohttp
import pytest
from engine.conftest import MODELS
from engine.processes import post
from engine.real_engines import MissingEngine, RealEngine, Server, real_engines
from yarl import URL

from rotoscope.replayer.backends.apis import APIS, Api
from rotoscope.replayer.backends.engines import ENGINES, Engine
from rotoscope.replayer.backends.http import HttpBackend
from rotoscope.replayer.clock import LoopClock
from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.failures import Failure, FailureKind
from rotoscope.replayer.server import api_url, ask_server
from rotoscope.traces.analysis.profiles import profile_named, resident_tokens, usable_hit

ROOT = Path(__file__).parents[2]
APIS_THERE = ("completions", "chat", "responses", "messages")
OUTPUT_TOKENS = 12
TURNS = 4
TIMEOUT_S = 60.0
END_OF_STREAM = "2"
"""Id of the token that ends an answer of the tiny model."""


@dataclass(frozen=True)
class Running:
    engine: RealEngine
    server: Server


@pytest.fixture(scope="module", params=["vllm", "dynamo", "llamacpp"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    engines = real_engines(vllm=ROOT / ".venv-vllm", dynamo=ROOT / ".venv-dynamo", models=MODELS)
    found = next(engine for engine in engines if engine.name == request.param)
    if isinstance(found, MissingEngine):
        pytest.skip(found.reason)
    with found.start(tmp_path_factory.mktemp(found.name)) as server:
        yield Running(found, server)


def characters(first: int, count: int) -> str:
    """Return characters of one token each, from one on."""
    return "".join(map(chr, range(0x4E00 + first, 0x4E00 + first + count)))


class Conversation:
    """A prompt that grows by the answer and a new message, or by ids alone."""

    def __init__(self, api: Api, first: int) -> None:
        self._is_ids = api.prompts == "ids"
        self._first = first
        self._ids = list(range(1000 + first, 1200 + first))
        self._messages = [{"role": "user", "content": characters(first, 200)}]

    def prompt(self) -> bytes:
        value: Any = self._ids if self._is_ids else self._messages
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

    def goes_on(self, exchange: Exchange, turn: int) -> None:
        self._ids += [*exchange.output_ids, *range(2000, 2020)]
        self._messages.append({"role": "assistant", "content": "".join(exchange.output_text)})
        self._messages.append({"role": "user", "content": characters(self._first + 20 * turn, 20)})


def backend(http: aiohttp.ClientSession, running: Running, api: Api, engine: Engine, model: str) -> HttpBackend:
    return HttpBackend(
        http,
        api_url(running.server.url),
        api=api,
        model=model,
        engine=engine,
        timeout_s=TIMEOUT_S,
        clock=LoopClock(),
        tell=lambda kind, message: print(f"{kind}: {message}"),
    )


async def conversed(running: Running, api: Api, number: int) -> list[Exchange]:
    """Hold a conversation of a few turns that begins like no other; every request must succeed."""
    exchanges = []
    talk = Conversation(api, 300 * (1 + list(APIS).index(api.name)) + 3000 * number)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as http:
        url = URL(running.server.url) / "v1"
        server = await ask_server(http, url, model=running.server.model, timeout_s=TIMEOUT_S)
        for turn in range(TURNS):
            exchange = Exchange(prompt=talk.prompt(), output_tokens=OUTPUT_TOKENS)
            assert await backend(http, running, api, server.engine, server.model).perform(exchange) is None
            exchanges.append(exchange)
            talk.goes_on(exchange, turn)
    return exchanges


@pytest.mark.parametrize("api", APIS_THERE)
def test_an_engine_answers_so_many_tokens_and_counts_them(running: Running, api: str) -> None:
    exchanges = asyncio.run(conversed(running, APIS[api], 0))

    prompts = [exchange.prompt_tokens or 0 for exchange in exchanges]
    print(f"\n{running.engine.name} {api}: prompts {prompts}, cached {[one.cached_tokens for one in exchanges]}")
    grown = [later - earlier for earlier, later in pairwise(prompts)]
    assert len(set(grown)) == 1
    assert grown[0] >= OUTPUT_TOKENS + 20
    for exchange in exchanges:
        assert exchange.completion_tokens == OUTPUT_TOKENS
        assert 1 < exchange.token_events <= OUTPUT_TOKENS
        assert exchange.reasoning_text == []
        if APIS[api].prompts == "ids":
            assert exchange.whole_output_ids is not None
        else:
            assert len("".join(exchange.output_text)) == OUTPUT_TOKENS


@pytest.mark.parametrize("api", APIS_THERE)
def test_cached_tokens_are_those_of_the_engines_profile(running: Running, api: str) -> None:
    profile = profile_named(running.engine.profile, block_size=running.engine.block_size)

    exchanges = asyncio.run(conversed(running, APIS[api], 1))

    for earlier, later in pairwise(exchanges):
        assert earlier.prompt_tokens is not None
        assert later.prompt_tokens is not None
        common = resident_tokens(profile, earlier.prompt_tokens, OUTPUT_TOKENS)
        assert later.cached_tokens == usable_hit(profile, common, later.prompt_tokens)


@pytest.mark.parametrize("api", APIS_THERE)
def test_an_answer_that_would_end_is_as_long_as_asked_where_that_is_claimed(running: Running, api: str) -> None:
    engine = engine_of(running)
    if api not in engine.pins_lengths or api == "messages":
        pytest.skip("nothing is claimed here")
    exchange = Exchange(prompt=Conversation(APIS[api], 7).prompt(), output_tokens=OUTPUT_TOKENS)
    body = json.loads(APIS[api].body(running.server.model or "m", engine)(exchange))
    ends_at_once = {"stream": False, "stream_options": None, "logit_bias": {END_OF_STREAM: 100}}

    answer = post(f"{running.server.url}/v1/{APIS[api].path}", body | ends_at_once)

    usage = answer["usage"]
    assert usage.get("completion_tokens", usage.get("output_tokens")) == OUTPUT_TOKENS


def engine_of(running: Running) -> Engine:
    names = {"vllm": "vllm", "dynamo": "dynamo", "llamacpp": "llama.cpp"}
    return ENGINES[names[running.engine.name]]


@pytest.mark.parametrize("api", APIS_THERE)
def test_a_prompt_beyond_the_context_is_refused_by_name(running: Running, api: str) -> None:
    if running.engine.name == "dynamo":
        pytest.skip("the mocker knows no context length")

    async def ask() -> Failure | None:
        prompt = [1000] * 40_000
        messages = [{"role": "user", "content": characters(0, 20_000) * 2}]
        value: Any = prompt if APIS[api].prompts == "ids" else messages
        async with aiohttp.ClientSession() as http:
            name = running.server.model or "m"
            exchange = Exchange(prompt=json.dumps(value).encode(), output_tokens=1)
            return await backend(http, running, APIS[api], engine_of(running), name).perform(exchange)

    failure = asyncio.run(ask())

    assert failure is not None
    assert failure.kind is FailureKind.PROMPT_TOO_LONG


def test_dynamo_refuses_what_vllm_is_asked_with(running: Running) -> None:
    if running.engine.name != "dynamo":
        pytest.skip("of Dynamo only")
    body = {"model": running.server.model, "prompt": [1000], "max_tokens": 1, "return_token_ids": True}

    with pytest.raises(HTTPError) as refused:
        post(f"{running.server.url}/v1/completions", body)

    refused.value.close()
    assert refused.value.code == 400
