"""Read the CSV of TraceLab's replayer: sessions of rounds by length, with one wait behind each answer.

A row keeps `prefix_len` tokens of the prompt and answer before it in its session, adds `input_len` new ones, asks for
`output_len`, and waits `tool_wait_after_ms`. Where it keeps more than there was, the replayer fills up with tokens of its
own, which are nobody else's. Read from `replay/src/trace.rs`, `tokens.rs` and `session.rs` of uw-syfi/TraceLab at 0b8a262.
"""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from rotoscope.traces.corpus import Member
from rotoscope.traces.errors import TraceError
from rotoscope.traces.forest import normalise
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.fields import MAX_TIME_MS, derived_id, trace_id_of
from rotoscope.traces.formats.source import Source
from rotoscope.traces.model import MAX_COUNT, Call, Prefix, ToolCall, Trace, TraceEvent
from rotoscope.traces.validation import validate

logger = logging.getLogger(__name__)

FORMAT = "tracelab-csv"
REQUIRED = ("round_idx", "prefix_len", "input_len", "output_len", "tool_wait_after_ms")
SESSION = ("session_id", "id")
"""Either will do."""

LENGTHS = Aspect("prompt and output lengths", "kept")
PREFIXES = Aspect("prefixes", "kept", "what is kept of the round before")
SESSIONS = Aspect("sessions", "kept", "with their arrival where the file has it", "sessions")
WAITS = Aspect("waits", "approximated", "one tool behind each answer; it may have been a person", "waits")
FILLED = Aspect("prefixes longer than what was before", "approximated", "cut to that; the replayer makes up the rest")
TIMES = Aspect("times of rounds", "lost", "the file does not have them")

READ_ASPECTS = (LENGTHS, PREFIXES, SESSIONS, WAITS, FILLED, TIMES)


@dataclass(frozen=True, slots=True)
class _Row:
    line: int
    session: str
    index: int
    arrival_ms: float | None
    kept_tokens: int
    new_tokens: int
    completion_tokens: int
    wait_ms: float


def read(source: Source, fidelity: Fidelity) -> list[Member]:
    """Read the sessions of a file, which follow one another in the order of their arrival.

    Raise TraceError, with file and line, where the file is damaged.
    """
    try:
        rows = list(_rows(source.whole()))
        if not rows:
            raise TraceError("expected rounds, found none")
        sessions: dict[str, list[_Row]] = {}
        for row in rows:
            sessions.setdefault(row.session, []).append(row)
        campaign = derived_id(FORMAT, "campaign", *sessions)
        order = sorted(sessions.values(), key=lambda session: min(row.arrival_ms or 0.0 for row in session))
        first_ranks = dict(
            zip((session[0].session for session in order), accumulate(map(len, order), initial=0), strict=False)
        )
        return [
            _member(number, session, campaign, first_ranks[name], fidelity)
            for number, (name, session) in enumerate(sessions.items())
        ]
    except TraceError as error:
        raise error.at(source.name) from error.__cause__


def _rows(data: bytes) -> Iterator[_Row]:
    try:
        reader = csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), strict=True)
        columns: list[str] = []
        for cells in reader:
            if len(cells) <= 1 and not "".join(cells).strip():
                continue  # a blank line
            if columns:
                yield _row(columns, cells, reader.line_num)
            else:
                columns = [column.strip() for column in cells]
                _check(columns, reader.line_num)
        if not columns:
            _check(columns, 1)
    except UnicodeDecodeError as error:
        raise TraceError(f"expected UTF-8 text, found byte {data[error.start]:#04x} at {error.start}") from error
    except csv.Error as error:
        raise TraceError("expected comma-separated values", line=reader.line_num) from error


def _check(columns: list[str], line: int) -> None:
    missing = [name for name in REQUIRED if name not in columns]
    if missing or not set(SESSION) & set(columns):
        raise TraceError(f"expected a column {(missing or SESSION)[0]!r}", line=line)
    if len(set(columns)) != len(columns):
        raise TraceError("expected each column once", line=line)


def _row(columns: list[str], cells: list[str], line: int) -> _Row:
    if len(cells) != len(columns):
        raise TraceError(f"expected {len(columns)} values, found {len(cells)}", line=line)
    values = dict(zip(columns, cells, strict=True))
    row = _Row(
        line=line,
        session=values[next(name for name in SESSION if name in values)],
        index=_count(values, "round_idx", line),
        arrival_ms=_milliseconds(values, "arrival_time", line) if values.get("arrival_time") else None,
        kept_tokens=_count(values, "prefix_len", line),
        new_tokens=_count(values, "input_len", line),
        completion_tokens=_count(values, "output_len", line),
        wait_ms=_milliseconds(values, "tool_wait_after_ms", line),
    )
    if not 1 <= row.kept_tokens + row.new_tokens <= MAX_COUNT:
        raise TraceError(f"expected a prompt of 1 to {MAX_COUNT} tokens", line=line, field="input_len")
    return row


def _count(values: dict[str, str], name: str, line: int) -> int:
    text = values[name].strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= MAX_COUNT):
        raise TraceError(f"expected an integer from 0 to {MAX_COUNT}", line=line, field=name)
    return int(text)


def _milliseconds(values: dict[str, str], name: str, line: int) -> float:
    try:
        value = float(values[name])
    except ValueError as error:
        raise TraceError("expected a number", line=line, field=name) from error
    if not 0 <= value <= MAX_TIME_MS:
        raise TraceError(f"expected a number from 0 to {MAX_TIME_MS:.1e}", line=line, field=name)
    return value


def _member(number: int, session: list[_Row], campaign: str, first_rank: int, fidelity: Fidelity) -> Member:
    rows = sorted(session, key=lambda row: row.index)
    events: list[TraceEvent] = []
    stream = 0
    for call, row in enumerate(rows):
        kept = min(row.kept_tokens, stream)
        fidelity.note(FILLED, row.kept_tokens > stream)
        events.append(_call(call, row, kept))
        if row.wait_ms and call + 1 < len(rows):
            wait = ToolCall(tool_call_id=f"t{call}", tool_name="tool0", duration_ms=row.wait_ms, call=call)
            events.append(wait)
            fidelity.note(WAITS)
        stream = row.kept_tokens + row.new_tokens + row.completion_tokens
    trace = Trace(
        trace_id=trace_id_of(FORMAT, session[0].session),
        campaign=campaign,
        token_source="given",
        events=tuple(events),
    )
    trace = normalise(trace)
    validate(trace)
    for aspect in (LENGTHS, PREFIXES, TIMES):
        fidelity.note(aspect, len(rows))
    fidelity.note(SESSIONS)
    ranks = tuple(range(first_rank, first_rank + len(rows)))
    return Member(name=str(number), trace=trace, start_ms=rows[0].arrival_ms, ranks=ranks)


def _call(number: int, row: _Row, kept: int) -> Call:
    return Call(
        call=number,
        conversation_id=0,
        message_index=2 * number + 1,
        prompt_tokens=row.kept_tokens + row.new_tokens,
        completion_tokens=row.completion_tokens,
        prefix=Prefix(number - 1 if kept else None, kept, "assumed"),
    )
