"""Names of spans and attributes, for spans as they happen and for those of a trace alike.

They are those of OpenTelemetry's GenAI conventions, of one version, and our own. This module is light, because agents
load it; what the events of a trace become stands in `otlp/conventions.py`.
"""

from __future__ import annotations

from typing import Final

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
REQUEST_STREAM: Final = "gen_ai.request.stream"
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
PARALLEL: Final = "parallel"
"""A fan-out, from its beginning to its join."""
