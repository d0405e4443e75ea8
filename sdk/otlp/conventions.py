"""Names of spans and attributes: those of OpenTelemetry's GenAI conventions, of one version, and our own.

What the conventions have a name for is called that. Everything else that a trace says of an event is the attribute
`rotoscope.` with the name of the field of the trace model, fields within fields joined by dots, and left out where it
holds its default: `rotoscope.prefix.tokens`. So a reader needs no table beside `CARRIED_BY`, and loses nothing.

An event that takes time is a span; one that takes none is an event of a span, called `rotoscope.` with its type.
"""

from __future__ import annotations

from typing import Final

from rotoscope.sdk import conventions as names
from rotoscope.sdk.conventions import *
from rotoscope.traces.model import (
    Call,
    DropKvCache,
    Embedding,
    Message,
    ParallelEnd,
    ParallelStart,
    ToolCall,
    TraceEvent,
    Wait,
)

EVENT_TYPES: Final[dict[type[TraceEvent], str]] = {
    Message: "message",
    Call: "call",
    Embedding: "embedding",
    ToolCall: "tool_call",
    Wait: "wait",
    ParallelStart: "parallel",
    ParallelEnd: "parallel_end",
    DropKvCache: "drop_kv_cache",
}
"""What an event is called in attributes and, behind `names.OWN`, as the event of a span."""

CARRIED_BY: Final[dict[type[TraceEvent], dict[str, str]]] = {
    Call: {
        "prompt_tokens": names.INPUT_TOKENS,
        "completion_tokens": names.OUTPUT_TOKENS,
        "reasoning_tokens": names.REASONING_TOKENS,
        "cached_tokens": names.CACHE_READ_TOKENS,
    },
    Embedding: {"prompt_tokens": names.INPUT_TOKENS},
    ToolCall: {"tool_name": names.TOOL_NAME, "tool_call_id": names.TOOL_CALL_ID},
}
"""Fields of events that the conventions have a name for."""


def attribute_of(kind: type[TraceEvent], field: str) -> str:
    """Return the name of the attribute that carries a field of an event; `field` may be a path with dots."""
    return CARRIED_BY.get(kind, {}).get(field, names.OWN + field)
