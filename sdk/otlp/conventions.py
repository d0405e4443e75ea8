"""Names of spans and attributes: those of OpenTelemetry's GenAI conventions, of one version, and our own.

What the conventions have a name for is called that. Everything else that a trace says of an event is the attribute
`rotoscope.` with the name of the field of the trace model, fields within fields joined by dots, and left out where it
holds its default: `rotoscope.prefix.tokens`. So a reader needs no table beside `CARRIED_BY`, and loses nothing.

An event that takes time is a span; one that takes none is an event of a span, called `rotoscope.` with its type.
"""

from __future__ import annotations

from typing import Final

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

CONVENTIONS_VERSION: Final = "0.1.0"
"""Of https://github.com/open-telemetry/semantic-conventions-genai, over semantic conventions 1.45.0."""
SCHEMA_URL: Final = f"https://opentelemetry.io/schemas/gen-ai/{CONVENTIONS_VERSION}"
"""As that repository forms the names of its releases; it names the version, nothing is fetched from there."""
SCOPE_NAME: Final = "rotoscope"
SERVICE_NAME: Final = "service.name"

OPERATION_NAME: Final = "gen_ai.operation.name"
INVOKE_AGENT: Final = "invoke_agent"
EXECUTE_TOOL: Final = "execute_tool"
CHAT: Final = "chat"
TEXT_COMPLETION: Final = "text_completion"
GENERATE_CONTENT: Final = "generate_content"
EMBEDDINGS: Final = "embeddings"

PROVIDER_NAME: Final = "gen_ai.provider.name"
AGENT_NAME: Final = "gen_ai.agent.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
CONVERSATION_COMPACTED: Final = "gen_ai.conversation.compacted"
"""Only ever true, by the conventions."""
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
"""In seconds."""
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_TYPE: Final = "gen_ai.tool.type"
ERROR_TYPE: Final = "error.type"

OWN: Final = "rotoscope."
"""How every name of ours begins."""
EVENT_TYPE: Final = f"{OWN}event_type"
"""On each span: which of `EVENT_TYPES` it is, or `RUN` or `BRANCH`, which are no events of a trace."""
RUN: Final = "run"
"""The root. It has the fields of the trace's header as `TRACE` with their names."""
BRANCH: Final = "branch"
"""One child of a fan-out; `rotoscope.branch` says which, as on everything that happened on it."""
EVENT: Final = f"{OWN}event"
"""Place of an event in the trace, from 0."""
TRACE: Final = f"{OWN}trace."
START_MS: Final = f"{TRACE}start_ms"
"""When a trace of a corpus began on the clock of the corpus, where there is one."""
RANKS: Final = f"{TRACE}ranks"
"""Place of each of its calls in the order of all calls of the corpus, where there is one."""
SHARED_PREFIX: Final = f"{OWN}shared_prefix"
"""An event of the root for each shared prefix, with its fields."""

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
"""What an event is called in attributes and, behind `OWN`, as the event of a span."""

CARRIED_BY: Final[dict[type[TraceEvent], dict[str, str]]] = {
    Call: {
        "prompt_tokens": INPUT_TOKENS,
        "completion_tokens": OUTPUT_TOKENS,
        "reasoning_tokens": REASONING_TOKENS,
        "cached_tokens": CACHE_READ_TOKENS,
    },
    Embedding: {"prompt_tokens": INPUT_TOKENS},
    ToolCall: {"tool_name": TOOL_NAME, "tool_call_id": TOOL_CALL_ID},
}
"""Fields of events that the conventions have a name for."""


def attribute_of(kind: type[TraceEvent], field: str) -> str:
    """Return the name of the attribute that carries a field of an event; `field` may be a path with dots."""
    return CARRIED_BY.get(kind, {}).get(field, OWN + field)
