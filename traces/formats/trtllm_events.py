"""The events of a TensorRT-LLM trace as they stand in the file: typed, checked, without their content.

Compact and full traces have the same events; a full one has more keys. Of those only the duration of a call is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from rotoscope.traces.errors import TraceError
from rotoscope.traces.formats.fields import Fields, Notes
from rotoscope.traces.reader import parse_json

Path: TypeAlias = tuple[int, ...]
"""A branch_path: () is the root."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEvent:
    """What every event has: its index in the file and its branch."""

    index: int
    branch_path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMessage(SourceEvent):
    """A message that entered a conversation; the size of an assistant's, seeded history, is not recorded."""

    conversation: int
    role: str
    message_index: int | None
    tokens: int | None
    system_prompt: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCall(SourceEvent):
    """An assistant message with token counts: one request to the model."""

    conversation: int
    message_index: int | None
    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int
    tool_names: tuple[str, ...]
    finish_reason: str | None
    duration_ms: float | None

    @property
    def content_tokens(self) -> int:
        """Tokens of the answer that enter the conversation: all but the reasoning."""
        return self.completion_tokens - self.reasoning_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTool(SourceEvent):
    """A tool that ran."""

    name: str
    duration_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFork(SourceEvent):
    """The start of a parallel region on the branch of the parent."""

    num_branches: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceJoin(SourceEvent):
    """The end of a parallel region on the branch of the parent; which one it does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDrop(SourceEvent):
    """The agent said that its cache may be dropped."""


AnySourceEvent: TypeAlias = SourceMessage | SourceCall | SourceTool | SourceFork | SourceJoin | SourceDrop

MAX_MESSAGES = 2**30
"""No conversation has as many messages, and counting on from there stays a count."""

MAX_BRANCHES = 100_000
"""No agent forks so wide; a greater number is damage."""

_ROLES = ("system", "user", "tool", "assistant")

_ENVELOPE = ("event_type", "branch_path")

_READ = {
    "message": (
        *("conversation_id", "role", "message_index", "system_prompt_id", "tokens", "tool_calls", "prompt_tokens"),
        *("completion_tokens", "reasoning_tokens", "finish_reason", "llm_duration_ms"),
    ),
    "tool_call": ("tool_call_id", "tool_name", "duration_ms"),
    "parallel_start": ("num_branches",),
    "parallel_end": (),
    "drop_kv_cache": (),
}

CONTENT_KIND = "field with content (dropped)"
"""What is noted for a field that may hold text."""

_DROPPED = {
    "tokens_source": "tokens_source (dropped: the counts are taken as given)",
    "tokenize_error": "tokenize_error (dropped)",
    "tool_name": CONTENT_KIND,
    **dict.fromkeys(
        (
            *("content", "llm_request_params", "llm_request_messages", "llm_request_tools", "tool_calls_detail"),
            *("reasoning", "reasoning_content", "tool_arguments", "tool_result", "tool_stdout", "tool_stderr"),
        ),
        CONTENT_KIND,
    ),
}


@dataclass(frozen=True, slots=True)
class SourceTrace:
    """A whole file."""

    trace_id: str
    events: tuple[AnySourceEvent, ...]
    notes: Notes


def parse_trtllm(data: bytes) -> SourceTrace:
    """Parse the bytes of a TensorRT-LLM trace; raise TraceError where it is damaged."""
    raw = Fields.of(parse_json(data))
    notes = Notes()
    notes.left_out(raw, {}, ("trace_id", "events"))
    events = tuple(_event(value, index, notes) for index, value in enumerate(raw.items("events")))
    return SourceTrace(raw.text("trace_id"), events, notes)


def _event(value: Any, index: int, notes: Notes) -> AnySourceEvent:
    fields = Fields.of(value, event=index)
    kind = fields.text("event_type")
    if kind not in _READ:
        raise fields.error("event_type", f"expected one of {', '.join(_READ)}")
    notes.left_out(fields, _DROPPED, (*_ENVELOPE, *_READ[kind]))
    path = fields.counts("branch_path") if "branch_path" in fields else ()
    match kind:
        case "message":
            return _message(fields, index, path)
        case "tool_call":
            name, duration_ms = fields.text("tool_name"), fields.milliseconds("duration_ms")
            return SourceTool(index=index, branch_path=path, name=name, duration_ms=duration_ms)
        case "parallel_start":
            return SourceFork(
                index=index, branch_path=path, num_branches=fields.count("num_branches", least=1, most=MAX_BRANCHES)
            )
        case "parallel_end":
            return SourceJoin(index=index, branch_path=path)
        case _:
            return SourceDrop(index=index, branch_path=path)


def _message(fields: Fields, index: int, path: Path) -> SourceMessage | SourceCall:
    role = fields.text("role")
    if role not in _ROLES:
        raise fields.error("role", f"expected one of {', '.join(_ROLES)}")
    if role == "assistant" and ("prompt_tokens" in fields or "completion_tokens" in fields):
        return _call(fields, index, path)
    return SourceMessage(
        index=index,
        branch_path=path,
        conversation=fields.count("conversation_id"),
        role=role,
        message_index=fields.optional_count("message_index", most=MAX_MESSAGES),
        tokens=fields.optional_count("tokens") if role == "assistant" else fields.count("tokens"),
        system_prompt=fields.optional_text("system_prompt_id") if role == "system" else None,
    )


def _call(fields: Fields, index: int, path: Path) -> SourceCall:
    completion_tokens = fields.count("completion_tokens")
    reasoning_tokens = fields.count_or("reasoning_tokens", 0)
    if reasoning_tokens > completion_tokens:
        raise TraceError(
            f"expected at most the {completion_tokens} completion_tokens, found {reasoning_tokens}",
            event=index,
            field="reasoning_tokens",
        )
    return SourceCall(
        index=index,
        branch_path=path,
        conversation=fields.count("conversation_id"),
        message_index=fields.optional_count("message_index", most=MAX_MESSAGES),
        prompt_tokens=fields.count("prompt_tokens", least=1),
        completion_tokens=completion_tokens,
        reasoning_tokens=reasoning_tokens,
        tool_names=fields.texts("tool_calls"),
        finish_reason=fields.optional_text("finish_reason"),
        duration_ms=fields.optional_milliseconds("llm_duration_ms"),
    )
