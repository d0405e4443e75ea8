"""What spans say of model calls, tools and agents, in all the spellings that instrumentations have.

GenAI conventions old and new, OpenInference, Traceloop (OpenLLMetry), Langfuse and Logfire, read from what these really
write; Vercel's AI SDK, Semantic Kernel, LiteLLM, Claude Code, vLLM and SGLang, read from what is
public of them. What is said here of a call is numbers and closed sets; its content is read in `content.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import orjson

from rotoscope.recorder.usage import Usage, chat_usage, messages_usage, responses_usage
from rotoscope.sdk.otlp.spans import Attributes, Span
from rotoscope.traces.model import MAX_COUNT

Kind: TypeAlias = Literal["call", "embedding", "tool", "agent", "other"]

_TEXT = ("text_completion", "completion", "atext_completion", "text.completions", "text.streaming_completions")
"""Whose prompt may be text without a template."""
_OF_SEMANTIC_KERNEL = ("chat.completions", "chat.streaming_completions")
_OF_LITELLM = ("acompletion", "responses", "aresponses", "anthropic_messages", "agenerate_content")
_OPERATIONS: dict[str, Kind] = {
    "chat": "call",
    "generate_content": "call",
    "embeddings": "embedding",
    "embedding": "embedding",
    "execute_tool": "tool",
    "retrieval": "tool",
    "rerank": "tool",
    "invoke_agent": "agent",
    **dict.fromkeys(_TEXT, "call"),
    **dict.fromkeys(_OF_SEMANTIC_KERNEL, "call"),
    **dict.fromkeys(_OF_LITELLM, "call"),
    "aembedding": "embedding",
    "arerank": "tool",
}
_OPENINFERENCE: dict[str, Kind] = {
    "LLM": "call",
    "EMBEDDING": "embedding",
    "TOOL": "tool",
    "RETRIEVER": "tool",
    "RERANKER": "tool",
    "AGENT": "agent",
}
_LANGFUSE: dict[str, Kind] = {
    "generation": "call",
    "embedding": "embedding",
    "tool": "tool",
    "retriever": "tool",
    "agent": "agent",
}
_TRACELOOP: dict[str, Kind] = {"tool": "tool", "agent": "agent"}
_VERCEL: dict[str, Kind] = {
    "ai.generateText.doGenerate": "call",
    "ai.streamText.doStream": "call",
    "ai.generateObject.doGenerate": "call",
    "ai.streamObject.doStream": "call",
    "ai.embed.doEmbed": "embedding",
    "ai.embedMany.doEmbed": "embedding",
    "ai.toolCall": "tool",
}
"""Of Vercel's AI SDK, whose other spans stand around these."""
_CLAUDE_CODE: dict[str, Kind] = {"llm_request": "call", "tool": "tool"}

_OF_CALLS = ("gen_ai.usage.", "gen_ai.prompt.", "gen_ai.completion.", "gen_ai.input.messages", "llm.token_count.")
"""How attributes begin that only calls have; other requests name a model too."""
_COUNTING = ("count_tokens", "countTokens")
"""How the names of spans end that are of tokens being counted beforehand, which OpenInference takes for calls."""

_MODEL = (
    "gen_ai.request.model",
    "gen_ai.response.model",
    "llm.model_name",
    "embedding.model_name",
    "langfuse.observation.model.name",
    "llm.request.model",
    "ai.model.id",
    "model",
)
_PROMPT = (
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.prompt_tokens",
    "llm.token_count.prompt",
    "llm.usage.prompt_tokens",
    "ai.usage.inputTokens",
    "ai.usage.promptTokens",
    "ai.usage.tokens",
)
_COMPLETION = (
    "gen_ai.usage.output_tokens",
    "gen_ai.usage.completion_tokens",
    "llm.token_count.completion",
    "llm.usage.completion_tokens",
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
)
_CACHED = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "gen_ai.usage.details.cache_read_tokens",
    "gen_ai.usage.details.cached_tokens",
    "gen_ai.usage.cached_tokens",
    "llm.token_count.prompt_details.cache_read",
    "llm.usage.cache_read_input_tokens",
    "ai.usage.cachedInputTokens",
    "ai.usage.inputTokenDetails.cacheReadTokens",
)
_WRITTEN = (
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.details.cache_write_tokens",
    "llm.token_count.prompt_details.cache_write",
    "llm.usage.cache_creation_input_tokens",
    "ai.usage.inputTokenDetails.cacheWriteTokens",
)
_REASONING = (
    "gen_ai.usage.reasoning.output_tokens",
    "gen_ai.usage.reasoning_tokens",
    "gen_ai.usage.details.reasoning_tokens",
    "llm.token_count.completion_details.reasoning",
    "llm.usage.reasoning_tokens",
    "ai.usage.reasoningTokens",
    "ai.usage.outputTokenDetails.reasoningTokens",
)
_TOTAL = ("gen_ai.usage.total_tokens", "llm.token_count.total", "llm.usage.total_tokens", "ai.usage.totalTokens")
_RAW_USAGE = ("gen_ai.usage.raw", "langfuse.observation.usage_details", "gen_ai.usage.details")
"""The usage as JSON, in the words of the server or of Langfuse."""
_FIRST_CHUNK_S = (
    "gen_ai.response.time_to_first_chunk",
    "gen_ai.client.operation.time_to_first_chunk",
    "gen_ai.latency.time_to_first_token",
)
"""The last is of vLLM and SGLang, which tell spans of what they serve."""
_FIRST_CHUNK_MS = ("ai.response.msToFirstChunk", "ttft_ms")
_FIRST_EVENTS = ("First Token Stream Event", "gen_ai.content.completion.chunk", "llm.content.completion.chunk")
_FINISH = (
    "gen_ai.response.finish_reasons",
    "llm.finish_reason",
    "gen_ai.completion.0.finish_reason",
    "ai.response.finishReason",
    "stop_reason",
)
_CONVERSATION = (
    "gen_ai.conversation.id",
    "session.id",
    "langfuse.session.id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.thread_id",
)
_TOOL_NAME = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name", "ai.toolCall.name", "tool_name")
_TOOL_CALL_ID = ("gen_ai.tool.call.id", "ai.toolCall.id", "tool_use_id")
_FINISH_REASONS = {
    "stop": ("stop", "end_turn", "stop_sequence", "eos", "eos_token", "complete", "completed"),
    "length": ("length", "max_tokens", "max_output_tokens", "incomplete"),
    "tool_calls": ("tool_calls", "tool_call", "tool_use", "function_call", "tool-calls"),
    "content_filter": ("content_filter", "safety", "refusal", "content-filter"),
    "error": ("error",),
}
_LEFT = ("GeneratorExit", "CancelledError", "asyncio.exceptions.CancelledError", "APIUserAbortError", "AbortError")
"""Kinds of errors that stand for a client that left."""


def kind_of(span: Span) -> Kind:
    """Return what a span is of."""
    if span.name.endswith(_COUNTING):
        return "other"
    told: list[tuple[str, Mapping[str, Kind]]] = [
        (span.text("gen_ai.operation.name"), _OPERATIONS),
        (span.text("openinference.span.kind").upper(), _OPENINFERENCE),
        (span.text("langfuse.observation.type").lower(), _LANGFUSE),
        (span.text("traceloop.span.kind").lower(), _TRACELOOP),
        (span.text("llm.request.type"), _OPERATIONS),
        (span.text("ai.operationId"), _VERCEL),
        (_claude_code(span), _CLAUDE_CODE),
    ]
    for name, kinds in told:
        if name in kinds:
            return kinds[name]
    is_told = any(name for name, _ in told)
    return "call" if not is_told and any(name.startswith(_OF_CALLS) for name in span.attributes) else "other"


def _claude_code(span: Span) -> str:
    """Return the type of a span of Claude Code, whose attributes have names that others may use for something else."""
    return span.text("span.type") if span.name.startswith("claude_code.") else ""


def is_text(span: Span) -> bool:
    """Tell whether the prompt of a call may be text without a template; LiteLLM calls chats completions too."""
    return span.text("gen_ai.operation.name", "llm.request.type") in _TEXT


def model_of(span: Span) -> str:
    return span.text(*_MODEL)


def conversation_of(span: Span) -> str:
    """Return the conversation or session that a span names; empty where it names none."""
    return span.text(*_CONVERSATION)


def agent_of(span: Span) -> str:
    """Return which agent of a session a call names as its own; empty where it names none."""
    return span.text("agent_id") if _claude_code(span) else ""


def tool_name_of(span: Span) -> str:
    return span.text(*_TOOL_NAME) or span.name


def tool_call_id_of(span: Span) -> str:
    """Return by which id the tool was asked for; empty where that is not told."""
    return span.text(*_TOOL_CALL_ID)


def choices_of(span: Span) -> int:
    """Return how many outputs a call asked for."""
    told = _count(span.attributes, ("gen_ai.request.choice.count", "gen_ai.request.n"))
    if told is None:
        told = integer(parameters_of(span).get("n"))
    return min(max(told or 1, 1), 128)


def parameters_of(span: Span) -> dict[str, Any]:
    """Return the parameters of a request, where they are told as JSON."""
    parameters = json_of(span.attributes.get("llm.invocation_parameters"))
    return parameters if isinstance(parameters, dict) else {}


def response_id_of(span: Span) -> str:
    """Return what the server called its answer; OpenInference has it in the answer alone."""
    if told := span.text("gen_ai.response.id"):
        return told
    answer = json_of(span.attributes.get("output.value"))
    answer_id = answer.get("id") if isinstance(answer, dict) else None
    return answer_id if isinstance(answer_id, str) else ""


def previous_response_of(span: Span) -> str:
    """Return the response that a request names as its history."""
    told = span.text("gen_ai.request.previous_response.id", "openai.request.previous_response_id")
    named = parameters_of(span).get("previous_response_id")
    return told or (named if isinstance(named, str) else "")


def is_response(span: Span) -> bool:
    """Tell whether a call went to the Responses API, which writes prompts otherwise than chat completions do."""
    named = span.name == "Response" or span.name.endswith((".response", ".responses"))
    return named or span.text("openai.api.type") == "responses" or response_id_of(span).startswith("resp_")


def keeps_reasoning(span: Span) -> bool:
    """Tell whether clients of an interface send the reasoning of answers back, as those of chat completions do not."""
    return is_response(span) or span.text("gen_ai.provider.name", "gen_ai.system", "llm.provider") == "anthropic"


def first_ns_of(span: Span) -> int | None:
    """Return when the first piece of an answer came, where that is told."""
    units = {**dict.fromkeys(_FIRST_CHUNK_S, 1e9), **dict.fromkeys(_FIRST_CHUNK_MS, 1e6)}
    for name, unit_ns in units.items():
        told = span.attributes.get(name)
        if isinstance(told, int | float) and not isinstance(told, bool) and 0 <= told * unit_ns < 1e15:
            return _within(span, span.start_ns + round(told * unit_ns))
    events = [event.at_ns for event in span.events if event.name in _FIRST_EVENTS]
    return _within(span, min(events)) if events else _completion_start_ns(span)


def _within(span: Span, at_ns: int) -> int:
    return min(max(at_ns, span.start_ns), span.end_ns or at_ns)


def _completion_start_ns(span: Span) -> int | None:
    """Return Langfuse's time of the first piece, an ISO date within JSON."""
    from datetime import datetime

    text = json_of(span.attributes.get("langfuse.observation.completion_start_time"))
    try:
        at = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    if at is None or at.tzinfo is None:
        return None
    since = at - datetime.fromtimestamp(0, at.tzinfo)
    return _within(span, (since.days * 86400 + since.seconds) * 10**9 + since.microseconds * 1000)


def is_stream(span: Span) -> bool:
    """Tell whether an answer came in pieces."""
    told = (span.attributes.get(name) for name in ("gen_ai.request.stream", "gen_ai.is_streaming", "llm.is_streaming"))
    is_told = any(value in (True, "True", "true") for value in told) or span.text("ai.operationId").endswith(
        ".doStream"
    )
    return is_told or bool(parameters_of(span).get("stream"))


def was_left(span: Span) -> bool:
    """Tell whether the client left before the answer had ended."""
    told = [span.text("error.type"), *(event.attributes.get("exception.type") for event in span.events)]
    return any(isinstance(x, str) and x.rpartition(".")[2] in _LEFT for x in told)


def status_of(span: Span) -> int:
    """Return the HTTP status of a call that failed: 500 where none is told."""
    told = integer(span.attributes.get("http.response.status_code")) or integer(span.text("error.type"))
    return told if told is not None and 400 <= told < 600 else 500


def finish_reasons_of(span: Span, answers: Iterable[str] = ()) -> list[str]:
    """Return why outputs ended, in the words of chat; `answers` are reasons told with the outputs themselves."""
    told: list[Any] = []
    for name in _FINISH:
        value = span.attributes.get(name)
        value = json_of(value) if isinstance(value, str) and value[:1] == "[" else value
        told += value if isinstance(value, list) else [value]
    told += [json_of(span.attributes.get("langfuse.observation.metadata.finish_reason"))]
    return [reason for x in (*told, *answers) if (reason := _finish_reason(x))]


def _finish_reason(told: Any) -> str:
    word = told.lower().rpartition(".")[2] if isinstance(told, str) else ""
    return next((reason for reason, words in _FINISH_REASONS.items() if word in words), "")


def usage_of(span: Span) -> Usage:
    """Return what was counted of a call: the prompt with what was cached of it, the output with reasoning."""
    attributes = span.attributes
    if _claude_code(span):
        return _usage_of_claude_code(attributes)
    prompt, cached, written = (_count(attributes, names) for names in (_PROMPT, _CACHED, _WRITTEN))
    completion, reasoning = (_count(attributes, names) for names in (_COMPLETION, _REASONING))
    beside = (cached or 0) + (written or 0)
    left = (_count(attributes, _TOTAL) or 0) - (prompt or 0) - (completion or 0)
    if prompt is not None and (beside > prompt or (beside and left in (beside, beside + (reasoning or 0)))):
        prompt += beside  # as Anthropic counts: what was cached stands beside the rest
    if completion is not None and reasoning and left in (reasoning, beside + reasoning):
        completion += reasoning  # as Gemini counts
    usage = Usage(prompt or None, completion, cached, reasoning)
    for name in _RAW_USAGE:
        if isinstance(raw := json_of(attributes.get(name)), dict):
            usage = usage.or_else(_raw_usage(raw))
    if usage.completion_tokens is not None and (usage.reasoning_tokens or 0) > usage.completion_tokens:
        return replace(usage, completion_tokens=usage.completion_tokens + (usage.reasoning_tokens or 0))
    return usage


def _usage_of_claude_code(attributes: Attributes) -> Usage:
    """Read counts under names of their own, which mean what they do in an answer of Anthropic."""
    names = {
        "input": "input",
        "output": "output",
        "cache_read": "cache_read_input",
        "cache_creation": "cache_creation_input",
    }
    told = {f"{theirs}_tokens": integer(attributes.get(f"{own}_tokens")) for own, theirs in names.items()}
    return messages_usage(told)


def _raw_usage(raw: dict[str, Any]) -> Usage:
    if "prompt_tokens" in raw:
        return chat_usage(raw)
    if "cache_read_input_tokens" in raw or "cache_creation_input_tokens" in raw:
        return messages_usage(raw if "input_tokens" in raw else {**raw, **_words_of_langfuse(raw)})
    if "input_tokens" in raw:
        return responses_usage(raw)
    return _langfuse_usage(raw)


def _words_of_langfuse(raw: dict[str, Any]) -> dict[str, Any]:
    return {f"{name}_tokens": raw[name] for name in ("input", "output") if name in raw}


def _langfuse_usage(raw: dict[str, Any]) -> Usage:
    """Read Langfuse's own words: `input` and all that begins with it stand beside one another, and so for `output`."""
    counts = {name: count for name, value in raw.items() if (count := integer(value)) is not None}
    prompt = sum(count for name, count in counts.items() if name.startswith("input"))
    completion = [count for name, count in counts.items() if name.startswith("output")]
    cached = [
        count for name, count in counts.items() if name.startswith("input") and "cache" in name and "creat" not in name
    ]
    reasoning = [count for name, count in counts.items() if name.startswith("output") and "reasoning" in name]
    return Usage(
        prompt or None,
        sum(completion) if completion else None,
        sum(cached) if cached else None,
        sum(reasoning) if reasoning else None,
    )


def _count(attributes: Attributes, names: Iterable[str]) -> int | None:
    found = (integer(attributes.get(name)) for name in names)
    return next((count for count in found if count is not None), None)


def integer(value: Any) -> int | None:
    """Return a count, which some exporters write as text or as a number with a point."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 12:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= MAX_COUNT else None


def json_of(value: Any) -> Any:
    """Return the JSON value of a text; what is none, such as text that was cut, is None."""
    if not isinstance(value, str):
        return value if isinstance(value, list | dict) else None
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
