"""The attributes of spans: what a trace says of an event, under the names of the conventions and our own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from rotoscope.sdk.otlp import conventions as names
from rotoscope.traces.model import Call, Embedding, FinishReason, SharedPrefix, ToolCall, Trace, TraceEvent
from rotoscope.traces.writer import record

Value: TypeAlias = bool | int | float | str | tuple[int, ...] | tuple[str, ...]
Attributes: TypeAlias = dict[str, Value]

UNKNOWN_PROVIDER = "unknown"
"""The conventions require one, and a trace does not say who served its calls."""
FAILED: tuple[FinishReason, ...] = ("cancelled", "error", "lost")
"""Ends of calls that are errors, each a type of its own."""


def event_attributes(index: int, event: TraceEvent, *, trace_id: str) -> Attributes:
    """Return the attributes of an event that stands at `index` in the trace of that id."""
    own: Attributes = {names.EVENT_TYPE: names.EVENT_TYPES[type(event)], names.EVENT: index}
    return conventional(event, trace_id) | own | _fields(event)


def shared_prefix_attributes(prefix: SharedPrefix) -> Attributes:
    """Return those of a shared prefix."""
    return {f"{names.SHARED_PREFIX}.{path}": value for path, value in _flat(record(prefix))}


def header_attributes(trace: Trace) -> Attributes:
    """Return those of a whole trace: the fields of its header."""
    header = record(replace(trace, shared_prefixes=(), events=()))
    return {names.TRACE + path: value for path, value in _flat(header)} | {names.EVENTS: len(trace.events)}


def conventional(event: TraceEvent, trace_id: str) -> Attributes:
    """Return what the conventions ask for beside the fields that they have a name for."""
    match event:
        case Call():
            return _of_call(event, trace_id)
        case Embedding():
            return {names.OPERATION_NAME: names.EMBEDDINGS, names.PROVIDER_NAME: UNKNOWN_PROVIDER}
        case ToolCall():
            return {names.OPERATION_NAME: names.EXECUTE_TOOL, names.TOOL_TYPE: "function"}
        case _:
            return {}


def _of_call(call: Call, trace_id: str) -> Attributes:
    found: Attributes = {
        names.OPERATION_NAME: names.CHAT,
        names.PROVIDER_NAME: UNKNOWN_PROVIDER,
        names.REQUEST_MODEL: model_of(call),
        names.CONVERSATION_ID: f"{trace_id}-{call.conversation_id}",
    }
    if call.finish_reason != "unknown":
        found[names.FINISH_REASONS] = ("error" if call.finish_reason in FAILED else call.finish_reason,)
    if call.finish_reason in FAILED:
        found[names.ERROR_TYPE] = call.finish_reason
    if call.ttft_ms is not None:
        found[names.TIME_TO_FIRST_CHUNK] = call.ttft_ms / 1000
    if call.link == "compaction":
        found[names.CONVERSATION_COMPACTED] = True
    return found


def model_of(call: Call) -> str:
    """Return what stands for a model's name, which a trace does not have: its cache domain."""
    return f"domain{call.domain}"


def _fields(event: TraceEvent) -> Attributes:
    """Return all fields of an event that do not hold their default."""
    fields = record(event)
    del fields["event_type"]
    if isinstance(event, Call):
        del fields["role"]
        if not event.reasoning_tokens:  # none, or of a size that nobody knows
            del fields["reasoning_tokens"]
    return {names.attribute_of(type(event), path): value for path, value in _flat(fields)}


def _flat(fields: Mapping[str, Any]) -> Iterator[tuple[str, Value]]:
    """Yield plain values by their paths; nothing and empty lists are left out."""
    for field, value in fields.items():
        if isinstance(value, dict):
            yield from ((f"{field}.{path}", inner) for path, inner in _flat(value))
        elif field == "of" and value is not None:
            yield field, str(value)  # one type in every span, which stores with typed columns ask for
        elif isinstance(value, list):
            if value:
                yield field, tuple(value)
        elif value is not None:
            yield field, value
