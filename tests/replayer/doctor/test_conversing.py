from __future__ import annotations

from typing import Any

import pytest
from asking_a_patient import asking
from doctor_server import Patient, cut, hang, out_of_order
from event_loops import in_event_loop
from raw_server import Handler

from rotoscope.replayer.doctor.checks import Check
from rotoscope.replayer.doctor.conversing import check_chat


async def checked(patient: Patient, chat: Handler | None = None, *, engine: str = "vllm") -> dict[str, Check]:
    async with asking(patient, {"/v1/chat/completions": chat or patient.chat}, engine=engine) as (asker, known):
        return {check.name: check for check in await check_chat(asker.wire, known)}


@in_event_loop
async def test_chats_are_looked_at_like_completions() -> None:
    patient = Patient()
    checks = await checked(patient)

    names = ["usage", "stream", "output length", "cached tokens"]
    assert {name: check.verdict for name, check in checks.items()} == dict.fromkeys(names, "ok")
    assert {body["ignore_eos"] for body in patient.bodies} == {True}


@in_event_loop
async def test_an_endpoint_is_asked_in_its_own_words() -> None:
    patient = Patient()
    await checked(patient, engine="openai")

    assert {"max_completion_tokens"} <= set(patient.bodies[0])
    assert not {"max_tokens", "ignore_eos", "min_tokens", "temperature"} & set(patient.bodies[0])


@pytest.mark.parametrize(("engine", "verdict"), [("openai", "warn"), ("vllm", "fail")])
@in_event_loop
async def test_short_answers_are_a_fault_only_where_lengths_can_be_asked_for(engine: str, verdict: str) -> None:
    checks = await checked(Patient(generated=lambda tokens: min(tokens, 3)), engine=engine)

    assert checks["output length"].verdict == verdict
    assert checks["output length"].seen.endswith("got 1, 3 and 3")


@pytest.mark.parametrize(
    ("fault", "name", "verdict"),
    [
        ({"has_usage": False}, "usage", "warn"),
        ({"told_cached": lambda cached: None}, "cached tokens", "warn"),
        ({"told_cached": lambda cached: 600}, "cached tokens", "fail"),
        ({"ending": b"data: what\n\ndata: [DONE]\n\n"}, "stream", "fail"),
    ],
)
@in_event_loop
async def test_faults_are_found(fault: dict[str, Any], name: str, verdict: str) -> None:
    checks = await checked(Patient(**fault))

    assert checks[name].verdict == verdict


@pytest.mark.parametrize("handler", [out_of_order, cut, hang])
@in_event_loop
async def test_a_chat_that_is_not_answered_is_one_fault(handler: Handler) -> None:
    patient = Patient()
    async with asking(patient, {"/v1/chat/completions": handler}) as (asker, known):
        asker.wire.timeout_s = 60.0 if handler is not hang else 0.05
        checks = await check_chat(asker.wire, known)

    assert [(check.name, check.verdict) for check in checks] == [("stream", "fail")]
