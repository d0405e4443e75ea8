from __future__ import annotations

import asyncio
import socket
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from event_loops import in_event_loop
from hypothesis import given
from hypothesis import strategies as st
from loopback import Handler, serving

from rotoscope.replayer.backends.engines import ANY_ENGINE, ENGINES
from rotoscope.replayer.server import Server, api_url, ask_server, ordinary_ids
from rotoscope.replayer.tokens import Vocabulary
from rotoscope.traces import RunFailed, UnusableInput

PLENTY_S = 60.0


async def asked(
    handler: Handler, *, model: str | None = None, timeout_s: float = PLENTY_S, engine: str | None = None
) -> Server:
    async with serving(handler) as origin, aiohttp.ClientSession() as http:
        return await ask_server(http, api_url(origin), model=model, timeout_s=timeout_s, engine=engine)


def offering(*cards: dict[str, Any]) -> Handler:
    async def models(request: web.Request) -> web.StreamResponse:
        return web.json_response({"object": "list", "data": list(cards)})

    return models


def refusing(status: int) -> Handler:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no"}}, status=status)

    return refuse


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://host:8000", "http://host:8000/v1"),
        ("http://host:8000/", "http://host:8000/v1"),
        ("http://host:8000/v1", "http://host:8000/v1"),
        ("http://host:8000/v1/", "http://host:8000/v1"),
        ("https://host/base", "https://host/base/v1"),
        ("https://host/api/paas/v4", "https://host/api/paas/v4"),
        ("https://host/v1beta/openai/", "https://host/v1beta/openai"),
        ("https://host/openai", "https://host/openai/v1"),
        ("host:8000", "http://host:8000/v1"),
        ("http://[::1]:8000", "http://[::1]:8000/v1"),
    ],
)
def test_a_url_is_given_with_or_without_v1(given: str, url: str) -> None:
    assert str(api_url(given)) == url


@pytest.mark.parametrize("given", ["", "ftp://host", "http://", "http://host:port", "http://host/v1?key=1"])
def test_what_is_no_url_of_a_server_is_refused(given: str) -> None:
    with pytest.raises(UnusableInput):
        api_url(given)


@given(st.integers(4, 2**31))
def test_ordinary_ids_leave_out_both_ends_and_keep_most(n_vocab: int) -> None:
    ids = ordinary_ids(n_vocab)

    assert 0 < ids.low < ids.high <= n_vocab
    assert ids.size >= n_vocab // 2


def test_control_ids_of_known_models_are_not_ordinary() -> None:
    llama_3, gpt_oss, tiny = ordinary_ids(128_256), ordinary_ids(201_088), ordinary_ids(32_768)

    assert (llama_3.low, tiny.low) == (1000, 1000)
    assert llama_3.high <= 128_000
    assert gpt_oss.high <= 199_998


@in_event_loop
async def test_a_server_tells_model_engine_and_vocabulary() -> None:
    server = await asked(offering({"id": "m", "owned_by": "llamacpp", "meta": {"n_vocab": 32_768}}))

    assert server == Server("m", ENGINES["llama.cpp"], Vocabulary(1000, 32_113))


@in_event_loop
async def test_an_engine_that_is_named_counts_whatever_the_server_says() -> None:
    server = await asked(offering({"id": "m", "owned_by": "openai"}), engine="trtllm")

    assert server.engine is ENGINES["trtllm"]


@in_event_loop
async def test_a_simulator_says_so_and_names_its_profile() -> None:
    meta = {"simulated": True, "profile": "vllm", "block_size": 32, "max_batch": 16, "replicas": 2}
    server = await asked(offering({"id": "m", "owned_by": "somebody", "meta": meta}))

    assert (server.simulated, server.profile, server.block_size) == (True, "vllm", 32)
    assert (server.max_batch, server.replicas) == (32, 2)
    assert server.engine is ANY_ENGINE


@in_event_loop
async def test_the_model_given_is_looked_up_among_several() -> None:
    cards: list[dict[str, Any]] = [{"id": "a", "owned_by": "vllm"}, {"id": "b", "meta": {"n_vocab": 50_000}}]

    assert (await asked(offering(*cards), model="b")).vocabulary == Vocabulary(1000, 49_000)


@in_event_loop
async def test_a_model_by_another_name_is_the_only_one_there_is() -> None:
    card: dict[str, Any] = {"id": "tiny", "owned_by": "vllm", "meta": {"n_vocab": 50_000}}

    assert await asked(offering(card), model="alias") == Server(
        "alias", engine=ENGINES["vllm"], vocabulary=Vocabulary(1000, 49_000), is_listed=False
    )


@in_event_loop
async def test_several_models_without_a_choice_are_listed() -> None:
    with pytest.raises(UnusableInput, match="choose one with --model: a, b"):
        await asked(offering({"id": "b"}, {"id": "a"}))


@in_event_loop
async def test_a_server_without_models_needs_one_named() -> None:
    with pytest.raises(RunFailed, match="names no model"):
        await asked(offering())


@pytest.mark.parametrize(("status", "advice"), [(401, "--api-key-env"), (404, "check the URL"), (500, "--model")])
@in_event_loop
async def test_a_refusal_says_what_to_do(status: int, advice: str) -> None:
    with pytest.raises(RunFailed, match=f"status {status} .*{advice}"):
        await asked(refusing(status))


@in_event_loop
async def test_with_a_model_given_the_list_is_not_needed() -> None:
    assert await asked(refusing(404), model="m") == Server("m")


@in_event_loop
async def test_a_model_that_is_none_of_those_listed_is_taken_and_told() -> None:
    listing = offering({"id": "b", "meta": {"n_vocab": 1000}})

    assert [(await asked(listing, model=name)).is_listed for name in (None, "b", "a")] == [True, True, False]


@pytest.mark.parametrize("body", [b"[]", b"nothing", b'{"data":7}', b'{"data":[7,{"id":8},{"id":"m","meta":[]}]}'])
@in_event_loop
async def test_a_strange_list_of_models_tells_nothing(body: bytes) -> None:
    async def strange(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body)

    assert await asked(strange, model="m") == Server("m")


@in_event_loop
async def test_nobody_listening_is_told_with_the_address_but_without_the_password() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = api_url(f"http://user:secret@127.0.0.1:{unused.getsockname()[1]}")
        async with aiohttp.ClientSession() as http:
            with pytest.raises(RunFailed, match="nothing listens at http://127") as error:
                await ask_server(http, url, model=None, timeout_s=PLENTY_S)

    assert "secret" not in str(error.value)


@in_event_loop
async def test_a_server_that_does_not_answer_is_not_waited_for() -> None:
    async def mute(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(RunFailed, match="does not answer"):
        await asked(mute, timeout_s=0.05)


@in_event_loop
async def test_a_host_name_that_is_none_is_no_traceback() -> None:
    async with aiohttp.ClientSession() as http:
        with pytest.raises(RunFailed, match="correct the URL"):
            await ask_server(http, api_url(f"http://{'a' * 70}"), model=None, timeout_s=PLENTY_S)


@pytest.mark.parametrize(
    ("card", "tokens"),
    [
        ({"max_model_len": 8192}, 8192),
        ({"meta": {"n_ctx": 4096, "n_ctx_train": 131072}}, 4096),
        ({"max_model_len": None, "meta": {"n_ctx_train": 131072}}, None),
        ({"max_model_len": "8192"}, None),
    ],
)
@in_event_loop
async def test_the_longest_context_is_taken_from_the_model_card(card: dict[str, Any], tokens: int | None) -> None:
    server = await asked(offering({"id": "m", **card}))

    assert server.context_tokens == tokens
