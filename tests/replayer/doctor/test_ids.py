from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web
from asking_a_patient import asking
from doctor_server import Patient, out_of_order
from event_loops import in_event_loop
from raw_server import Handler

from rotoscope.replayer.doctor.checks import Check, Known
from rotoscope.replayer.doctor.ids import check_ids, not_tried

PLAIN = frozenset(
    {"model", "prompt", "stream", "stream_options", "temperature", "max_tokens", "min_tokens", "ignore_eos"}
)


async def checked(
    patient: Patient, others: Mapping[str, Handler] | None = None, *, engine: str = "vllm"
) -> tuple[dict[str, Check], Known]:
    async with asking(patient, others, engine=engine) as (asker, known):
        return {check.name: check for check in await check_ids(asker, known)}, known


@in_event_loop
async def test_a_good_server_takes_and_returns_ids() -> None:
    patient = Patient()
    checks, known = await checked(patient)

    assert {name: check.verdict for name, check in checks.items()} == dict.fromkeys(
        ["token ids", "output ids", "usage", "stream"], "ok"
    )
    assert (known.takes_ids, known.returns_ids, known.engine, known.apis) == (True, True, "vllm", ["completions"])
    assert len(patient.bodies) == 1


@pytest.mark.parametrize(
    ("field", "engine"), [("detokenize", "trtllm"), ("return_token_ids", "any"), ("return_token_ids", "vllm")]
)
@in_event_loop
async def test_the_way_of_asking_for_ids_is_found_whatever_the_server_calls_itself(field: str, engine: str) -> None:
    patient = Patient(ids_for=field, known_fields=PLAIN | {field})
    checks, known = await checked(patient, engine="any" if engine == "any" else "llama.cpp")

    assert checks["output ids"].verdict == "ok"
    assert field in checks["output ids"].seen
    assert known.returns_ids
    assert field in patient.bodies[-1]


@in_event_loop
async def test_a_server_that_returns_no_ids_is_asked_in_every_way_and_still_takes_ids() -> None:
    patient = Patient(ids_for=None, known_fields=PLAIN)
    checks, known = await checked(patient)

    assert (checks["token ids"].verdict, checks["output ids"].verdict) == ("ok", "warn")
    assert (known.takes_ids, known.returns_ids, known.engine) == (True, False, None)
    assert set(patient.bodies[-1]) == PLAIN


@in_event_loop
async def test_ids_that_are_not_taken_as_they_are_fail() -> None:
    checks, _ = await checked(Patient(told_prompt=lambda tokens: 3 * tokens))

    assert checks["token ids"].verdict == "fail"
    assert checks["token ids"].seen == "a prompt of 37 ids counts 111 tokens"


@in_event_loop
async def test_prompts_that_are_not_counted_cannot_be_verified() -> None:
    checks, _ = await checked(Patient(has_usage=False))

    assert (checks["token ids"].verdict, checks["usage"].verdict) == ("warn", "warn")


def refusing(status: int) -> Handler:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "prompt must be a string"}}, status=status)

    return refuse


@pytest.mark.parametrize(
    ("status", "verdict", "says"),
    [
        (400, "warn", "--api chat"),
        (404, "warn", "--api chat"),
        (405, "warn", "--api chat"),
        (501, "warn", "--api chat"),
        (401, "fail", "--api-key-env"),
        (500, "fail", "log"),
        (429, "fail", "log"),
    ],
)
@in_event_loop
async def test_a_refusal_says_what_to_do(status: int, verdict: str, says: str) -> None:
    checks, known = await checked(Patient(), {"/v1/completions": refusing(status)})

    assert list(checks) == ["token ids"]
    assert checks["token ids"].verdict == verdict
    assert says in checks["token ids"].advice
    assert "prompt must be a string" in checks["token ids"].seen
    assert not known.takes_ids


@in_event_loop
async def test_a_server_that_is_out_of_order_is_not_asked_in_other_ways() -> None:
    requests = 0

    async def counting(request: web.Request) -> web.StreamResponse:
        nonlocal requests
        requests += 1
        return await out_of_order(request)

    await checked(Patient(), {"/v1/completions": counting})

    assert requests <= 2


@pytest.mark.parametrize(
    ("fault", "verdict", "says"),
    [
        ({"tokens_an_event": 3}, "warn", "up to 3 tokens an event"),
        ({"tokens_an_event": 9}, "warn", "one event"),
        ({"ending": b"data: what\n\ndata: [DONE]\n\n"}, "fail", "1 events are no JSON"),
    ],
)
@in_event_loop
async def test_the_grammar_of_the_stream_is_looked_at(fault: dict[str, Any], verdict: str, says: str) -> None:
    checks, _ = await checked(Patient(**fault))

    assert checks["stream"].verdict == verdict
    assert says in checks["stream"].seen


def test_what_needs_ids_is_named_where_there_are_none() -> None:
    assert {check.verdict for check in not_tried()} == {"none"}
    assert "block size" in [check.name for check in not_tried()]
