"""The requests of a Weka trace (AgentX JSON) as they stand in the file: typed and checked, times in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from rotoscope.traces.formats.fields import Fields, Notes
from rotoscope.traces.reader import parse_json

SECOND_MS = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRequest:
    """One request to the model."""

    at_ms: float
    """When it was sent: from the start of the run, or of its sub-agent."""
    model: str | None
    prompt_tokens: int
    completion_tokens: int
    block_ids: tuple[int, ...]
    takes_tool_result: bool
    thinks: bool
    """Whether its answer holds reasoning; how much is not in the file."""
    stop: str
    api_ms: float | None
    """From sending it to the end of its answer."""
    think_ms: float | None
    """What the client did between the last answer and this request: tools, people, itself."""
    ttft_ms: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAgent:
    """A sub-agent: where its entry stands in time, how long it ran, and its requests."""

    at_ms: float
    duration_ms: float | None
    requests: tuple[SourceRequest, ...]


Entry: TypeAlias = SourceRequest | SourceAgent


@dataclass(frozen=True, slots=True)
class SourceTrace:
    """A session: a whole file, or a line of one."""

    trace_id: str
    block_size: int
    is_global: bool
    """Whether block ids mean the same in all sessions of the file."""
    entries: tuple[Entry, ...]
    notes: Notes


_TRACE_KEYS = frozenset(
    ("id", "models", "block_size", "hash_id_scope", "tool_tokens", "system_tokens", "totals", "requests")
)

_REQUEST_KEYS = frozenset(
    (
        *("t", "type", "model", "in", "out", "hash_ids", "input_types", "output_types", "stop"),
        *("api_time", "think_time", "ttft"),
    )
)

_AGENT_KEYS = frozenset(
    (
        *("t", "type", "agent_id", "subagent_type", "duration_ms", "total_tokens", "tool_use_count", "status"),
        *("models", "tool_tokens", "system_tokens", "requests"),
    )
)


def parse_weka(data: bytes) -> SourceTrace:
    """Parse the bytes of one session; raise TraceError where it is damaged."""
    return parse_session(parse_json(data), Notes())


def parse_session(value: Any, notes: Notes, *, line: int | None = None) -> SourceTrace:
    """Check the JSON value of a session; raise TraceError where it is damaged."""
    raw = Fields.of(value, line=line)
    notes.left_out(raw, {}, _TRACE_KEYS)
    scope = raw.optional_text("hash_id_scope") or "local"
    if scope not in ("local", "global"):
        raise raw.error("hash_id_scope", "expected 'local' or 'global'")
    block_size = raw.count("block_size", least=1)
    requests = enumerate(raw.items("requests"))
    entries = tuple(_entry(Fields.of(value, event=index, line=line), block_size, notes) for index, value in requests)
    return SourceTrace(raw.text("id"), block_size, scope == "global", entries, notes)


def _entry(fields: Fields, block_size: int, notes: Notes) -> Entry:
    if fields.optional_text("type") != "subagent":
        return _request(fields, block_size, notes)
    notes.left_out(fields, {}, _AGENT_KEYS)
    requests = []
    for number, inner in enumerate(fields.items("requests")):
        inner_fields = Fields.of(inner, event=fields.event, place=f"requests[{number}]", line=fields.line)
        if inner_fields.optional_text("type") == "subagent":
            raise inner_fields.error("type", "expected a request, found a sub-agent inside a sub-agent")
        requests.append(_request(inner_fields, block_size, notes))
    return SourceAgent(
        at_ms=fields.milliseconds("t", unit_ms=SECOND_MS),
        duration_ms=fields.optional_milliseconds("duration_ms"),
        requests=tuple(requests),
    )


def _request(fields: Fields, block_size: int, notes: Notes) -> SourceRequest:
    notes.left_out(fields, {}, _REQUEST_KEYS)
    prompt_tokens = fields.count("in", least=1)
    return SourceRequest(
        at_ms=fields.milliseconds("t", unit_ms=SECOND_MS),
        model=fields.optional_text("model"),
        prompt_tokens=prompt_tokens,
        completion_tokens=fields.count("out"),
        block_ids=_block_ids(fields, prompt_tokens, block_size),
        takes_tool_result="tool_result" in fields.texts("input_types"),
        thinks="thinking" in fields.texts("output_types"),
        stop=fields.optional_text("stop") or "",
        api_ms=fields.optional_milliseconds("api_time", unit_ms=SECOND_MS),
        think_ms=fields.optional_milliseconds("think_time", unit_ms=SECOND_MS),
        ttft_ms=fields.optional_milliseconds("ttft", unit_ms=SECOND_MS),
    )


def _block_ids(fields: Fields, prompt_tokens: int, block_size: int) -> tuple[int, ...]:
    block_ids = fields.integers("hash_ids")
    whole, partial = divmod(prompt_tokens, block_size)
    if len(block_ids) not in (whole, whole + bool(partial)):
        expected = f"{whole} or {whole + 1}" if partial else f"{whole}"
        raise fields.error("hash_ids", f"expected {expected} ids for {prompt_tokens} tokens, found {len(block_ids)}")
    return block_ids
