"""The rounds of a TraceLab file as they stand in it: typed and checked, times in milliseconds, texts left behind.

A line holds one round: a request to the model with its usage, the events around it and the tools that its answer asked
for. Read from the sample rows, `scripts/extract_codex_rounds.py` and `docs/prompt_cache_accounting.md` of uw-syfi/TraceLab
at 0b8a262, and from how AIPerf takes them (`_tracelab_convert.py` of ai-dynamo/aiperf at 018a03f).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from rotoscope.traces.errors import TraceError
from rotoscope.traces.formats.fields import MAX_TIME_MS, Fields, Notes
from rotoscope.traces.formats.source import Source

_INPUTS = ("user_message", "tool_result")
_OUTPUTS = ("text", "reasoning", "tool_call")
_OTHERS = ("usage_report",)
_SECOND_MS = 1000.0
_NONE_NEAR_MS = MAX_TIME_MS / 4


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that an answer asked for."""

    name: str | None
    start_ms: float | None
    end_ms: float | None
    has_own_time: bool
    """Whether the file also says how long the tool itself ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One request to the model."""

    line: int
    session: str
    index: int
    provider: str
    model: str | None
    place: tuple[str | None, str | None]
    """Project and user, only to tell them apart."""
    prompt_tokens: int
    hit_tokens: int | None
    """How many tokens of the prompt the engine said to have had; None where it said nothing."""
    completion_tokens: int | None
    reasoning_tokens: int | None
    has_reasoning: bool
    sent_ms: float | None
    ended_ms: float | None
    is_for_person: bool
    """Whether it answers a person and no tool."""
    tools: tuple[Tool, ...]


@dataclass(slots=True)
class Rounds:
    """What a file holds."""

    rounds: list[Round] = field(default_factory=list)
    texts: int = 0
    """Rows that hold what somebody wrote."""
    notes: Notes = field(default_factory=Notes)


_KEYS = frozenset(
    (
        *("provider", "project", "session_id", "round_index", "round_id", "turn_id", "model", "store", "trace_key"),
        *("input_tokens_total", "prefix_tokens", "newly_append_tokens", "output_tokens", "reasoning_output_tokens"),
        *("claude_uncached_input_tokens", "claude_cache_creation_input_tokens", "claude_cache_read_input_tokens"),
        *("timing_events", "tools", "current_input_event_count", "current_user_message_count"),
        *("current_tool_result_count", "current_user_message_chars", "current_tool_result_chars"),
        *("current_input_chars", "first_input_event_type"),
        *("user", "home", "cwd", "session_file"),
    )
)
_TEXTS = ("input", "output", "content", "text", "messages")


def read_rounds(source: Source) -> Rounds:
    """Read all rounds; raise TraceError, with file and line, where one is damaged."""
    rounds = Rounds()
    clock = _Clock()
    seen: set[tuple[str, int]] = set()
    for line, value in source.lines():
        try:
            round_ = _round(Fields.of(value, line=line), line, clock, rounds)
        except TraceError as error:
            raise error.at(source.name, line=line) from error.__cause__
        rounds.notes.add("round with the index of another one of its session", (round_.session, round_.index) in seen)
        seen.add((round_.session, round_.index))
        rounds.rounds.append(round_)
    return rounds


@dataclass(slots=True)
class _Clock:
    """Reads times; all of a file are near the first one."""

    first_ms: float | None = None

    def time_ms(self, fields: Fields, name: str) -> float | None:
        text = fields.optional_text(name)
        if text is None:
            return None
        try:
            at = datetime.fromisoformat(text)
            at_ms = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * _SECOND_MS
        except (ValueError, OverflowError) as error:
            raise fields.error(name, "expected a time as ISO 8601 has it") from error
        at_ms = round(at_ms, 3)
        self.first_ms = at_ms if self.first_ms is None else self.first_ms
        if abs(at_ms - self.first_ms) > _NONE_NEAR_MS:
            raise fields.error(name, "expected a time near the first one of the file")
        return at_ms


def _round(fields: Fields, line: int, clock: _Clock, rounds: Rounds) -> Round:
    rounds.notes.left_out(fields, {}, _KEYS)
    events = list(_events(fields, clock))
    inputs = [(at_ms, kind) for at_ms, kind in events if kind in _INPUTS]
    outputs = [at_ms for at_ms, kind in events if kind in _OUTPUTS] or [
        at_ms for at_ms, kind in events if kind in _OTHERS
    ]
    sent_ms = max((at_ms for at_ms, _ in inputs), default=min(outputs, default=None))
    prompt_tokens, hit_tokens = _prompt(fields, rounds.notes)
    completion_tokens = fields.optional_count("output_tokens")
    reasoning_tokens = fields.optional_count("reasoning_output_tokens")
    if reasoning_tokens is not None and reasoning_tokens > (completion_tokens or 0):
        rounds.notes.add("reasoning longer than its output (cut)")
        reasoning_tokens = completion_tokens or 0
    tools = tuple(_tools(fields, clock, rounds))
    return Round(
        line=line,
        session=fields.text("session_id"),
        index=fields.count_or("round_index", 0),
        provider=fields.optional_text("provider") or "",
        model=fields.optional_text("model"),
        place=(fields.optional_text("project"), fields.optional_text("user")),
        prompt_tokens=prompt_tokens,
        hit_tokens=hit_tokens,
        completion_tokens=completion_tokens,
        reasoning_tokens=reasoning_tokens,
        has_reasoning=any(kind == "reasoning" for _, kind in events),
        sent_ms=sent_ms,
        ended_ms=max(outputs) if outputs and sent_ms is not None and max(outputs) >= sent_ms else None,
        is_for_person={kind for _, kind in inputs} == {"user_message"},
        tools=tools,
    )


def _prompt(fields: Fields, notes: Notes) -> tuple[int, int | None]:
    prompt_tokens = fields.count("input_tokens_total")
    hit_tokens = fields.optional_count("prefix_tokens")
    new_tokens = fields.optional_count("newly_append_tokens")
    if hit_tokens is not None and hit_tokens > prompt_tokens:
        notes.add("hit longer than its prompt (cut)")
        hit_tokens = prompt_tokens
    elif hit_tokens is not None and new_tokens is not None and hit_tokens + new_tokens != prompt_tokens:
        notes.add("prompt that is not the sum of its parts (its own length is kept)")
    return prompt_tokens, hit_tokens


def _events(fields: Fields, clock: _Clock) -> Iterator[tuple[float, str]]:
    for index, value in enumerate(fields.items("timing_events") if "timing_events" in fields else ()):
        event = Fields.of(value, place=f"timing_events[{index}]", line=fields.line)
        kind = event.text("event_type")
        if kind not in (*_INPUTS, *_OUTPUTS, *_OTHERS):
            raise event.error("event_type", f"expected one of {', '.join((*_INPUTS, *_OUTPUTS, *_OTHERS))}")
        at_ms = clock.time_ms(event, "timestamp")
        if at_ms is not None:
            yield at_ms, kind


def _tools(fields: Fields, clock: _Clock, rounds: Rounds) -> Iterator[Tool]:
    has_text = any(name in fields for name in _TEXTS)
    for index, value in enumerate(fields.items("tools") if "tools" in fields else ()):
        tool = Fields.of(value, place=f"tools[{index}]", line=fields.line)
        has_text = has_text or any(name in tool for name in _TEXTS)
        start_ms = clock.time_ms(tool, "emitted_at")
        end_ms = clock.time_ms(tool, "result_at")
        wall_ms = tool.optional_milliseconds("tool_wall_latency_ms")
        own_ms = tool.optional_milliseconds("tool_internal_latency_ms")
        if wall_ms is not None and start_ms is None and end_ms is not None:
            start_ms = end_ms - wall_ms
        if wall_ms is not None and end_ms is None and start_ms is not None:
            end_ms = start_ms + wall_ms
        yield Tool(tool.optional_text("tool_name"), start_ms, end_ms, own_ms is not None)
    rounds.texts += has_text
