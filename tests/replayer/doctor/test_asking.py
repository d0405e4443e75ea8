from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from asking_a_patient import VOCABULARY, asking
from doctor_server import Patient
from event_loops import in_event_loop
from yarl import URL

from rotoscope.replayer.backends.engines import ENGINES
from rotoscope.replayer.doctor.asking import Asker, read_answer
from rotoscope.replayer.doctor.wire import Reply, Wire
from rotoscope.replayer.failures import Failure, FailureKind
from rotoscope.replayer.tokens import Vocabulary


def answer(*events: dict[str, Any], is_done: bool = True, content_type: str = "text/event-stream") -> Reply:
    return Reply(status=200, content_type=content_type, events=list(events), is_done=is_done)


def token(*ids: int, **more: Any) -> dict[str, Any]:
    return {"choices": [{"text": "x", "token_ids": list(ids), "finish_reason": None} | more]}


USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}


@in_event_loop
async def test_a_completion_says_what_a_replay_says_and_is_read() -> None:
    patient = Patient()
    async with asking(patient) as (asker, _):
        answered = await asker.complete([5, 6, 7], 4)

    body = patient.bodies[0]
    assert body["prompt"] == [5, 6, 7]
    assert (body["max_tokens"], body["min_tokens"], body["ignore_eos"], body["temperature"]) == (4, 4, True, 0)
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert (answered.tokens, len(answered.ids), answered.prompt_tokens, answered.cached_tokens) == (4, 4, 3, 0)
    assert answered.tokens_of_events == [1, 1, 1, 1]


@in_event_loop
async def test_what_was_used_is_counted() -> None:
    async with asking(Patient()) as (asker, _):
        prompt = asker.fresh(100)
        await asker.complete(prompt, 1)
        asker.count_anew()
        await asker.complete(prompt, 1)
        assert (asker.prompt_tokens, asker.cached_tokens, asker.uncounted) == (100, 96, 0)

    async with asking(Patient(has_usage=False)) as (asker, _):
        await asker.complete([5], 1)
        assert (asker.prompt_tokens, asker.uncounted) == (0, 1)


def asker_of(vocabulary: Vocabulary, http: aiohttp.ClientSession) -> Asker:
    return Asker(Wire(http, URL("http://h/v1"), timeout_s=1), model="m", vocabulary=vocabulary)


@in_event_loop
async def test_prompts_are_fresh_and_part_exactly_where_they_should() -> None:
    async with aiohttp.ClientSession() as http:
        asker, small = asker_of(VOCABULARY, http), asker_of(Vocabulary(7, 9), http)
        first, second = asker.fresh(50), asker.fresh(50)
        parting = [small.parting([7] * 20, 10, 15) for _ in range(50)]

    assert first != second
    assert all(VOCABULARY.low <= token < VOCABULARY.high for token in first)
    assert {len(one) for one in parting} == {15}
    assert all(one[:10] == [7] * 10 and one[10] == 8 for one in parting)


@pytest.mark.parametrize(
    ("events", "place"),
    [
        ([token(1), {"choices": [], "usage": USAGE}], "own event"),
        ([token(1, finish_reason="length") | {"usage": USAGE}], "last token's event"),
        ([token(1) | {"usage": USAGE}, token(2) | {"usage": USAGE}], "every event"),
        ([token(1) | {"usage": None}], "none"),
    ],
)
def test_the_place_of_usage_is_seen(events: list[dict[str, Any]], place: str) -> None:
    answered = read_answer(answer(*events), ENGINES["vllm"])

    assert answered.usage_place == place
    assert answered.cached_tokens == (None if place == "none" else 4)


def test_ids_of_each_engine_are_found() -> None:
    events = {
        "vllm": token(1, 2),
        "llama.cpp": {"choices": [{"text": "x", "logprobs": {"content": [{"id": 1}, {"id": 2}]}}]},
        "dynamo": {"choices": [{"text": "x"}], "nvext": {"completion_token_ids": [1, 2]}},
    }
    for engine, event in events.items():
        assert read_answer(answer(event), ENGINES[engine]).ids == [1, 2]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (answer(token(1), {"error": {"message": "out"}}), FailureKind.ERROR_IN_STREAM),
        (answer(token(1), is_done=False), FailureKind.CUT_STREAM),
        (answer(content_type="application/json"), FailureKind.MALFORMED),
        (Reply(failure=Failure(FailureKind.REFUSED)), FailureKind.REFUSED),
    ],
)
def test_what_is_no_whole_answer_has_failed(reply: Reply, kind: FailureKind) -> None:
    answered = read_answer(reply, ENGINES["vllm"])

    assert not answered.is_ok
    assert answered.why.startswith(kind.value)


@pytest.mark.parametrize("event", [{}, {"choices": 5}, {"choices": [5, None]}, token("x", -1), {"usage": {"a": "b"}}])  # type: ignore[arg-type]
def test_odd_events_bring_nothing(event: dict[str, Any]) -> None:
    answered = read_answer(answer(event), ENGINES["vllm"])

    assert answered.is_ok
    assert (answered.ids, answered.prompt_tokens) == ([], None)
