"""Write traces as Mooncake JSONL: a row a call, block ids of one scope for all traces, in the order of the corpus.

Every row has its time; which calls belong to one session the rows do not say. The dialects that do are written by
`mooncake_sessions_writer.py` and `mooncake_agentic_writer.py`, from the same rows.

Where all traces have a place in one order, rows stand in it; else they are in the order of their times, or one trace
after the other where times are missing. Traces without a common clock start together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from rotoscope.traces.corpus import Member, calls_in_order
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.formats.block_ids import block_ids, reaching_into_outputs
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.model import Call, DropKvCache, Embedding, Message, ToolCall, Trace, Wait

LENGTHS = Aspect("prompt and output lengths", "kept")
EMPTY = Aspect("answers without a token", "approximated", "as of one: AIPerf refuses rows that ask for none")
WHOLE = Aspect("common prefixes", "kept", "as block ids")
CUT = Aspect("common prefixes", "approximated", "cut to whole blocks")
BOUNDS = Aspect("how sure common prefixes are", "lost")
TIMES = Aspect("arrival times and order", "kept")
STARTS = Aspect("arrival times", "approximated", "without a common clock all traces start together", unit="traces")
NO_SESSIONS = Aspect("sessions", "lost", "rows do not say which of them belong together", unit="sessions")
NO_GAPS = Aspect("tools and waits", "lost", "only arrival times are written", unit="events")
BRANCHES = Aspect("branches", "lost", "arrival times remain")
REASONING = Aspect("which output is reasoning", "lost")
SPEED = Aspect("durations and times to the first token", "lost")
CACHED = Aspect("cached tokens that servers reported", "lost")
SYSTEM = Aspect("which shared prefixes are system prompts", "lost", unit="traces")
OTHERS = Aspect("messages, embeddings and dropped caches", "lost", unit="events")

NO_CALL_AFTER = Aspect("tools and waits", "lost", "no call of their branch follows", unit="events")
OUTPUTS = Aspect("reuse of outputs", "lost", "block ids are of prompts alone")
DOMAINS = Aspect("cache domains", "lost", "they only have no block ids in common")

ALWAYS_LOST = (BOUNDS, OUTPUTS, DOMAINS, REASONING, SPEED, CACHED, SYSTEM, OTHERS)
WRITE_ASPECTS = (LENGTHS, EMPTY, WHOLE, CUT, TIMES, STARTS, NO_SESSIONS, NO_GAPS, BRANCHES, *ALWAYS_LOST)


@dataclass(frozen=True, slots=True)
class OutRow:
    """A call that becomes a row."""

    member: int
    """Index of its trace."""
    call: Call
    block_ids: tuple[int, ...]
    at_ms: float | None
    """On the clock of the corpus."""


def write_mooncake(members: Sequence[Member], fidelity: Fidelity, *, block_size: int) -> Iterator[bytes]:
    """Yield the rows of a Mooncake file; raise UnusableInput where a call has no time."""
    rows = out_rows(members, block_size)
    for row in rows:
        if row.at_ms is None:
            raise UnusableInput(
                f"trace {members[row.member].name!r}: call {row.call.call} has no time: write mooncake-sessions, whose "
                "rows have delays instead"
            )
    note_rows(rows, members, fidelity, block_size=block_size)
    traces = [member.trace for member in members]
    fidelity.note(TIMES, len(rows))
    fidelity.note(NO_SESSIONS, sum(1 for trace in traces if sum(1 for _ in trace.calls()) > 1))
    fidelity.note(NO_GAPS, sum(isinstance(event, ToolCall | Wait) for trace in traces for event in trace.events))
    fidelity.note(BRANCHES, sum(row.call.branch is not None for row in rows))
    note_empty(rows, fidelity)
    return (row_line({"timestamp": as_number(row.at_ms or 0.0), **asked_fields(row)}) for row in rows)


def out_rows(members: Sequence[Member], block_size: int) -> list[OutRow]:
    """Return the rows of all calls in their order, with one id for each block, the partial last one included."""
    ids = block_ids(members, block_size, with_partial=True)
    places = [{call.call: place for place, call in enumerate(member.trace.calls())} for member in members]
    starts = [0.0 if member.start_ms is None else member.start_ms for member in members]
    rows = []
    for index, call in calls_in_order(members):
        at_ms = None if call.at_ms is None else round(starts[index] + call.at_ms, 3)
        rows.append(OutRow(index, call, ids[index][places[index][call.call]], at_ms))
    if any(member.ranks is None for member in members) and all(row.at_ms is not None for row in rows):
        rows.sort(key=lambda row: row.at_ms or 0.0)
    return rows


def request_fields(row: OutRow) -> dict[str, Any]:
    """Return what every dialect says of a request."""
    return {
        "input_length": row.call.prompt_tokens,
        "output_length": row.call.completion_tokens,
        "hash_ids": row.block_ids,
    }


def asked_fields(row: OutRow) -> dict[str, Any]:
    """Return the same, but that at least one token is asked for."""
    return {**request_fields(row), "output_length": max(1, row.call.completion_tokens)}


def note_empty(rows: Sequence[OutRow], fidelity: Fidelity) -> None:
    """Note the answers that get a token by `asked_fields`."""
    fidelity.note(EMPTY, sum(not row.call.completion_tokens for row in rows))


def as_number(milliseconds: float) -> float | int:
    """Return a whole number of milliseconds as an integer, as files of the field have it."""
    return int(milliseconds) if milliseconds == int(milliseconds) else milliseconds


def note_rows(rows: Sequence[OutRow], members: Sequence[Member], fidelity: Fidelity, *, block_size: int) -> None:
    """Note what the dialects of whole prompts keep and lose."""
    fidelity.note(LENGTHS, len(rows))
    note_prefixes(rows, fidelity, block_size=block_size)
    fidelity.note(OUTPUTS, sum(reaching_into_outputs(member.trace) for member in members))
    note_lost(rows, members, fidelity)


def note_prefixes(rows: Sequence[OutRow], fidelity: Fidelity, *, block_size: int) -> None:
    """Note which prefixes are kept as block ids."""
    cut = _cut(rows, block_size)
    fidelity.note(WHOLE, len(rows) - cut)
    fidelity.note(CUT, cut)


def note_lost(rows: Sequence[OutRow], members: Sequence[Member], fidelity: Fidelity) -> None:
    """Note what every dialect loses, whatever its rows say of prompts."""
    calls = [row.call for row in rows]
    traces = [member.trace for member in members]
    fidelity.note(STARTS, sum(member.start_ms is None for member in members) if len(members) > 1 else 0)
    fidelity.note(DOMAINS, sum(calls for calls, domains in map(_calls_and_domains, traces) if domains > 1))
    fidelity.note(BOUNDS, sum(call.prefix.least != call.prefix.greatest for call in calls))
    fidelity.note(REASONING, sum(call.reasoning_tokens > 0 or call.reasoning_unsized for call in calls))
    fidelity.note(SPEED, sum(call.duration_ms is not None or call.ttft_ms is not None for call in calls))
    fidelity.note(CACHED, sum(call.cached_tokens is not None for call in calls))
    fidelity.note(SYSTEM, sum(any(s.kind == "system" for s in trace.shared_prefixes) for trace in traces))
    others = (Message, Embedding, DropKvCache)
    fidelity.note(OTHERS, sum(isinstance(event, others) for trace in traces for event in trace.events))


def _calls_and_domains(trace: Trace) -> tuple[int, int]:
    domains = [call.domain for call in trace.calls()]
    return len(domains), len(set(domains))


def _cut(rows: Sequence[OutRow], block_size: int) -> int:
    """Count the prefixes that end within a block, but for prompts that are the same as a whole."""
    ends: set[int] = set()
    cut = 0
    for row in rows:
        ends_inside = row.call.prefix.tokens % block_size != 0
        cut += ends_inside and (row.call.prefix.tokens < row.call.prompt_tokens or row.block_ids[-1] not in ends)
        ends.update(row.block_ids[-1:])
    return cut


def row_line(row: dict[str, Any]) -> bytes:
    """Return the line of a row."""
    return orjson.dumps(row) + b"\n"
