from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web
from asking_a_patient import asking
from doctor_server import Patient, html, out_of_order
from event_loops import in_event_loop
from raw_server import Handler

from rotoscope.replayer.doctor.endpoints import check_apis, check_context, check_tokenizer, tokenize


def says(answer: dict[str, Any], *, status: int = 200) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response(answer, status=status)

    return handler


@in_event_loop
async def test_each_api_is_tried_with_its_own_words() -> None:
    bodies: dict[str, tuple[dict[str, Any], str | None]] = {}

    async def keep(request: web.Request) -> web.StreamResponse:
        bodies[request.path] = (await request.json(), request.headers.get("anthropic-version"))
        usage = (
            {"input_tokens": 4, "cache_read_input_tokens": 5} if "messages" in request.path else {"prompt_tokens": 9}
        )
        return web.json_response({"usage": usage})

    paths = ("/v1/chat/completions", "/v1/responses", "/v1/messages")
    async with asking(Patient(), dict.fromkeys(paths, keep)) as (asker, known):
        checks = await check_apis(asker.wire, known)

    assert known.apis == ["chat", "responses", "messages"]
    assert [check.verdict for check in checks] == ["ok"] * 3
    assert all("counts 9 prompt tokens" in check.seen for check in checks)
    assert bodies["/v1/chat/completions"][0]["messages"][0]["role"] == "user"
    assert bodies["/v1/responses"][0]["max_output_tokens"] >= 16
    assert bodies["/v1/messages"][1] is not None


@in_event_loop
async def test_apis_that_are_absent_or_fail_are_told_and_no_fault() -> None:
    faults = {"/v1/responses": out_of_order, "/v1/messages": html}
    async with asking(Patient(), faults) as (asker, known):
        checks = await check_apis(asker.wire, known)

    assert known.apis == []
    assert [check.verdict for check in checks] == ["none"] * 3
    assert checks[0].seen == "no /v1/chat/completions"
    assert "out of order" in checks[1].seen
    assert "text/html" in checks[2].seen


@pytest.mark.parametrize("path", ["/tokenize", "/v1/tokenize"])
@in_event_loop
async def test_a_tokenizer_is_found(path: str) -> None:
    async with asking(Patient(), {path: says({"tokens": [1, 2, 3], "count": 3})}) as (asker, known):
        check = await check_tokenizer(asker.wire, known)
        ids = await tokenize(asker.wire, "m", "hi")

    assert (check.verdict, ids) == ("ok", [1, 2, 3])


@pytest.mark.parametrize("handler", [out_of_order, html, says({"tokens": []}), says({"ids": [1]})])
@in_event_loop
async def test_a_tokenizer_that_makes_no_tokens_is_none(handler: Handler) -> None:
    async with asking(Patient(), {"/tokenize": handler}) as (asker, known):
        assert (await check_tokenizer(asker.wire, known)).verdict == "none"


async def context_of(
    patient: Patient, others: Mapping[str, Handler] | None = None, *, claimed: int | None
) -> tuple[str, str, int | None]:
    async with asking(patient, others, known={"context_tokens": claimed}) as (asker, known):
        check = await check_context(asker, known)
    return check.verdict, check.seen, known.context_tokens


@in_event_loop
async def test_a_claimed_context_is_tried() -> None:
    found = await context_of(Patient(context_tokens=8192), claimed=8192)

    assert found == ("ok", "8,192 tokens, by /v1/models; a longer prompt is refused", 8192)


@in_event_loop
async def test_a_server_that_takes_longer_prompts_than_it_says_is_suspicious() -> None:
    verdict, seen, _ = await context_of(Patient(context_tokens=1 << 20), claimed=4096)

    assert (verdict, seen) == ("warn", "4,096 tokens, by /v1/models, but a longer prompt is accepted")


@in_event_loop
async def test_a_very_long_context_is_believed() -> None:
    patient = Patient()
    verdict, seen, _ = await context_of(patient, claimed=1 << 20)

    assert (verdict, seen, patient.bodies) == ("ok", "1,048,576 tokens, by /v1/models", [])


@in_event_loop
async def test_llama_cpp_tells_its_context_elsewhere() -> None:
    props = says({"default_generation_settings": {"n_ctx": 8192}})

    assert (await context_of(Patient(), {"/props": props}, claimed=None))[2] == 8192


@pytest.mark.parametrize(
    ("error", "tokens"),
    [
        ({"message": "This model's maximum context length is 8192 tokens. However, you requested 99"}, 8192),
        ({"message": "too large", "type": "exceed_context_size_error", "n_ctx": 4096}, 4096),
        ({"message": "max_seq_len (2048) is less than what was asked for"}, 2048),
        ({"message": "Max tokens must not exceed 1048576, got 100000000"}, None),
        ({"message": "no"}, None),
    ],
)
@in_event_loop
async def test_a_refusal_names_the_context(error: dict[str, Any], tokens: int | None) -> None:
    refusal = says({"error": error}, status=400)

    assert (await context_of(Patient(), {"/v1/completions": refusal}, claimed=None))[2] == tokens
