"""The records of a Dynamo request trace as they stand in the file: typed and checked, bodies and headers left behind.

A line holds a record, bare or as `{"timestamp": ..., "event": record}`. Read from `lib/llm/src/request_trace/types.rs`
and `record.rs` of ai-dynamo/dynamo at 0366e63 (dynamo.request.trace.v1), `lib/llm/src/agents/trace/types.rs` at 7d5c5a6
(the older dynamo.agent.trace.v1) and, for what their own readers take, `lib/data-gen/src/request_trace/load.rs` at
89179d3. Their replay hashes stand for everything up to the end of a block, the last one for a partial block too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isnan, nan
from typing import Any, TypeAlias

from rotoscope.traces.errors import TraceError
from rotoscope.traces.formats.block_hashes import block_hashes
from rotoscope.traces.formats.fields import MAX_TIME_MS, Fields, Notes
from rotoscope.traces.formats.source import Source
from rotoscope.traces.model import FinishReason

SCHEMAS = ("dynamo.request.trace.v1", "dynamo.agent.trace.v1")

LAST_UNIX_MS = 2**53
MOST_CHOICES = 128
"""The most that the OpenAI API gives."""

SessionId: TypeAlias = tuple[str, str]
"""The run it belongs to, empty where the file knows none, and its own id."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose a request or a tool is."""

    session: SessionId
    parent: SessionId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request that has ended."""

    line: int
    id: str
    identity: Identity | None
    model: str | None
    prompt_tokens: int
    """0 where the file does not tell."""
    completion_tokens: int | None
    cached_tokens: int | None
    block_size: int
    """0 where the request has no hashes."""
    block_ids: Sequence[int]
    start_ms: int
    end_ms: float
    ttft_ms: float | None
    finish_reason: FinishReason
    asked: tuple[tuple[str | None, str | None], ...]
    """Id and name of the tools that its answer asked for."""
    choices: int
    is_for_person: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool that has ended."""

    session: SessionId
    id: str
    name: str
    start_ms: float
    """NaN where the record of its end does not tell."""
    end_ms: float
    asking_request: str | None
    child: SessionId | None
    is_background: bool


_ToolKey: TypeAlias = tuple[SessionId, str]


@dataclass(slots=True)
class Records:
    """What a file holds, in whatever order its records came."""

    requests: list[Request] = field(default_factory=list)
    ended: dict[_ToolKey, Tool] = field(default_factory=dict)
    started: dict[_ToolKey, float] = field(default_factory=dict)
    """When tools began, as far as there is a record of that."""
    bodies: int = 0
    """Records and fields that hold what was said."""
    headers: int = 0
    """Records with agent headers."""
    notes: Notes = field(default_factory=Notes)

    @property
    def unfinished_tools(self) -> int:
        """Tools that began and never ended."""
        return len(self.started.keys() - self.ended.keys())

    def tools(self) -> Iterator[Tool]:
        """Yield the tools that have ended, each with its start, which may be later than its end."""
        for key, tool in self.ended.items():
            if isnan(tool.start_ms):
                yield replace(tool, start_ms=self.started.get(key, tool.end_ms))
            else:
                yield tool


def read_records(source: Source) -> Records:
    """Read all records; raise TraceError, with file and line, where one is damaged or of a schema that is not known."""
    records = Records()
    seen: set[str] = set()
    earliest: int | None = None
    for line, value in source.lines():
        try:
            fields = _record(value, line)
            at_ms = fields.count("event_time_unix_ms", most=LAST_UNIX_MS)
            earliest = at_ms if earliest is None else earliest
            if abs(at_ms - earliest) > MAX_TIME_MS / 4:
                raise fields.error("event_time_unix_ms", "expected a time near that of the first record")
            _add(records, fields, seen)
        except TraceError as error:
            raise error.at(source.name, line=line) from error.__cause__
    return records


def _record(value: Any, line: int) -> Fields:
    outer = Fields.of(value, line=line)
    fields = outer.inner("event") if "event" in outer else outer
    if fields.text("schema") not in SCHEMAS:
        raise fields.error("schema", f"expected {SCHEMAS[0]!r} or {SCHEMAS[1]!r}, the schemas this Rotoscope reads")
    return fields


def _add(records: Records, fields: Fields, seen: set[str]) -> None:
    records.notes.left_out(fields, {}, _RECORD_KEYS)
    match fields.text("event_type"):
        case "request_end":
            records.requests.append(_request(fields, records, seen))
        case "tool_start":
            _start_tool(fields, records)
        case "tool_end" | "tool_error":
            _end_tool(fields, records)
        case "request_payload":
            records.bodies += 1
        case _:
            raise fields.error("event_type", f"expected one of {', '.join(_EVENT_TYPES)}")


_EVENT_TYPES = ("request_end", "request_payload", "tool_start", "tool_end", "tool_error")
_RECORD_KEYS = frozenset(
    (
        *("schema", "event_type", "event_time_unix_ms", "event_source"),
        *("agent_context", "request", "tool", "payload"),
    )
)
_REQUEST_KEYS = frozenset(
    (
        *("request_id", "x_request_id", "model", "input_tokens", "output_tokens", "cached_tokens"),
        *("request_received_ms", "prefill_wait_time_ms", "prefill_time_ms", "ttft_ms", "total_time_ms"),
        *("avg_itl_ms", "kv_hit_rate", "kv_transfer_estimated_latency_ms", "queue_depth", "worker", "replay"),
        *("finish_reason_metadata", "io_text"),
    )
)
_NAMES = (
    ("workflow_id", "program_id", "parent_program_id"),
    ("session_id", "trajectory_id", "parent_trajectory_id"),
    ("", "session_id", "parent_session_id"),
)
"""Of a run, a session in it and the session that started it: by age, the newest last."""


def _identity(fields: Fields, records: Records) -> Identity | None:
    if "agent_context" not in fields:
        return None
    context = fields.inner("agent_context")
    records.headers += "agent_headers" in context
    run_name, name, parent_name = next((names for names in _NAMES if names[1] in context), _NAMES[-1])
    run = context.text(run_name) if run_name else ""
    parent = context.optional_text(parent_name)
    return Identity((run, context.text(name)), None if parent is None else (run, parent))


def _request(fields: Fields, records: Records, seen: set[str]) -> Request:
    request = fields.inner("request")
    records.notes.left_out(request, {}, _REQUEST_KEYS)
    records.bodies += "io_text" in request
    request_id = request.text("request_id")
    if request_id in seen:
        raise request.error("request_id", "expected an id of its own, found one that is taken")
    seen.add(request_id)
    start_ms, end_ms = _times(fields, request)
    block_size, prompt_tokens, block_ids = _replay(request)
    metadata = request.inner("finish_reason_metadata") if "finish_reason_metadata" in request else None
    context = fields.inner("agent_context") if "agent_context" in fields else None
    return Request(
        line=request.line or 0,
        id=request_id,
        identity=_identity(fields, records),
        model=request.optional_text("model"),
        prompt_tokens=prompt_tokens,
        completion_tokens=request.optional_count("output_tokens"),
        cached_tokens=request.optional_count("cached_tokens"),
        block_size=block_size,
        block_ids=block_ids,
        start_ms=start_ms,
        end_ms=end_ms,
        ttft_ms=request.optional_milliseconds("ttft_ms"),
        finish_reason="unknown" if metadata is None else _finish_reason(metadata),
        asked=() if metadata is None else tuple(_asked(metadata)),
        choices=1 if metadata is None else _choices(metadata),
        is_for_person=context is not None and context.optional_text("input_trigger") == "user_message",
    )


def _times(fields: Fields, request: Fields) -> tuple[int, float]:
    """Return when a request came and when it ended: what is missing follows from when the record was made."""
    at_ms = fields.count("event_time_unix_ms", most=LAST_UNIX_MS)
    total_ms = request.optional_milliseconds("total_time_ms")
    received_ms = request.optional_count("request_received_ms", most=LAST_UNIX_MS)
    if received_ms is None:
        return at_ms - round(total_ms or 0.0), float(at_ms)
    if abs(at_ms - received_ms) > MAX_TIME_MS / 4:
        raise request.error("request_received_ms", "expected a time near that of the record")
    return received_ms, received_ms + total_ms if total_ms is not None else float(max(at_ms, received_ms))


def _replay(request: Fields) -> tuple[int, int, Sequence[int]]:
    """Return block size, prompt length and ids; a request without hashes has the length that the server counted."""
    if "replay" not in request:
        return 0, request.count_or("input_tokens", 0), ()
    replay = request.inner("replay")
    block_size = replay.count("trace_block_size", least=1)
    prompt_tokens = replay.count("input_length")
    blocks = -(-prompt_tokens // block_size)
    block_ids = block_hashes(replay, "input_sequence_hashes", prompt_tokens=prompt_tokens, blocks=blocks)
    return block_size, prompt_tokens, block_ids


_FINISH_REASONS: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "cancelled": "cancelled",
    "abort": "cancelled",
    "error": "error",
}


def _finish_reason(metadata: Fields) -> FinishReason:
    for name in ("finish_reason", "backend_finish_reason"):
        given = (metadata.optional_text(name) or "").partition(":")[0]
        if given in _FINISH_REASONS:
            return _FINISH_REASONS[given]
    return "unknown"


def _asked(metadata: Fields) -> Iterator[tuple[str | None, str | None]]:
    for index, value in enumerate(metadata.items("tool_calls") if "tool_calls" in metadata else ()):
        asked = Fields.of(value, place=f"request.finish_reason_metadata.tool_calls[{index}]", line=metadata.line)
        yield asked.optional_text("id"), asked.optional_text("name")


def _choices(metadata: Fields) -> int:
    choices = len(metadata.items("choices")) if "choices" in metadata else 1
    if choices > MOST_CHOICES:
        raise metadata.error("choices", f"expected at most {MOST_CHOICES}, found {choices}")
    return max(choices, 1)


def _tool_key(fields: Fields, records: Records) -> tuple[Fields, _ToolKey]:
    identity = _identity(fields, records)
    if identity is None:
        raise fields.error("agent_context", "required, but not there")
    tool = fields.inner("tool")
    return tool, (identity.session, tool.text("tool_call_id"))


def _start_tool(fields: Fields, records: Records) -> None:
    tool, key = _tool_key(fields, records)
    records.started.setdefault(key, _tool_time(fields, tool, "started_at_unix_ms"))


def _end_tool(fields: Fields, records: Records) -> None:
    tool, key = _tool_key(fields, records)
    if key in records.ended:
        records.notes.add("tool that ended twice (the first record is kept)")
        return
    start_ms, end_ms = _tool_extent(fields, tool)
    claude = tool.inner("claude") if "claude" in tool else Fields({})
    child = claude.optional_text("child_session_id")
    is_background = claude.optional_text("execution_mode") == "background" and "consumer_request_id" not in claude
    records.ended[key] = Tool(
        session=key[0],
        id=key[1],
        name=tool.text("tool_class"),
        start_ms=start_ms,
        end_ms=end_ms,
        asking_request=claude.optional_text("source_request_id"),
        child=None if child is None else (key[0][0], child),
        is_background=is_background,
    )


def _tool_extent(fields: Fields, tool: Fields) -> tuple[float, float]:
    """Return start and end of a tool; its duration says more than two times in whole milliseconds."""
    end_ms = _tool_time(fields, tool, "ended_at_unix_ms")
    duration_ms = tool.optional_milliseconds("duration_ms")
    if "started_at_unix_ms" not in tool:
        return (nan if duration_ms is None else end_ms - duration_ms), end_ms
    start_ms = _tool_time(fields, tool, "started_at_unix_ms")
    return start_ms, end_ms if duration_ms is None or end_ms < start_ms else start_ms + duration_ms


def _tool_time(fields: Fields, tool: Fields, name: str) -> float:
    """Return a time of a tool, that of the record where it is absent."""
    recorded_ms = fields.count("event_time_unix_ms", most=LAST_UNIX_MS)
    at_ms = tool.optional_count(name, most=LAST_UNIX_MS)
    if at_ms is None:
        return float(recorded_ms)
    if abs(at_ms - recorded_ms) > MAX_TIME_MS / 4:
        raise tool.error(name, "expected a time near that of the record")
    return float(at_ms)
