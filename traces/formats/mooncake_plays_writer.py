"""Write traces as agentic Mooncake version 2, which Dynamo 1.6 replays: a header, then a row a call.

A trace is a play, its root and each of its branches are sessions, as in the older form (`mooncake_agentic_writer.py`). A
call has an edge to each of those it waits for, with the time that lies between the answer and it: tools are part of that.
Models are the cache domains, under dense numbers; so are all other names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.fields import derived_id, writable_ms
from rotoscope.traces.formats.mooncake_agentic_writer import (
    BRANCHES,
    FIRST_WAITS,
    FROM_START,
    MEANWHILE,
    RUNS,
    TOOLS,
    UNTIMED_TOOLS,
    WAITS,
    Link,
    Walk,
    session_of,
)
from rotoscope.traces.formats.mooncake_edges import Relation, Trigger
from rotoscope.traces.formats.mooncake_plays import SCHEMA, SCOPE, VERSION
from rotoscope.traces.formats.mooncake_writer import (
    ALWAYS_LOST,
    CUT,
    DOMAINS,
    LENGTHS,
    NO_CALL_AFTER,
    SPEED,
    STARTS,
    TIMES,
    WHOLE,
    OutRow,
    as_number,
    note_rows,
    out_rows,
    request_fields,
    row_line,
)
from rotoscope.traces.model import Call

PLAYS = Aspect("runs", "kept", "as plays", unit="traces")
EDGES = Aspect("branches and joins", "kept", "as sessions and edges", unit="regions")
STARTS_OF_PLAYS = Aspect(
    "branches from the start of a trace", "kept", "as sessions that wait for nothing", unit="branches"
)
DELAYS = Aspect("waits", "kept", "as delays of edges", unit="waits")
TOOL_DELAYS = Aspect("tools", "approximated", "as delays of edges, which do not say that they are tools", unit="tools")
MODELS = Aspect("cache domains", "kept", "as models")
DURATIONS = Aspect("durations", "kept")
FIRST_TOKENS = Aspect("times to the first token", "lost")
LATER_STARTS = Aspect("waits", "approximated", "before the first request of a run or branch: it starts later", "waits")
NO_TIMES = Aspect("arrival times", "approximated", "not before the trace starts: what they wait for says the rest")
_SAID_AS = {
    RUNS: PLAYS,
    BRANCHES: EDGES,
    FROM_START: STARTS_OF_PLAYS,
    WAITS: DELAYS,
    FIRST_WAITS: LATER_STARTS,
    TOOLS: TOOL_DELAYS,
    UNTIMED_TOOLS: TOOL_DELAYS,
    DOMAINS: MODELS,
}
WRITE_ASPECTS = (
    *(LENGTHS, WHOLE, CUT, TIMES, NO_TIMES, STARTS, PLAYS, EDGES, STARTS_OF_PLAYS, MODELS, DURATIONS, DELAYS),
    *(LATER_STARTS, TOOL_DELAYS, MEANWHILE, NO_CALL_AFTER, FIRST_TOKENS),
    *(aspect for aspect in ALWAYS_LOST if aspect not in (DOMAINS, SPEED)),
)


def write_plays(members: Sequence[Member], fidelity: Fidelity, *, block_size: int) -> Iterator[bytes]:
    """Yield the lines of a file of version 2; raise UnusableInput where a time is too long to be written."""
    rows = out_rows(members, block_size)
    names = {(row.member, row.call.call): f"r{number}" for number, row in enumerate(rows)}
    noted = Fidelity()
    note_rows(rows, members, noted, block_size=block_size)
    links = [Walk(noted).of(member.trace) for member in members]
    noted.note(RUNS, len(members))
    _note(noted, rows, fidelity)
    ordinals: dict[int, int] = {}
    calls = {(row.member, row.call.call): row.call for row in rows}
    lines = []
    for row in rows:
        link = links[row.member][row.call.call]
        place = {"source_play_ordinal": ordinals.setdefault(row.member, len(ordinals))}
        fields = _request(row, members[row.member], link)
        waited = [(row.member, call) for call in link.waits]
        edges = [_edge(row.call, link, calls[key], names[key]) for key in waited]
        lines.append({"request_id": names[row.member, row.call.call], **place, **fields, "dependencies": edges})
    return map(row_line, (_header(members, block_size), *lines))


def _note(noted: Fidelity, rows: Sequence[OutRow], fidelity: Fidelity) -> None:
    """Note what the older form keeps and loses as this one does."""
    for aspect, times in noted.counts.items():
        if aspect != SPEED:
            fidelity.note(_SAID_AS.get(aspect, aspect), times)
    timed = sum(row.at_ms is not None for row in rows)
    fidelity.note(TIMES, timed)
    fidelity.note(NO_TIMES, len(rows) - timed)
    fidelity.note(DURATIONS, sum(row.call.duration_ms is not None for row in rows))
    fidelity.note(FIRST_TOKENS, sum(row.call.ttft_ms is not None for row in rows))


def _header(members: Sequence[Member], block_size: int) -> dict[str, Any]:
    digest = derived_id(SCHEMA, *(member.trace.trace_id for member in members))
    source = {"format": "rotoscope", "digest": digest}
    return {
        "schema": SCHEMA,
        "version": VERSION,
        "block_size": block_size,
        "hash_id_scope": SCOPE,
        "source": source,
    }


def _request(row: OutRow, member: Member, link: Link) -> dict[str, Any]:
    at_ms = row.at_ms
    if at_ms is None:
        at_ms = (member.start_ms or 0.0) + (0.0 if link.waits else _gap_ms(link))
    fields = {
        "play_id": str(row.member),
        "session_id": session_of(row),
        "model": f"model{row.call.domain}",
        **request_fields(row),
        "not_before_ms": as_number(writable_ms(at_ms)),
    }
    if row.call.duration_ms is not None:
        fields["recorded_api_time_ms"] = as_number(writable_ms(row.call.duration_ms))
    return fields


def _edge(call: Call, link: Link, waited: Call, name: str) -> dict[str, Any]:
    """Return the edge from a call that another one waits for."""
    starts = link.is_first and call.branch is not None
    relation: Relation = "sequence" if waited.branch == call.branch else "spawn" if starts else "join"
    lead_ms = _sent_before_answer(call, waited) if relation == "spawn" else None
    trigger: Trigger = "completion" if lead_ms is None else "dispatch"
    delay_ms = as_number(writable_ms(_gap_ms(link) if lead_ms is None else lead_ms))
    return {"request_id": name, "trigger": trigger, "delay_ms": delay_ms, "relation": relation}


def _sent_before_answer(call: Call, waited: Call) -> float | None:
    """Return how long after another call it was sent where that had not been answered yet, None where it had."""
    if call.at_ms is None or waited.at_ms is None or waited.duration_ms is None:
        return None
    later_ms = max(round(call.at_ms - waited.at_ms, 3), 0.0)
    return later_ms if later_ms < waited.duration_ms else None


def _gap_ms(link: Link) -> float:
    """Return the time between what a call waits for and the call."""
    return round(link.waits_ms + link.tools_ms, 3)
