"""Spans as files of OTLP: builders of JSON, and the same as protobuf."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from rotoscope.sdk.otlp.format import FORMAT
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.source import Source
from rotoscope.traces.model import Call, Trace

TRACE = "0af7651916cd43dd8448eb211c80319c"
START_NS = 1_790_000_000_000_000_000
_ids = itertools.count(1)

Span = dict[str, Any]


def value(plain: Any) -> dict[str, Any]:
    """Return a value of an attribute as OTLP writes it in JSON."""
    match plain:
        case bool():
            return {"boolValue": plain}
        case int():
            return {"intValue": str(plain)}
        case float():
            return {"doubleValue": plain}
        case str():
            return {"stringValue": plain}
        case list() | tuple():
            return {"arrayValue": {"values": [value(item) for item in plain]}}
        case _:
            return {"kvlistValue": {"values": attributes(plain)}}


def attributes(plain: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": value(item)} for key, item in plain.items()]


def span(
    told: Mapping[str, Any],
    *,
    at: tuple[float, float | None],
    parent: Span | None = None,
    trace: str = TRACE,
    name: str = "span",
    events: Sequence[tuple[str, float, Mapping[str, Any]]] = (),
    **other: Any,
) -> Span:
    """Return a span with attributes; `at` is when it began and ended, in seconds."""
    start_s, end_s = at
    made: Span = {
        "traceId": parent["traceId"] if parent else trace,
        "spanId": f"{next(_ids):016x}",
        "name": name,
        "kind": 3,
        "startTimeUnixNano": nanoseconds(start_s),
        "attributes": attributes(told),
        "events": [
            {"name": event, "timeUnixNano": nanoseconds(at_s), "attributes": attributes(inner)}
            for event, at_s, inner in events
        ],
    }
    if parent:
        made["parentSpanId"] = parent["spanId"]
    if end_s is not None:
        made["endTimeUnixNano"] = nanoseconds(end_s)
    return made | other


def nanoseconds(at_s: float) -> str:
    return str(START_NS + round(at_s * 1e9))


def chat(prompt: int | None, completion: int | None, told: Mapping[str, Any] | None = None, **where: Any) -> Span:
    """Return the span of a call with its usage."""
    usage = {"gen_ai.usage.input_tokens": prompt, "gen_ai.usage.output_tokens": completion}
    counted = {name: count for name, count in usage.items() if count is not None}
    named = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "a-model", "gen_ai.provider.name": "openai"}
    return span({**named, **counted, **(told or {})}, name="chat a-model", **where)


def agent(**where: Any) -> Span:
    return span(
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "an agent"}, name="invoke_agent", **where
    )


def tool(tool_name: str = "a tool", told: Mapping[str, Any] | None = None, **where: Any) -> Span:
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool_name}
    return span({**named, **(told or {})}, name=f"execute_tool {tool_name}", **where)


def message(spans: Sequence[Span], *, scope: str = "a scope", service: str = "a service") -> dict[str, Any]:
    """Return a message of spans of one process and one instrumentation."""
    of_scope = {"scope": {"name": scope}, "spans": list(spans)}
    return {
        "resourceSpans": [{"resource": {"attributes": attributes({"service.name": service})}, "scopeSpans": [of_scope]}]
    }


def file_of(*spans: Span) -> bytes:
    """Return a file of spans as JSON."""
    return orjson.dumps(message(spans))


def members_of(data: bytes, fidelity: Fidelity | None = None) -> list[Member]:
    return FORMAT.read(Source.of_bytes(data, "spans.json"), Fidelity() if fidelity is None else fidelity)


def trace_of(*spans: Span, fidelity: Fidelity | None = None) -> Trace:
    """Return the one trace of a file of these spans."""
    (member,) = members_of(file_of(*spans), fidelity)
    return member.trace


def calls_of(*spans: Span) -> list[Call]:
    return list(trace_of(*spans).calls())


def samples() -> list[bytes]:
    """Return small files of all that a reader knows: agents and tools without content, content in several spellings."""
    top = agent(at=(0, 20))
    inner = [agent(at=(4, 9), parent=top) for _ in range(2)]
    without = [
        *(top, *inner),
        chat(100, 10, {"gen_ai.response.finish_reasons": ["tool_calls"]}, at=(0, 1), parent=top),
        tool(at=(1.5, 2), parent=top),
        chat(None, None, {"error.type": "429"}, at=(2, 2.5), parent=top, status={"code": 2}),
        chat(150, 10, {"gen_ai.usage.cache_read.input_tokens": 96}, at=(3, 4), parent=top),
        *(chat(50, 5, {"gen_ai.conversation.id": "one"}, at=(4, 8), parent=one) for one in inner),
        span({"gen_ai.operation.name": "embeddings", "gen_ai.usage.input_tokens": 7}, at=(9, 10), parent=top),
        chat(200, 10, at=(11, None), parent=top),
    ]
    asked = [{"role": "user", "parts": [{"type": "text", "content": "How is it?"}]}]
    answered = [{"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "look", "arguments": {}}]}]
    result = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "rain"}]}
    told = {"gen_ai.input.messages": dumped(asked), "gen_ai.output.messages": dumped(answered)}
    later = {"gen_ai.input.messages": dumped([result]), "gen_ai.response.id": "resp_2"}
    flat = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "How is it?",
        "llm.output_messages.0.message.content": "It rains.",
    }
    old = {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "How?", "gen_ai.completion.0.content": "So."}
    langfuse = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.input": dumped({"messages": [{"role": "user", "content": "How?"}], "tools": []}),
        "langfuse.observation.output": "So.",
        "langfuse.observation.usage_details": dumped({"prompt_tokens": 30, "completion_tokens": 3}),
    }
    events = [("gen_ai.user.message", 0, {"content": "How?"}), ("gen_ai.choice", 1, {"message": '{"content": "So."}'})]
    with_content = [
        chat(40, 4, {**told, "gen_ai.response.id": "resp_1"}, at=(0, 1)),
        chat(60, 4, {**later, "gen_ai.request.previous_response.id": "resp_1"}, at=(2, 3)),
        chat(30, 3, {**flat, "gen_ai.response.time_to_first_chunk": 0.5}, at=(4, 5)),
        chat(30, 3, old, at=(6, 7)),
        span(langfuse, at=(8, 9)),
        chat(30, 3, events=events, at=(10, 11)),
    ]
    lines = b"".join(file_of(one) + b"\n" for one in without)
    return [file_of(*without), lines, file_of(*with_content)]


def dumped(plain: Any) -> str:
    return orjson.dumps(plain).decode()
