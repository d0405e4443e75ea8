"""Calls as the recorder sees them: times, streams, errors, calls that were left or had not ended."""

from __future__ import annotations

import json
from typing import Any

import pytest
from otlp_spans import agent, calls_of, chat, span, trace_of

from rotoscope.sdk.otlp import aspects
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.model import Call, Embedding

SAID = {
    "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": "How is it? " * 9}]}]),
    "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [{"type": "text", "content": "So it is."}]}]),
}
FAILED: dict[str, Any] = {"status": {"code": 2}}


def call_of(*told: Any, fidelity: Fidelity | None = None, **where: Any) -> Call:
    top = agent(at=(0, 9))
    (call,) = trace_of(top, chat(*told, parent=top, **where), fidelity=fidelity).calls()
    return call


def test_times_are_those_of_the_span() -> None:
    call = call_of(100, 10, {"gen_ai.response.time_to_first_chunk": 0.25}, at=(1, 3.5))

    assert (call.at_ms, call.ttft_ms, call.duration_ms) == (0.0, 250.0, 2500.0)


def test_the_first_piece_of_a_stream_came_when_nobody_tells() -> None:
    (streamed,), (whole,) = (
        calls_of(chat(10, 5, {"gen_ai.request.stream": is_stream}, at=(0, 1))) for is_stream in (True, False)
    )

    assert (streamed.ttft_ms, whole.ttft_ms) == (None, 1000.0)


def test_a_span_without_length_takes_the_least_time() -> None:
    assert call_of(100, 10, at=(1, 1)).duration_ms == 0.001


def test_counts_are_those_of_the_span() -> None:
    told = {"gen_ai.usage.cache_read.input_tokens": 64, "gen_ai.usage.reasoning.output_tokens": 4}

    call = call_of(100, 10, told, at=(1, 2))

    assert (call.prompt_tokens, call.completion_tokens, call.reasoning_tokens, call.cached_tokens) == (100, 10, 4, 64)


def test_a_call_without_usage_is_counted_by_its_content() -> None:
    fidelity = Fidelity()

    call = call_of(None, None, {**SAID, "gen_ai.response.finish_reasons": ["stop"]}, at=(1, 2), fidelity=fidelity)

    assert 20 < call.prompt_tokens < 60
    assert 0 < call.completion_tokens < 10
    assert fidelity.counts[aspects.ESTIMATED] == 1


@pytest.mark.parametrize(
    ("told", "where", "reason"),
    [
        ({"gen_ai.response.finish_reasons": ["length"]}, {}, "length"),
        ({}, {}, "unknown"),
        ({"error.type": "GeneratorExit"}, FAILED, "cancelled"),
        ({"gen_ai.request.stream": True}, {}, "cancelled"),
        ({"error.type": "Boom", "gen_ai.request.stream": True}, FAILED, "error"),
    ],
)
def test_calls_end_as_their_spans_say(told: dict[str, Any], where: dict[str, Any], reason: str) -> None:
    assert call_of(None, None, {**SAID, **told}, at=(1, 2), **where).finish_reason == reason


def test_of_an_answer_that_was_left_the_prompt_alone_is_counted() -> None:
    """As Anthropic's messages begin with the count of the prompt, and one token of the answer."""
    call = call_of(30, 1, {**SAID, "error.type": "GeneratorExit"}, at=(1, 2), **FAILED)

    assert (call.prompt_tokens, call.prompt_tokens_source, call.finish_reason) == (30, None, "cancelled")
    assert call.completion_tokens > 1
    assert call.completion_tokens_source != "usage"


def test_a_call_that_had_not_ended_is_lost() -> None:
    fidelity = Fidelity()

    call = call_of(100, None, SAID, at=(1, None), fidelity=fidelity)

    assert (call.finish_reason, call.duration_ms) == ("lost", None)
    assert fidelity.counts[aspects.UNFINISHED] == 1


def test_a_call_that_was_counted_has_ended_with_the_last_that_its_span_tells() -> None:
    fidelity = Fidelity()

    call = call_of(100, 10, at=(1, None), events=[("First Token Stream Event", 1.5, {})], fidelity=fidelity)

    assert (call.prompt_tokens, call.completion_tokens, call.duration_ms) == (100, 10, 500.0)
    assert fidelity.counts[aspects.UNFINISHED] == 1


def test_calls_that_failed_are_attempts_at_the_same_prompt() -> None:
    fidelity = Fidelity()
    top = agent(at=(0, 9))
    asked = {"gen_ai.input.messages": SAID["gen_ai.input.messages"]}
    failed = [chat(None, None, asked, at=(n, n + 0.5), parent=top, **FAILED) for n in (1, 2)]

    (call,) = trace_of(top, *failed, chat(100, 10, SAID, at=(3, 4), parent=top), fidelity=fidelity).calls()

    assert call.attempts == 3
    assert aspects.REFUSED not in fidelity.counts


def test_a_call_that_was_refused_for_good_is_told_of() -> None:
    fidelity = Fidelity()
    top = agent(at=(0, 9))
    asked = {"gen_ai.input.messages": SAID["gen_ai.input.messages"], "error.type": "400"}

    spans = [chat(100, 10, SAID, at=(1, 2), parent=top), chat(None, None, asked, at=(3, 4), parent=top, **FAILED)]

    assert len(list(trace_of(top, *spans, fidelity=fidelity).calls())) == 2 - fidelity.counts[aspects.REFUSED]


def test_outputs_of_one_request_are_calls_of_one_request() -> None:
    top = agent(at=(0, 9))
    answers = [{"role": "assistant", "parts": [{"type": "text", "content": text}]} for text in ("So.", "No.")]
    told = {**SAID, "gen_ai.output.messages": json.dumps(answers), "gen_ai.request.choice.count": 2}

    first, second = trace_of(top, chat(100, 11, told, at=(1, 2), parent=top)).calls()

    assert first.request == second.request == 0
    assert first.completion_tokens + second.completion_tokens == 11


def test_embeddings_are_events_of_their_own() -> None:
    top = agent(at=(0, 9))
    told = {"openinference.span.kind": "EMBEDDING", "llm.token_count.prompt": 7, "embedding.model_name": "e"}

    trace = trace_of(top, chat(100, 10, at=(1, 2), parent=top), span(told, at=(3, 4), parent=top))

    (found,) = [event for event in trace.events if isinstance(event, Embedding)]
    assert (found.prompt_tokens, found.at_ms, found.duration_ms) == (7, 2000.0, 1000.0)
