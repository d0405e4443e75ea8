from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.backends.answer import Answer
from rotoscope.replayer.backends.answer_completions import reading_completions
from rotoscope.replayer.backends.engines import ENGINES
from rotoscope.replayer.backends.grammar import AnswerFailed
from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.failures import FailureKind

VLLM = ENGINES["vllm"]
PARSES_ALL = replace(VLLM, ids_pattern=None)
DONE = b"[DONE]"


def choice_event(*, compact: bool = True, **choice: Any) -> bytes:
    fields = {"index": 0, "text": "x", "logprobs": None, "finish_reason": None} | choice
    event = {"id": "cmpl-1", "choices": [fields], "usage": None}
    return json.dumps(event, separators=(",", ":") if compact else None).encode()


def usage(completion_tokens: int) -> bytes:
    details = {"cached_tokens": 3}
    counts = {"prompt_tokens": 7, "completion_tokens": completion_tokens, "prompt_tokens_details": details}
    return json.dumps({"choices": [], "usage": counts}).encode()


TOKEN_IDS = st.lists(st.integers(0, 2**32 - 1), max_size=3)
TEXTS = st.sampled_from(["", "x", '"token_ids":[7]', '"finish_reason":null', '"error"', "a]b", "\n"])


@st.composite
def answers(draw: st.DrawFn) -> list[bytes]:
    """Draw the payloads of an answer: events compact or not, all with ids or none, some without a token."""
    has_ids = draw(st.booleans())
    payloads = []
    for _ in range(draw(st.integers(0, 8))):
        ids: dict[str, Any] = {"token_ids": draw(TOKEN_IDS)} if has_ids else {}
        text = "" if ids == {"token_ids": []} else draw(TEXTS)
        payloads.append(choice_event(compact=draw(st.booleans()), text=text, **ids))
    if draw(st.booleans()):
        ids = {"token_ids": draw(TOKEN_IDS)} if has_ids else {}
        payloads.append(choice_event(text="", finish_reason="length", **ids))
    return [*payloads, usage(draw(st.integers(0, 9))), DONE]


@st.composite
def in_batches(draw: st.DrawFn, payloads: list[bytes]) -> list[list[bytes]]:
    cuts = sorted(draw(st.lists(st.integers(0, len(payloads)), max_size=5)))
    return [payloads[start:end] for start, end in zip([0, *cuts], [*cuts, len(payloads)], strict=True)]


def read(batches: list[list[bytes]], engine: Any = VLLM, **fields: Any) -> Exchange:
    exchange = Exchange(prompt=b"[]", output_tokens=100, **fields)
    answer = Answer(exchange, reading_completions(engine))
    for number, batch in enumerate(batches):
        answer.take(batch, float(number))
    assert answer.is_whole
    return exchange


@given(st.data())
def test_what_is_skimmed_and_put_off_is_what_parsing_everything_gives(data: st.DataObject) -> None:
    payloads = data.draw(answers())
    batches = data.draw(in_batches(payloads))

    skimmed, parsed = read(batches), read(batches, PARSES_ALL, on_delivery=lambda tokens: None)

    assert skimmed.output_ids == parsed.output_ids
    assert (skimmed.completion_tokens, skimmed.cached_tokens) == (parsed.completion_tokens, parsed.cached_tokens)
    assert skimmed.first_token_s == parsed.first_token_s
    assert skimmed.ended_s == parsed.ended_s


def test_events_with_ids_are_not_parsed_after_the_first() -> None:
    broken_but_for_its_ids = b'{"choices":[{"token_ids":[8],"finish_reason":null}'

    exchange = read([[choice_event(token_ids=[7]), broken_but_for_its_ids, usage(2), DONE]])

    assert exchange.output_ids == [7, 8]


def test_a_large_answer_in_one_batch_is_skimmed_in_one_search() -> None:
    events = [choice_event(token_ids=[number]) for number in range(90)]

    exchange = read([[*events, usage(90), DONE]])

    assert exchange.output_ids == list(range(90))
    assert exchange.token_events == 90


def test_without_ids_the_last_token_is_timed_by_its_own_event() -> None:
    batches = [[choice_event()] for _ in range(6)]
    last = [[choice_event(text="", finish_reason="length")], [usage(6)], [DONE]]

    exchange = read([*batches, *last])

    assert (exchange.first_token_s, exchange.last_token_s, exchange.ended_s) == (0.0, 5.0, 8.0)
    assert exchange.token_events == 6


def test_what_came_of_an_answer_that_ends_early_is_kept() -> None:
    exchange = Exchange(prompt=b"[]", output_tokens=100)
    answer = Answer(exchange, reading_completions(VLLM))
    answer.take([choice_event(token_ids=[7]), choice_event(token_ids=[8]), choice_event(token_ids=[9])], 1.0)

    answer.keep_what_came()

    assert exchange.output_ids == [7, 8, 9]


@pytest.mark.parametrize("ids", [["7"], [-1], [2**32], [1.5], [None], [True]])
def test_an_id_that_is_none_is_found_when_the_answer_ends(ids: list[Any]) -> None:
    answer = Answer(Exchange(prompt=b"[]", output_tokens=1), reading_completions(VLLM))

    with pytest.raises(AnswerFailed) as failed:
        answer.take([choice_event(token_ids=ids), DONE], 0.0)

    assert failed.value.failure.kind is FailureKind.MALFORMED


@pytest.mark.parametrize("counts", [{"prompt_tokens": "7"}, {"prompt_tokens": -7}, {"prompt_tokens": True}, {}])
def test_a_count_that_is_none_is_unknown(counts: dict[str, Any]) -> None:
    exchange = read([[choice_event(token_ids=[7]), json.dumps({"usage": counts}).encode(), DONE]])

    assert exchange.prompt_tokens is None


def test_ids_keep_their_order_whether_they_are_skimmed_or_parsed() -> None:
    skimmed, parsed = choice_event(token_ids=[8]), choice_event(compact=False, token_ids=[9])

    exchange = read([[choice_event(token_ids=[7])], [skimmed], [parsed], [skimmed], [usage(4), DONE]])

    assert exchange.output_ids == [7, 8, 9, 8]


def test_an_event_that_tells_how_the_answer_ends_is_parsed_wherever_it_stands() -> None:
    answer = Answer(Exchange(prompt=b"[]", output_tokens=100), reading_completions(VLLM))
    given_up = choice_event(token_ids=[8], finish_reason="abort")

    with pytest.raises(AnswerFailed):
        answer.take([choice_event(token_ids=[7]), given_up, choice_event(token_ids=[9])], 0.0)
