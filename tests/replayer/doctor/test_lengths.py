from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web
from asking_a_patient import asking
from doctor_server import EOS, Patient
from event_loops import in_event_loop
from raw_server import Handler

from rotoscope.replayer.doctor.checks import Check
from rotoscope.replayer.doctor.lengths import check_lengths


async def checked(patient: Patient, others: Mapping[str, Handler] | None = None) -> dict[str, Check]:
    async with asking(patient, others) as (asker, known):
        return {check.name: check for check in await check_lengths(asker, known)}


@in_event_loop
async def test_lengths_are_obeyed_even_where_the_model_ends() -> None:
    checks = await checked(Patient())

    assert (checks["output length"].verdict, checks["ignore_eos"].verdict) == ("ok", "ok")
    assert "6 of 6 tokens where the model ends after 1" in checks["ignore_eos"].seen


@in_event_loop
async def test_one_of_the_two_fields_is_enough() -> None:
    checks = await checked(Patient(obeys=frozenset({"ignore_eos"})))

    assert checks["ignore_eos"].verdict == "ok"
    assert "ignore_eos alone: obeyed, min_tokens alone: ignored" in checks["ignore_eos"].seen


@in_event_loop
async def test_a_server_that_obeys_neither_fails() -> None:
    checks = await checked(Patient(obeys=frozenset()))

    assert checks["output length"].verdict == "ok"
    assert checks["ignore_eos"].verdict == "fail"
    assert checks["ignore_eos"].seen.startswith("1 of 6 tokens")


@in_event_loop
async def test_where_no_answer_ends_early_nothing_is_proved() -> None:
    patient = Patient(ends_early=False)
    checks = await checked(patient)

    assert checks["ignore_eos"].verdict == "none"
    assert "not provable" in checks["ignore_eos"].seen
    assert len(patient.bodies) < 20


@in_event_loop
async def test_an_answer_that_ends_by_itself_will_do() -> None:
    def generated(tokens: int) -> int:
        return min(tokens, 30)

    checks = await checked(Patient(ends_early=False, generated=generated, obeys=frozenset()))

    assert checks["ignore_eos"].verdict == "fail"
    assert checks["ignore_eos"].seen.startswith("30 of 64 tokens")


@in_event_loop
async def test_the_end_of_text_is_asked_of_the_tokenizer() -> None:
    async def tokenize(request: web.Request) -> web.StreamResponse:
        text = (await request.json())["prompt"]
        return web.json_response({"tokens": [EOS] if text == "<|im_end|>" else [7, 8]})

    patient = Patient()
    checks = await checked(patient, {"/tokenize": tokenize})

    assert checks["ignore_eos"].verdict == "ok"
    pushed = [body["logit_bias"] for body in patient.bodies if "logit_bias" in body]
    assert pushed == [{str(EOS): 100}] * 4


@in_event_loop
async def test_other_lengths_than_asked_for_fail() -> None:
    checks = await checked(Patient(generated=lambda tokens: min(tokens, 20)))

    assert list(checks) == ["output length"]
    assert checks["output length"].verdict == "fail"
    assert checks["output length"].seen == "asked for 1, 7 and 24 tokens, got 1, 7 and 20"


@in_event_loop
async def test_lengths_that_are_not_told_cannot_be_verified() -> None:
    checks = await checked(Patient(has_usage=False, ids_for=None))

    assert checks["output length"].verdict == "warn"
