"""Write traces as Mooncake JSONL whose later turns say what they add: for AIPerf, and for Dynamo's `mooncake-delta`.

Both send with a later turn of a session all turns and answers before it, and take the length of its row for what is new.
So a session is a line of calls of one branch, each of which goes on with all of the prompt and answer before it. Where the
trace does not know what becomes of answers that is assumed by the rule of `assume_growth.py`. A prompt that does not go
on begins another session, as a whole.

The block ids of a first turn are those of its prompt; a later turn has ids of its own, since what it adds stands nowhere
else at its place. `is_delta` in each row tells the rows from whole prompts: lengths alone do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from rotoscope.traces.assume_growth import assume_growth
from rotoscope.traces.corpus import Member
from rotoscope.traces.forest import Forest
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.mooncake_sessions_writer import (
    DELAYS,
    FIRST_TIMES,
    SESSIONS,
    TOOLS,
    gaps_before,
)
from rotoscope.traces.formats.mooncake_writer import (
    ALWAYS_LOST,
    CUT,
    EMPTY,
    LENGTHS,
    NO_CALL_AFTER,
    OUTPUTS,
    STARTS,
    TIMES,
    WHOLE,
    OutRow,
    as_number,
    asked_fields,
    note_empty,
    note_lost,
    note_prefixes,
    out_rows,
    row_line,
)
from rotoscope.traces.formats.written_times import behind_last_calls
from rotoscope.traces.model import Branch, Call, ToolCall, Trace

LATER = Aspect("later turns", "kept", "as what they add to the prompt and answer before", unit="turns")
ASSUMED = Aspect(
    "later turns", "approximated", "assumed to hold the answer before, since the prompt grew by it", unit="turns"
)
PARTED = Aspect(
    "sessions",
    "approximated",
    "several: branches, and prompts that do not go on with all of the one before, begin another",
    unit="sessions",
)
APART = Aspect("common prefixes", "lost", "a prompt that begins a session shares what a later turn of another added")
NO_DELAYS = Aspect("gaps between turns", "lost", "another session begins; its time is kept where it is known", "gaps")
LOST_TOOLS = Aspect("tools", "lost", "another session begins after them", unit="tools")
NO_OUTPUTS = Aspect("reuse of outputs", "lost", "of prompts that begin a session; block ids are of prompts alone")
WRITE_ASPECTS = (
    *(LENGTHS, EMPTY, LATER, ASSUMED, WHOLE, CUT, APART, SESSIONS, PARTED, TIMES, FIRST_TIMES, STARTS),
    *(DELAYS, NO_DELAYS, TOOLS, LOST_TOOLS, NO_CALL_AFTER, NO_OUTPUTS),
    *(aspect for aspect in ALWAYS_LOST if aspect != OUTPUTS),
)


def write_mooncake_delta(members: Sequence[Member], fidelity: Fidelity, *, block_size: int) -> Iterator[bytes]:
    """Yield the rows of a file with sessions whose later turns say what they add."""
    rows = out_rows(members, block_size)
    turns = [_turns(member.trace) for member in members]
    _note(rows, members, turns, fidelity, block_size=block_size)
    return (row_line(fields) for fields in _rows(rows, members, turns, block_size))


@dataclass(frozen=True, slots=True)
class _Turn:
    """A call's place in the sessions of its trace."""

    session: int
    """The number of the session within the trace."""
    added: int | None
    """Tokens that the prompt adds to the prompt and answer before; None where it begins a session."""
    is_assumed: bool
    """Whether the trace does not say that it holds the answer before."""
    has_before: bool
    """Whether its branch has a call before it."""
    tools: int
    """That ran between the call before it on its branch and it."""


def _turns(trace: Trace) -> dict[int, _Turn]:
    """Return the turn of each call."""
    known, grown = Forest.of_trace(trace), Forest.of_trace(assume_growth(trace)[0])
    last: dict[Branch | None, Call] = {}
    tools: dict[Branch | None, int] = {}
    turns: dict[int, _Turn] = {}
    sessions = count()
    for event in trace.events:
        if isinstance(event, ToolCall):
            tools[event.branch] = tools.get(event.branch, 0) + 1
        elif isinstance(event, Call):
            before = last.get(event.branch)
            last[event.branch] = event
            ran = tools.pop(event.branch, 0)
            if before is not None and _goes_on(before, event, grown):
                added = event.prompt_tokens - _answered(before)
                is_assumed = not _goes_on(before, event, known)
                turns[event.call] = _Turn(turns[before.call].session, added, is_assumed, True, ran)
            else:
                turns[event.call] = _Turn(next(sessions), None, False, before is not None, ran)
    return turns


def _goes_on(before: Call, call: Call, forest: Forest) -> bool:
    """Say whether a prompt adds something to all of the prompt and answer before it."""
    return (
        before.domain == call.domain
        and call.prompt_tokens > _answered(before)
        and forest.common_prefix(before.call, call.call) >= before.stream_tokens
    )


def _answered(call: Call) -> int:
    """Return how many tokens prompt and answer have in a replay: a row asks for one token at least."""
    return call.prompt_tokens + max(1, call.completion_tokens)


def _rows(
    rows: Sequence[OutRow], members: Sequence[Member], turns: Sequence[dict[int, _Turn]], block_size: int
) -> Iterator[dict[str, Any]]:
    fresh = count(max((block for row in rows for block in row.block_ids), default=-1) + 1)
    gaps = [gaps_before(member.trace, on_branches=True) for member in members]
    for row in rows:
        turn = turns[row.member][row.call.call]
        fields: dict[str, Any] = {"session_id": f"{row.member}.{turn.session}", "is_delta": True}
        if turn.added is not None:
            fields["delay"] = as_number(gaps[row.member][row.call.call])
        elif row.at_ms is not None:
            fields["timestamp"] = as_number(row.at_ms)
        fields |= asked_fields(row)
        if turn.added is not None:
            fields["input_length"] = turn.added
            fields["hash_ids"] = [next(fresh) for _ in range(-(-turn.added // block_size))]
        yield fields


def _note(
    rows: Sequence[OutRow],
    members: Sequence[Member],
    turns: Sequence[dict[int, _Turn]],
    fidelity: Fidelity,
    *,
    block_size: int,
) -> None:
    placed = [(row, turns[row.member][row.call.call]) for row in rows]
    first = [row for row, turn in placed if turn.added is None]
    later = [(row, turn) for row, turn in placed if turn.added is not None]
    parted = [len({turn.session for turn in of.values()}) for of in turns]
    fidelity.note(LENGTHS, len(rows))
    note_empty(rows, fidelity)
    note_prefixes(first, fidelity, block_size=block_size)
    note_lost(rows, members, fidelity)
    fidelity.note(LATER, sum(not turn.is_assumed for _, turn in later))
    fidelity.note(ASSUMED, sum(turn.is_assumed for _, turn in later))
    fidelity.note(APART, _apart(placed))
    fidelity.note(NO_OUTPUTS, sum(map(_reaching_into_outputs, members, turns)))
    fidelity.note(SESSIONS, sum(sessions == 1 for sessions in parted))
    fidelity.note(PARTED, sum(sessions for sessions in parted if sessions > 1))
    fidelity.note(TIMES, sum(row.at_ms is not None for row in first))
    fidelity.note(FIRST_TIMES, sum(row.at_ms is not None for row, _ in later))
    anew = [turn for _, turn in placed if turn.added is None and turn.has_before]
    fidelity.note(DELAYS, len(later))
    fidelity.note(NO_DELAYS, len(anew))
    fidelity.note(TOOLS, sum(turn.tools for _, turn in later))
    fidelity.note(LOST_TOOLS, sum(turn.tools for _, turn in placed if turn.added is None))
    fidelity.note(NO_CALL_AFTER, sum(len(behind_last_calls(member.trace)) for member in members))


def _reaching_into_outputs(member: Member, turns: dict[int, _Turn]) -> int:
    """Count the prompts that begin a session with more of an earlier stream than its prompt."""
    prompts = {call.call: call.prompt_tokens for call in member.trace.calls()}
    first = (call.prefix for call in member.trace.calls() if turns[call.call].added is None)
    return sum(isinstance(prefix.of, int) and prefix.tokens > prompts[prefix.of] for prefix in first)


def _apart(placed: Sequence[tuple[OutRow, _Turn]]) -> int:
    """Count the prompts that begin a session with blocks that no first turn before them has, but a later one does."""
    of_first: set[int] = set()
    of_any: set[int] = set()
    apart = 0
    for row, turn in placed:
        if turn.added is None:
            apart += any(block in of_any and block not in of_first for block in row.block_ids)
            of_first.update(row.block_ids)
        of_any.update(row.block_ids)
    return apart
