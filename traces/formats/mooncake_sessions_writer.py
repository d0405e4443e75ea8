"""Write traces as Mooncake JSONL with sessions: rows of one `session_id` follow one another.

Lengths and block ids are those of whole prompts, as in all Mooncake files. AIPerf 0.13.0 has the same keys, but sends with
a later turn all that came before it, answers too, and takes its length for what it adds (seen on the wire): these rows
become far longer prompts there; `mooncake_delta_writer.py` writes what it wants.

The session of a row is the number of its trace: names of files may be names of people. The first one of a session has
its time, where that is known, the others the `delay` since the answer before them: a replay with times for all would not
wait for answers. Calls of branches follow one another in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.mooncake_writer import (
    ALWAYS_LOST,
    CUT,
    EMPTY,
    LENGTHS,
    NO_CALL_AFTER,
    STARTS,
    TIMES,
    WHOLE,
    OutRow,
    as_number,
    asked_fields,
    note_empty,
    note_rows,
    out_rows,
    row_line,
)
from rotoscope.traces.formats.written_times import behind_last_calls
from rotoscope.traces.model import Branch, Call, ToolCall, Trace, Wait

SESSIONS = Aspect("sessions", "kept", unit="sessions")
NOT_FOR_AIPERF = Aspect(
    "lengths of later turns in AIPerf",
    "lost",
    "it adds all turns before them: write mooncake-delta for it",
    unit="sessions",
)
FIRST_TIMES = Aspect("arrival times", "approximated", "those of later turns follow from the delays")
DELAYS = Aspect("gaps between turns", "kept", "as delays", unit="gaps")
TOOLS = Aspect("tools", "approximated", "as delays before the next turn", unit="tools")
LINES = Aspect("branches", "approximated", "calls of branches follow one another")
WRITE_ASPECTS = (
    *(
        LENGTHS,
        NOT_FOR_AIPERF,
        EMPTY,
        WHOLE,
        CUT,
        SESSIONS,
        TIMES,
        FIRST_TIMES,
        STARTS,
        DELAYS,
        TOOLS,
        LINES,
        NO_CALL_AFTER,
    ),
    *ALWAYS_LOST,
)


def write_mooncake_sessions(members: Sequence[Member], fidelity: Fidelity, *, block_size: int) -> Iterator[bytes]:
    """Yield the rows of a file with sessions; what has no time is left without."""
    rows = out_rows(members, block_size)
    note_rows(rows, members, fidelity, block_size=block_size)
    note_empty(rows, fidelity)
    delays = [gaps_before(member.trace) for member in members]
    firsts = [min((call.call for call in member.trace.calls()), default=None) for member in members]
    later = [row for row in rows if row.call.call != firsts[row.member]]
    fidelity.note(SESSIONS, len(members))
    fidelity.note(NOT_FOR_AIPERF, len({row.member for row in later}))
    fidelity.note(TIMES, sum(row.at_ms is not None for row in rows) - sum(row.at_ms is not None for row in later))
    fidelity.note(FIRST_TIMES, sum(row.at_ms is not None for row in later))
    fidelity.note(DELAYS, len(later))
    last = [event for member in members for event in behind_last_calls(member.trace)]
    tools = sum(isinstance(event, ToolCall) for member in members for event in member.trace.events)
    fidelity.note(TOOLS, tools - sum(isinstance(event, ToolCall) for event in last))
    fidelity.note(NO_CALL_AFTER, len(last))
    fidelity.note(LINES, sum(row.call.branch is not None for row in rows))
    return (row_line(fields) for fields in _session_rows(rows, delays))


def _session_rows(rows: Sequence[OutRow], delays: Sequence[dict[int, float]]) -> Iterator[dict[str, Any]]:
    """Yield rows; `prefix_reset` says of later turns whether they begin anew, and so that they are whole prompts."""
    last: dict[int, OutRow] = {}
    for row in rows:
        fields: dict[str, Any] = {"session_id": str(row.member)}
        before = last.get(row.member)
        last[row.member] = row
        if before is not None:
            fields["delay"] = as_number(delays[row.member][row.call.call])
            fields["prefix_reset"] = row.block_ids[:1] != before.block_ids[:1]
        elif row.at_ms is not None:
            fields["timestamp"] = as_number(row.at_ms)
        yield {**fields, **asked_fields(row)}


def gaps_before(trace: Trace, *, on_branches: bool = False) -> dict[int, float]:
    """Return for each call the time from the answer of the call before it, in the order of their numbers.

    `on_branches` takes the call before it on its branch instead.
    Where times of both are not known it is the sum of the waits and tools before it on its branch.
    """
    slept = _slept_before(trace)
    gaps: dict[int, float] = {}
    answered: dict[Branch | None, float | None] = {}
    for call in trace.calls():
        line = call.branch if on_branches else None
        gaps[call.call] = slept[call.call]
        if call.at_ms is not None and (answered_ms := answered.get(line)) is not None:
            gaps[call.call] = max(round(call.at_ms - answered_ms, 3), 0.0)
        answered[line] = None if call.at_ms is None or call.duration_ms is None else call.at_ms + call.duration_ms
    return gaps


def _slept_before(trace: Trace) -> dict[int, float]:
    slept: dict[int, float] = {}
    since_call: dict[Branch | None, float] = {}
    for event in trace.events:
        if isinstance(event, Wait | ToolCall):
            since_call[event.branch] = since_call.get(event.branch, 0.0) + event.duration_ms
        elif isinstance(event, Call):
            slept[event.call] = round(since_call.pop(event.branch, 0.0), 3)
    return slept
