"""What spans say of calls, in every spelling: kinds, usage, times, finish reasons, conversations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from otlp_spans import START_NS, file_of
from otlp_spans import span as told_span

from rotoscope.recorder.usage import Usage
from rotoscope.sdk.otlp import spellings
from rotoscope.sdk.otlp.reading import read_spans
from rotoscope.sdk.otlp.spans import Span
from rotoscope.traces.formats.source import Source


def span_of(told: Mapping[str, Any], **where: Any) -> Span:
    (span,) = read_spans(Source.of_bytes(file_of(told_span(told, at=(1, 3), **where))))
    return span


KINDS: list[tuple[dict[str, str], str]] = [
    ({"gen_ai.operation.name": "chat"}, "call"),
    ({"gen_ai.operation.name": "generate_content"}, "call"),
    ({"gen_ai.operation.name": "text_completion"}, "call"),
    ({"gen_ai.operation.name": "embeddings"}, "embedding"),
    ({"gen_ai.operation.name": "execute_tool"}, "tool"),
    ({"gen_ai.operation.name": "retrieval"}, "tool"),
    ({"gen_ai.operation.name": "invoke_agent"}, "agent"),
    ({"gen_ai.operation.name": "invoke_workflow"}, "other"),
    ({"gen_ai.operation.name": "create_agent", "gen_ai.request.model": "a"}, "other"),
    ({"openinference.span.kind": "LLM"}, "call"),
    ({"openinference.span.kind": "llm"}, "call"),
    ({"openinference.span.kind": "TOOL"}, "tool"),
    ({"openinference.span.kind": "RETRIEVER"}, "tool"),
    ({"openinference.span.kind": "AGENT"}, "agent"),
    ({"openinference.span.kind": "CHAIN", "llm.model_name": "a"}, "other"),
    ({"langfuse.observation.type": "generation"}, "call"),
    ({"langfuse.observation.type": "embedding"}, "embedding"),
    ({"langfuse.observation.type": "tool"}, "tool"),
    ({"langfuse.observation.type": "agent"}, "agent"),
    ({"langfuse.observation.type": "span"}, "other"),
    ({"traceloop.span.kind": "tool"}, "tool"),
    ({"traceloop.span.kind": "workflow"}, "other"),
    ({"llm.request.type": "chat"}, "call"),
    ({"llm.request.type": "rerank"}, "tool"),
    ({"llm.request.type": "acompletion"}, "call"),
    ({"llm.request.type": "aembedding"}, "embedding"),
    ({"gen_ai.operation.name": "chat.streaming_completions"}, "call"),
    ({"gen_ai.system": "openai", "gen_ai.request.model": "a", "gen_ai.usage.input_tokens": "1"}, "call"),
    ({"gen_ai.request.model": "a", "gen_ai.prompt.0.content": "Hi."}, "call"),
    ({"gen_ai.request.model": "a", "anthropic.message.count_tokens.input_tokens": "1"}, "other"),
    ({"ai.operationId": "ai.streamText.doStream", "gen_ai.usage.input_tokens": "1"}, "call"),
    ({"ai.operationId": "ai.streamText", "gen_ai.usage.input_tokens": "1"}, "other"),
    ({"ai.operationId": "ai.embedMany.doEmbed"}, "embedding"),
    ({"ai.operationId": "ai.toolCall"}, "tool"),
    ({"http.request.method": "GET"}, "other"),
]


@pytest.mark.parametrize(("told", "kind"), KINDS, ids=str)
def test_kinds_of_spans_are_told_in_every_spelling(told: dict[str, str], kind: str) -> None:
    assert spellings.kind_of(span_of(told)) == kind


CLAUDE_CODE = {
    "session.id": "a session",
    "span.type": "llm_request",
    "model": "a-model",
    "input_tokens": 5000,
    "output_tokens": 1200,
    "cache_read_tokens": 2000,
    "cache_creation_tokens": 96,
    "stop_reason": "tool_use",
    "ttft_ms": 500,
}


def test_a_request_of_claude_code_counts_as_anthropic_does() -> None:
    found = span_of(CLAUDE_CODE, name="claude_code.llm_request")

    assert spellings.kind_of(found) == "call"
    assert spellings.model_of(found) == "a-model"
    assert spellings.usage_of(found) == Usage(7096, 1200, 2000, None)
    assert spellings.finish_reasons_of(found) == ["tool_calls"]
    assert spellings.first_ns_of(found) == START_NS + 1_500_000_000
    assert spellings.kind_of(span_of(CLAUDE_CODE, name="something else")) == "other"


def test_a_tool_of_claude_code_has_its_name_and_the_id_by_which_it_was_asked_for() -> None:
    told = {"span.type": "tool", "tool_name": "Bash", "tool_use_id": "toolu_1"}
    found = span_of(told, name="claude_code.tool")

    assert spellings.kind_of(found) == "tool"
    assert (spellings.tool_name_of(found), spellings.tool_call_id_of(found)) == ("Bash", "toolu_1")


def test_counting_tokens_is_no_call() -> None:
    assert spellings.kind_of(span_of({"openinference.span.kind": "LLM"}, name="messages.count_tokens")) == "other"


_COUNTED = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20}
USAGES: dict[str, tuple[dict[str, Any], Usage]] = {
    "GenAI": (
        {
            "gen_ai.usage.input_tokens": 100,
            "gen_ai.usage.output_tokens": 20,
            "gen_ai.usage.cache_read.input_tokens": 60,
            "gen_ai.usage.cache_write.input_tokens": 10,
            "gen_ai.usage.reasoning.output_tokens": 5,
        },
        Usage(100, 20, 60, 5),
    ),
    "GenAI, as it was": (
        {
            "gen_ai.usage.prompt_tokens": 100,
            "gen_ai.usage.completion_tokens": 20,
            "gen_ai.usage.cache_creation.input_tokens": 10,
            "gen_ai.usage.reasoning_tokens": 5,
        },
        Usage(100, 20, None, 5),
    ),
    "GenAI, as Anthropic counts": (
        {
            "gen_ai.usage.input_tokens": 10,
            "gen_ai.usage.output_tokens": 20,
            "gen_ai.usage.cache_read.input_tokens": 60,
            "gen_ai.usage.cache_creation.input_tokens": 30,
        },
        Usage(100, 20, 60, None),
    ),
    "numbers as text and with a point": (
        {"gen_ai.usage.input_tokens": "100", "gen_ai.usage.output_tokens": 20.0},
        Usage(100, 20, None, None),
    ),
    "reasoning beside the output": (
        {"gen_ai.usage.input_tokens": 1, "gen_ai.usage.output_tokens": 2, "gen_ai.usage.reasoning_tokens": 5},
        Usage(1, 7, None, 5),
    ),
    "OpenInference": (
        {
            "llm.token_count.prompt": 100,
            "llm.token_count.completion": 20,
            "llm.token_count.prompt_details.cache_read": 60,
            "llm.token_count.completion_details.reasoning": 5,
        },
        Usage(100, 20, 60, 5),
    ),
    "Traceloop, as it was": (
        {"gen_ai.usage.prompt_tokens": 100, "llm.usage.completion_tokens": 20, "llm.usage.cache_read_input_tokens": 60},
        Usage(100, 20, 60, None),
    ),
    "pydantic-ai": (
        {
            "gen_ai.usage.input_tokens": 100,
            "gen_ai.usage.output_tokens": 20,
            "gen_ai.usage.details.reasoning_tokens": 5,
            "gen_ai.usage.details.cache_read_tokens": 60,
        },
        Usage(100, 20, 60, 5),
    ),
    "Logfire": (
        {
            "gen_ai.usage.input_tokens": 100,
            "gen_ai.usage.output_tokens": 20,
            "gen_ai.usage.raw": json.dumps(
                {
                    "prompt_tokens": 100,
                    "completion_tokens": 20,
                    "completion_tokens_details": {"reasoning_tokens": 5},
                    "prompt_tokens_details": {"cached_tokens": 60},
                }
            ),
        },
        Usage(100, 20, 60, 5),
    ),
    "Langfuse, of a chat": (
        {
            "langfuse.observation.usage_details": json.dumps(
                {"prompt_tokens": 100, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 60}}
            )
        },
        Usage(100, 20, 60, None),
    ),
    "Langfuse, of a response": (
        {
            "langfuse.observation.usage_details": json.dumps(
                {
                    "input_tokens": 100,
                    "input_tokens_details": {"cached_tokens": 60},
                    "output_tokens": 20,
                    "output_tokens_details": {"reasoning_tokens": 5},
                }
            )
        },
        Usage(100, 20, 60, 5),
    ),
    "Langfuse, of Anthropic": (
        {
            "langfuse.observation.usage_details": json.dumps(
                {"input": 10, "output": 20, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30}
            )
        },
        Usage(100, 20, 60, None),
    ),
    "Langfuse, in its own words": (
        {
            "langfuse.observation.usage_details": json.dumps(
                {"input": 40, "input_cached_tokens": 60, "output": 15, "output_reasoning_tokens": 5, "total": 120}
            )
        },
        Usage(100, 20, 60, 5),
    ),
    "Vercel": (
        {
            "ai.usage.inputTokens": 100,
            "ai.usage.outputTokens": 20,
            "ai.usage.inputTokenDetails.cacheReadTokens": 60,
            "ai.usage.outputTokenDetails.reasoningTokens": 5,
        },
        Usage(100, 20, 60, 5),
    ),
    "SGLang": (
        {
            "gen_ai.usage.prompt_tokens": 100,
            "gen_ai.usage.completion_tokens": 20,
            "gen_ai.usage.cached_tokens": 60,
        },
        Usage(100, 20, 60, None),
    ),
    "Vercel, as it was": (
        {"ai.usage.promptTokens": 100, "ai.usage.completionTokens": 20, "gen_ai.usage.input_tokens": 100},
        Usage(100, 20, None, None),
    ),
    "cached beside the rest, by the total": (
        {**_COUNTED, "gen_ai.usage.cache_read.input_tokens": 40, "gen_ai.usage.total_tokens": 160},
        Usage(140, 20, 40, None),
    ),
    "cached as a part, by the total": (
        {**_COUNTED, "gen_ai.usage.cache_read.input_tokens": 40, "gen_ai.usage.total_tokens": 120},
        Usage(100, 20, 40, None),
    ),
    "reasoning beside the rest, by the total": (
        {**_COUNTED, "gen_ai.usage.reasoning.output_tokens": 5, "gen_ai.usage.total_tokens": 125},
        Usage(100, 25, None, 5),
    ),
    "both beside the rest, by the total": (
        {
            **_COUNTED,
            "gen_ai.usage.cache_read.input_tokens": 40,
            "gen_ai.usage.reasoning.output_tokens": 5,
            "gen_ai.usage.total_tokens": 165,
        },
        Usage(140, 25, 40, 5),
    ),
    "nothing": ({"gen_ai.usage.input_tokens": "many", "gen_ai.usage.output_tokens": -1}, Usage()),
}


@pytest.mark.parametrize(("told", "usage"), USAGES.values(), ids=USAGES)
def test_usage_means_the_same_in_every_spelling(told: dict[str, Any], usage: Usage) -> None:
    assert spellings.usage_of(span_of(told)) == usage


FIRSTS: dict[str, dict[str, Any]] = {
    "GenAI": {"told": {"gen_ai.response.time_to_first_chunk": 0.5}},
    "pydantic-ai": {"told": {"gen_ai.client.operation.time_to_first_chunk": 0.5}},
    "Vercel": {"told": {"ai.response.msToFirstChunk": 500}},
    "vLLM and SGLang": {"told": {"gen_ai.latency.time_to_first_token": 0.5}},
    "OpenInference": {"told": {}, "events": [("First Token Stream Event", 1.5, {})]},
    "Traceloop": {
        "told": {},
        "events": [("gen_ai.content.completion.chunk", at_s, {}) for at_s in (1.5, 1.6)],
    },
    "Langfuse": {"told": {"langfuse.observation.completion_start_time": '"2026-09-21T14:13:21.500000Z"'}},
}


@pytest.mark.parametrize("told", FIRSTS.values(), ids=FIRSTS)
def test_the_time_of_the_first_piece_is_told_in_every_spelling(told: dict[str, Any]) -> None:
    assert spellings.first_ns_of(span_of(**told)) == START_NS + 1_500_000_000


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"gen_ai.response.time_to_first_chunk": "soon"},
        {"langfuse.observation.completion_start_time": '"yesterday"'},
        {"langfuse.observation.completion_start_time": '"2026-09-21T14:13:21"'},
    ],
    ids=str,
)
def test_no_time_of_the_first_piece_is_none(told: dict[str, Any]) -> None:
    assert spellings.first_ns_of(span_of(told)) is None


def test_a_first_piece_outside_of_its_span_is_put_into_it() -> None:
    assert spellings.first_ns_of(span_of({"gen_ai.response.time_to_first_chunk": 9.0})) == START_NS + 3_000_000_000


FINISHES: list[tuple[dict[str, Any], list[str]]] = [
    ({"gen_ai.response.finish_reasons": ["stop"]}, ["stop"]),
    ({"gen_ai.response.finish_reasons": ["stop", "tool_call"]}, ["stop", "tool_calls"]),
    ({"gen_ai.response.finish_reasons": '["end_turn"]'}, ["stop"]),
    ({"gen_ai.response.finish_reasons": ["FinishReason.MAX_TOKENS"]}, ["length"]),
    ({"llm.finish_reason": "tool_use"}, ["tool_calls"]),
    ({"gen_ai.completion.0.finish_reason": "content_filter"}, ["content_filter"]),
    ({"langfuse.observation.metadata.finish_reason": '"length"'}, ["length"]),
    ({"gen_ai.response.finish_reasons": ["a canary"]}, []),
    ({}, []),
]


@pytest.mark.parametrize(("told", "reasons"), FINISHES, ids=str)
def test_finish_reasons_are_those_of_chat(told: dict[str, Any], reasons: list[str]) -> None:
    assert spellings.finish_reasons_of(span_of(told)) == reasons


@pytest.mark.parametrize(
    "name",
    [
        "gen_ai.conversation.id",
        "session.id",
        "langfuse.session.id",
        "traceloop.association.properties.session_id",
        "traceloop.association.properties.thread_id",
    ],
)
def test_conversations_are_named_in_every_spelling(name: str) -> None:
    assert spellings.conversation_of(span_of({name: "one"})) == "one"


def test_a_previous_response_is_named_by_an_attribute_or_among_the_parameters() -> None:
    parameters = {"llm.invocation_parameters": json.dumps({"previous_response_id": "one"})}

    assert spellings.previous_response_of(span_of(parameters)) == "one"
    assert spellings.previous_response_of(span_of({"gen_ai.request.previous_response.id": "one"})) == "one"
    assert (
        spellings.previous_response_of(span_of({"llm.invocation_parameters": '{"previous_response_id": null}'})) == ""
    )


@pytest.mark.parametrize(
    ("told", "where"),
    [
        ({"openai.api.type": "responses"}, {}),
        ({"gen_ai.response.id": "resp_1"}, {}),
        ({"output.value": '{"id": "resp_1"}'}, {}),
        ({}, {"name": "openai.response"}),
        ({}, {"name": "Response"}),
    ],
    ids=str,
)
def test_calls_of_the_responses_api_are_told_apart(told: dict[str, str], where: dict[str, str]) -> None:
    assert spellings.is_response(span_of(told, **where))
    assert not spellings.is_response(span_of({"gen_ai.response.id": "chatcmpl-1"}, name="chat a-model"))


@pytest.mark.parametrize(
    ("told", "events"),
    [
        ({"error.type": "GeneratorExit"}, []),
        ({"error.type": "asyncio.exceptions.CancelledError"}, []),
        ({}, [("exception", 2, {"exception.type": "GeneratorExit"})]),
    ],
)
def test_a_client_that_left_is_told_by_the_kind_of_error(told: dict[str, str], events: list[Any]) -> None:
    assert spellings.was_left(span_of(told, events=events))
    assert not spellings.was_left(span_of({"error.type": "openai.RateLimitError"}))


@pytest.mark.parametrize(
    ("told", "status"),
    [({}, 500), ({"error.type": "429"}, 429), ({"http.response.status_code": 404}, 404), ({"error.type": "Boom"}, 500)],
)
def test_the_status_of_a_failed_call_is_told_or_500(told: dict[str, Any], status: int) -> None:
    assert spellings.status_of(span_of(told)) == status


@pytest.mark.parametrize("name", ["gen_ai.request.stream", "gen_ai.is_streaming", "llm.is_streaming"])
@pytest.mark.parametrize(("value", "is_stream"), [(True, True), ("True", True), (False, False), ("False", False)])
def test_streams_are_told_by_truth_or_its_name(name: str, value: object, is_stream: bool) -> None:
    assert spellings.is_stream(span_of({name: value})) == is_stream


def test_text_that_was_cut_is_no_json() -> None:
    assert spellings.json_of('[{"role": "us') is None
    assert spellings.json_of(7) is None
    assert spellings.json_of(["a"]) == ["a"]
