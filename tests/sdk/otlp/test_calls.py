"""Spans that tell of one call are one call, wherever they stand; loops around several are none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from otlp_spans import TRACE, Span, agent, chat, message, span, tool

from rotoscope.sdk.otlp.calls import Folded, fold_calls
from rotoscope.sdk.otlp.reading import read_spans
from rotoscope.sdk.otlp.runs import find_parents
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.source import Source

OTHER = "1" * 32


def folded(*by_scope: list[Span]) -> Folded:
    """Fold spans of several instrumentations."""
    messages = [message(spans, scope=f"scope {number}") for number, spans in enumerate(by_scope)]
    spans = read_spans(Source.of_bytes(json.dumps(messages).encode()))
    return fold_calls(spans, find_parents(spans, Fidelity()))


def said(text: str) -> dict[str, str]:
    """Return the content of a call, as the conventions have it."""
    asked = [{"role": "user", "parts": [{"type": "text", "content": text}]}]
    return {"gen_ai.input.messages": json.dumps(asked)}


def openinference(text: str, tokens: int | None = None) -> dict[str, Any]:
    told = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "a-model",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": text,
    }
    return told if tokens is None else {**told, "llm.token_count.prompt": tokens, "llm.token_count.completion": 5}


def test_a_call_within_a_call_is_one_as_the_inner_one_tells_where_the_outer_one_stands() -> None:
    top = agent(at=(0, 9))
    outer = span(openinference("Hi."), at=(1, 4), parent=top)
    inner = chat(100, 5, at=(2, 3), parent=outer)

    found = folded([top, outer, inner])

    (call,) = found.calls
    assert found.doubles == 1
    assert (call.usage.prompt_tokens, call.has_content) == (100, True)
    assert call.end_ns is not None
    assert call.end_ns - call.start_ns == 1_000_000_000
    assert call.span.span_id == outer["spanId"]


def test_calls_nested_three_deep_are_one() -> None:
    outer = span({"langfuse.observation.type": "generation"}, at=(0, 9))
    middle = span(openinference("Hi."), at=(1, 8), parent=outer)

    (call,) = folded([outer, middle, chat(100, 5, at=(2, 3), parent=middle)]).calls

    assert call.span.span_id == outer["spanId"]
    assert call.has_content


def test_spans_between_two_calls_do_not_part_them_but_tools_and_agents_do() -> None:
    outer = span(openinference("Hi.", 300), at=(0, 9))
    between = span({}, at=(1, 8), parent=outer)
    within_tool = tool(at=(1, 8), parent=outer)

    assert len(folded([outer, between, chat(100, 5, at=(2, 3), parent=between)]).calls) == 1
    assert len(folded([outer, within_tool, chat(100, 5, at=(2, 3), parent=within_tool)]).calls) == 2


def test_a_span_around_several_calls_is_a_loop_and_no_call() -> None:
    outer = span(openinference("Hi.", 300), at=(0, 9))
    inner = [chat(100, 5, at=(at, at + 1), parent=outer) for at in (1, 3)]

    assert [call.usage.prompt_tokens for call in folded([outer, *inner]).calls] == [100, 100]


def test_a_span_around_a_loop_is_no_call_either() -> None:
    outermost = span({"langfuse.observation.type": "generation"}, at=(0, 10))
    loop = span(openinference("Hi."), at=(0, 9), parent=outermost)
    inner = [chat(100 + at, 5, at=(at, at + 1), parent=loop) for at in (1, 3)]

    assert [call.usage.prompt_tokens for call in folded([outermost, loop, *inner]).calls] == [101, 103]


def test_a_span_around_several_calls_that_alone_was_counted_is_the_call() -> None:
    outer = span(openinference("Hi.", 300), at=(0, 9))
    inner = [chat(None, None, at=(at, at + 1), parent=outer) for at in (1, 3)]

    assert [call.usage.prompt_tokens for call in folded([outer, *inner]).calls] == [300]


def test_two_instrumentations_in_two_traces_tell_of_one_call() -> None:
    """As LangChain's and the client's, which knows nothing of LangChain's spans."""
    top = agent(at=(0, 9))
    told = chat(100, 5, said("Hi."), at=(1, 4), parent=top)
    again = span(openinference("Hi.", 100), at=(2, 3), trace=OTHER)

    found = folded([top, told], [again])

    (call,) = found.calls
    assert found.doubles == 1
    assert call.span.span_id == told["spanId"]
    assert call.end_ns is not None
    assert call.end_ns - call.start_ns == 1_000_000_000


def test_a_call_is_one_though_the_inner_span_ended_a_little_later() -> None:
    """As under load, where the thread that ends it has to wait."""
    assert len(folded([chat(100, 5, at=(1, 2))], [chat(100, 5, at=(1.05, 2.05))]).calls) == 1


def test_calls_with_the_same_response_are_one() -> None:
    named = {"gen_ai.response.id": "one"}

    assert len(folded([chat(100, 5, named, at=(1, 4))], [chat(None, None, named, at=(2, 3))]).calls) == 1


def test_calls_beside_each_other_are_two_whatever_they_have_in_common() -> None:
    first, second = chat(100, 5, at=(1, 3)), chat(100, 5, at=(2, 4))

    assert len(folded([first, second]).calls) == 2
    assert len(folded([first], [second]).calls) == 2
    assert len(folded([chat(100, 5, said("Hi."), at=(1, 4))], [chat(100, 5, said("Ho."), at=(2, 3))]).calls) == 2
    assert len(folded([chat(100, 5, at=(1, 4))], [chat(101, 5, at=(2, 3))]).calls) == 2


def test_the_same_id_of_a_response_long_after_is_of_another_call() -> None:
    named = {"gen_ai.response.id": "one"}

    assert len(folded([chat(100, 5, named, at=(1, 2)), chat(100, 5, named, at=(5, 6))]).calls) == 2


def test_each_of_two_instrumentations_tells_of_each_of_two_calls_at_the_same_time() -> None:
    outer = [chat(100, 5, said(text), at=(1, 4)) for text in ("Hi.", "Ho.")]
    inner = [span(openinference(text, 100), at=(2, 3), trace=OTHER) for text in ("Hi.", "Ho.")]

    found = folded(outer, inner)

    assert len(found.calls) == 2
    assert {call.span.span_id for call in found.calls} == {one["spanId"] for one in outer}


def test_equal_calls_at_the_same_time_are_each_told_of_twice() -> None:
    outer = [chat(100, 5, said("Hi."), at=(1, 4)) for _ in range(3)]
    inner = [span(openinference("Hi.", 100), at=(2, 3), trace=OTHER) for _ in range(3)]

    found = folded(outer, inner)

    assert {call.span.span_id for call in found.calls} == {one["spanId"] for one in outer}


def test_a_stream_that_was_left_is_one_though_one_heard_more_of_it_and_longer() -> None:
    left = {"gen_ai.request.stream": True, **said("Count.")}
    heard = {**openinference("Count."), "llm.output_messages.0.message.content": "number 0, number"}

    found = folded([chat(None, None, left, at=(1, 3))], [span(heard, at=(2, 3.5), trace=OTHER)])

    assert len(found.calls) == 1


@pytest.mark.parametrize("told", [{"gen_ai.response.id": "one"}, {}])
def test_a_call_that_was_cut_is_one_though_its_spans_have_nothing_in_common(told: dict[str, Any]) -> None:
    """As of Anthropic's client and Traceloop, of which one hears what the other does not."""
    streamed = {"gen_ai.request.stream": True, **told}

    (call,) = folded([chat(30, None, streamed, at=(1, 3))], [chat(None, None, said("Count."), at=(1.1, 3.5))]).calls

    assert (call.usage.prompt_tokens, call.has_content) == (30, True)


def test_calls_that_were_cut_are_two_where_their_prompts_are_or_one_did_not_see_both() -> None:
    assert len(folded([chat(30, None, at=(1, 3))], [chat(31, None, at=(1.1, 3))]).calls) == 2
    assert len(folded([chat(30, None, at=(1, 3)), chat(30, None, at=(1, 3))]).calls) == 2
    assert len(folded([chat(30, None, at=(1, 3))], [chat(30, None, at=(4, 5))]).calls) == 2


def test_a_call_is_one_though_only_one_instrumentation_has_its_usage() -> None:
    (call,) = folded([chat(100, 5, said("Hi."), at=(1, 4))], [span(openinference("Hi."), at=(2, 3), trace=OTHER)]).calls

    assert call.usage.prompt_tokens == 100


def test_what_logfire_tells_behind_a_stream_is_of_the_stream() -> None:
    top = agent(at=(0, 9))
    request = chat(None, None, said("Hi."), at=(1, 1.5), parent=top)
    log = chat(100, 5, {**said("Hi."), "logfire.span_type": "log"}, at=(4, 4), parent=top)

    (call,) = folded([top, request, log]).calls

    assert (call.usage.prompt_tokens, call.is_stream) == (100, True)
    assert call.end_ns is not None
    assert call.first_ns is not None
    assert (call.end_ns - call.start_ns, call.first_ns - call.start_ns) == (3_000_000_000, 500_000_000)


def test_a_stream_that_came_to_no_end_was_left() -> None:
    streamed = {"gen_ai.request.stream": True, **said("Hi.")}
    left, ended, failed = folded(
        [
            chat(None, None, streamed, at=(1, 2)),
            chat(None, None, {**streamed, "gen_ai.response.finish_reasons": ["stop"]}, at=(3, 4)),
            chat(None, None, {**streamed, "error.type": "500"}, at=(5, 6), status={"code": 2}),
        ]
    ).calls

    assert [call.was_left for call in (left, ended, failed)] == [True, False, False]
    assert [call.failed for call in (left, ended, failed)] == [False, False, True]


def test_a_completion_of_several_messages_is_a_chat() -> None:
    """LiteLLM calls chats completions."""
    one = {"llm.request.type": "completion", "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "Hi."}
    several = {**one, "gen_ai.prompt.1.role": "assistant", "gen_ai.prompt.1.content": "Ho."}

    assert [call.is_text for call in folded([span(one, at=(0, 1)), span(several, at=(2, 3))]).calls] == [True, False]


def test_spans_that_are_no_calls_are_none() -> None:
    assert folded([agent(at=(0, 1)), tool(at=(0, 1)), span({}, at=(0, 1), trace=TRACE)]) == Folded([], 0)
