"""Read agentic Mooncake version 2 (Dynamo 1.6): a header, then requests of plays with typed edges between them.

The edges become what rows of the older form say (`mooncake_rows.py`), and those become runs (`mooncake_agentic.py`):

1. A play is a run, and its sessions are the lines of it. What no edge leads to starts with the play.
2. A request was sent at its `not_before_ms`, if that is later than those of all its edges: files that were recorded have
   it so. Else it is as long after each of these was sent (`dispatch`) or answered (`completion`) as the edge says, where
   an answer takes its `recorded_api_time_ms`, no time where that is not said. Rows are put in the order of these times:
   the file has them in any.
3. The wait before a request is the delay of its edges. Where they differ it is the time since the last of the answers, or
   the shortest of the delays where not all of their times are known: that of the one which ended last.

Ids of blocks mean the same in all plays, as they do where Dynamo replays them, whatever the header calls their scope.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import get_args

from rotoscope.traces.corpus import Member
from rotoscope.traces.errors import TraceError
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.fields import Fields, Notes
from rotoscope.traces.formats.mooncake_agentic import DURATIONS, RUNS, TOOL_ENDS, TOOL_GAPS, TOOLS, agentic_members
from rotoscope.traces.formats.mooncake_agentic import READ_ASPECTS as RUN_ASPECTS
from rotoscope.traces.formats.mooncake_corpus import NO_PREFIXES, NO_START
from rotoscope.traces.formats.mooncake_edges import Edge, Relation, Step, Trigger, in_sending_order
from rotoscope.traces.formats.mooncake_rows import SourceRow, SourceRows, Workflow, block_ids_of, either
from rotoscope.traces.formats.source import Source

logger = logging.getLogger(__name__)

SCHEMA = "dynamo.agentic_mooncake"
VERSION = 2
SCOPE = "local"

PLAYS = Aspect("runs", "kept", "as plays", unit="runs")
RECORDED = Aspect("durations", "kept")
EARLIEST = Aspect(
    "arrival times",
    "approximated",
    "as early as what a request waits for allows, where it says no later time than that has",
)
DISPATCHED = Aspect("starts that wait for no answer", "approximated", "behind the answer", unit="edges")
UNEVEN = Aspect(
    "delays", "approximated", "one wait behind the last answer, where those of edges differ", unit="requests"
)
BARRIERS = Aspect("barriers of a replay", "approximated", "as joins where they can be, else lost", unit="edges")
_SAID_AS = {RUNS: PLAYS, DURATIONS: RECORDED}
_OF_OLDER_FORM = (TOOLS, TOOL_ENDS, TOOL_GAPS, NO_PREFIXES, NO_START)
READ_ASPECTS = (
    *(_SAID_AS.get(aspect, aspect) for aspect in RUN_ASPECTS if aspect not in _OF_OLDER_FORM),
    *(EARLIEST, DISPATCHED, UNEVEN, BARRIERS),
)

_HEADER_KEYS = ("schema", "version", "block_size", "hash_id_scope", "source")
_KEYS = frozenset(
    (
        *("request_id", "play_id", "source_play_ordinal", "session_id", "model", "dependencies", "hash_ids"),
        *("input_length", "input_tokens", "output_length", "output_tokens", "not_before_ms", "recorded_api_time_ms"),
    )
)
_LEFT_OUT = {
    "output_token_ids": "token ids (dropped)",
    **dict.fromkeys(("priority", "strict_priority", "policy_class"), "priority of a request (dropped)"),
}


def read_plays(source: Source, fidelity: Fidelity) -> list[Member]:
    """Read a file of version 2; raise TraceError where it is damaged, or is of another version."""
    try:
        file = _parse(source, fidelity)
        noted = Fidelity()
        members = agentic_members(file, noted)
    except TraceError as error:
        raise error.at(source.name) from error.__cause__
    for aspect, times in noted.counts.items():
        fidelity.note(_SAID_AS.get(aspect, aspect), times)
    file.notes.log(logger, source.name)
    return members


def _parse(source: Source, fidelity: Fidelity) -> SourceRows:
    notes = Notes()
    lines = source.lines()
    block_size = _block_size(islice(lines, 1), notes)
    steps = []
    for line, value in lines:
        fields = Fields.of(value, line=line)
        notes.left_out(fields, _LEFT_OUT, _KEYS)
        steps.append(_step(fields, line, block_size))
    if not steps:
        raise TraceError("expected requests after the header, found none")
    edges = [edge for step in steps for edge in step.edges]
    fidelity.note(DISPATCHED, sum(edge.trigger == "dispatch" for edge in edges))
    fidelity.note(UNEVEN, sum(len(_delays(step)) > 1 for step in steps))
    fidelity.note(BARRIERS, sum(edge.relation == "replay_barrier" for edge in edges))
    ordered = in_sending_order(steps)
    given = {step.row.line: step.row.at_ms or 0.0 for step in steps}
    fidelity.note(EARLIEST, sum((row.at_ms or 0.0) > given[row.line] for row in ordered))
    return SourceRows(ordered, block_size, notes)


def _delays(step: Step) -> set[float]:
    return {edge.delay_ms for edge in step.edges if edge.relation != "replay_barrier"}


def _block_size(lines: Iterable[tuple[int, object]], notes: Notes) -> int:
    """Return what the header says of blocks."""
    for line, value in lines:
        header = Fields.of(value, line=line)
        if (schema := header.text("schema")) != SCHEMA:
            raise header.error("schema", f"expected {SCHEMA!r}, found another one of {len(schema)} characters")
        version = header.count("version")
        if version != VERSION:
            raise header.error("version", f"expected {VERSION}, found {version}: a newer rotoscope may read it")
        if header.text("hash_id_scope") != SCOPE:
            raise header.error("hash_id_scope", f"expected {SCOPE!r}, found another one")
        provenance = header.inner("source")
        _name(provenance, "format")
        _name(provenance, "digest")
        notes.left_out(header, {}, _HEADER_KEYS)
        return header.count("block_size", least=1)
    raise TraceError("expected a header line, found an empty file")


def _step(fields: Fields, line: int, block_size: int) -> Step:
    play = _name(fields, "play_id")
    tokens = fields.count(either(fields, "input_length", "input_tokens"), least=1)
    fields.get("hash_ids")
    ids = block_ids_of(fields)
    if len(ids) != -(-tokens // block_size):
        raise fields.error(
            "hash_ids",
            f"expected {-(-tokens // block_size)}, as many blocks of {block_size} as {tokens} tokens have, "
            f"found {len(ids)}",
        )
    edges = tuple(_edges(fields))
    row = SourceRow(
        line=line,
        at_ms=fields.milliseconds("not_before_ms"),
        prompt_tokens=tokens,
        completion_tokens=fields.count(either(fields, "output_length", "output_tokens")),
        block_ids=ids,
        model=_name(fields, "model"),
        session=f"{len(play)}.{play}.{_name(fields, 'session_id')}",
        delay_ms=None,
        workflow=Workflow(
            request_id=_name(fields, "request_id"),
            wait_for=tuple(edge.request_id for edge in edges),
            play=play,
            duration_ms=fields.optional_milliseconds("recorded_api_time_ms"),
        ),
        is_whole=True,
    )
    return Step(row, edges, fields.count_or("source_play_ordinal", 0))


def _name(fields: Fields, name: str) -> str:
    if not (text := fields.text(name)):
        raise fields.error(name, "expected a name, found an empty string")
    return text


def _edges(fields: Fields) -> Iterator[Edge]:
    for index, value in enumerate(fields.items("dependencies") if "dependencies" in fields else ()):
        edge = Fields.of(value, place=f"dependencies[{index}]", line=fields.line)
        yield Edge(
            request_id=edge.text("request_id"),
            trigger=_one_of(edge, "trigger", get_args(Trigger)),
            delay_ms=edge.milliseconds("delay_ms"),
            relation=_one_of(edge, "relation", get_args(Relation)),
        )


def _one_of(fields: Fields, name: str, known: tuple[str, ...]) -> str:
    if (text := fields.text(name)) not in known:
        raise fields.error(name, f"expected one of {', '.join(known)}, found another one")
    return text
