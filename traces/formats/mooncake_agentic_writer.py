"""Write traces as agentic Mooncake (Dynamo): a row a call, with the requests it waits for and its tools.

The root of a trace and each of its branches is a `session_id` of its own. A call waits for the calls before it on its
branch, at a fork for those before the fork, after a join for the last ones of the children too. `delay` and
`tool_wait_ms` are what lies between the last of them and the call: tools that have times count as long as any of them
runs. A tool's span needs a time since 1970: it is told on the clock of the corpus, so only the places of tools among each
other mean something. Ids are dense numbers, tools keep their pseudonyms.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.mooncake_writer import (
    ALWAYS_LOST,
    CUT,
    LENGTHS,
    NO_CALL_AFTER,
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
from rotoscope.traces.model import Branch, Call, ParallelEnd, ParallelStart, ToolCall, Trace, TraceEvent, Wait

RUNS = Aspect("runs", "kept", "as requests that wait for one another", unit="traces")
BRANCHES = Aspect("branches and joins", "kept", "as sessions and wait_for", unit="regions")
WAITS = Aspect("waits", "kept", "as delays", unit="waits")
FIRST_WAITS = Aspect(
    "waits", "lost", "before the first request of a run or branch there is nothing they could follow", "waits"
)
TOOLS = Aspect("tools", "kept", "as spans and waits", unit="tools")
UNTIMED_TOOLS = Aspect(
    "tools", "approximated", "as waits, one after another; without a time there is no span", unit="tools"
)
FROM_START = Aspect(
    "branches from the start of a trace that never join", "approximated", "as runs of their own", unit="branches"
)
MEANWHILE = Aspect("tools and waits", "lost", "they lie beside branches that join before the next call", unit="events")
WRITE_ASPECTS = (
    *(
        LENGTHS,
        WHOLE,
        CUT,
        TIMES,
        STARTS,
        RUNS,
        BRANCHES,
        WAITS,
        TOOLS,
        UNTIMED_TOOLS,
        FROM_START,
        FIRST_WAITS,
        MEANWHILE,
        NO_CALL_AFTER,
    ),
    *ALWAYS_LOST,
)


def write_mooncake_agentic(members: Sequence[Member], fidelity: Fidelity, *, block_size: int) -> Iterator[bytes]:
    """Yield the rows of an agentic Mooncake file."""
    rows = out_rows(members, block_size)
    note_rows(rows, members, fidelity, block_size=block_size)
    fidelity.note(TIMES, sum(row.at_ms is not None for row in rows))
    fidelity.note(RUNS, len(members))
    names = {(row.member, row.call.call): f"r{number}" for number, row in enumerate(rows)}
    links = [Walk(fidelity).of(member.trace) for member in members]
    return (_line(row, members[row.member], links[row.member], names) for row in rows)


@dataclass(slots=True)
class Link:
    """What a call follows."""

    waits: list[int] = field(default_factory=list)
    """Calls that must have ended."""
    gap: list[ToolCall | Wait] = field(default_factory=list)
    is_first: bool = False
    """On its branch."""
    children: list[int] = field(default_factory=list)
    """The first calls of branches that start after it."""

    @property
    def tools(self) -> list[ToolCall]:
        """The tools between what it follows and it."""
        return [event for event in self.gap if isinstance(event, ToolCall)]

    @property
    def waits_ms(self) -> float:
        """How long nothing ran in between."""
        return round(sum(event.duration_ms for event in self.gap if isinstance(event, Wait)), 3)

    @property
    def tools_ms(self) -> float:
        """How long any tool ran in between."""
        return round(_busy_ms(self.tools), 3)


@dataclass(slots=True)
class _Line:
    """How far a branch has come."""

    waits: list[int] = field(default_factory=list)
    gap: list[ToolCall | Wait] = field(default_factory=list)
    last: Call | None = None
    """Its last call, or that before the fork."""
    has_calls: bool = False
    has_joined: bool = False
    """Whether it waits for children that made calls."""
    from_start: bool = False
    """Whether it is a child that no call stands before."""


@dataclass(slots=True)
class Walk:
    """Follow the events of a trace and note what each call follows."""

    fidelity: Fidelity
    links: dict[int, Link] = field(default_factory=dict)
    """By call."""
    _lines: dict[Branch | None, _Line] = field(default_factory=lambda: {None: _Line()})
    _children: dict[int, list[Branch]] = field(default_factory=dict)

    def of(self, trace: Trace) -> dict[int, Link]:
        for event in trace.events:
            self._add(event)
        lines = self._lines.values()
        self.fidelity.note(NO_CALL_AFTER, sum(len(line.gap) for line in lines))
        self.fidelity.note(FROM_START, sum(line.from_start and line.has_calls for line in lines))
        return self.links

    def _add(self, event: TraceEvent) -> None:
        line = self._lines[event.branch]
        if isinstance(event, Call):
            self._call(event, line)
        elif isinstance(event, ToolCall | Wait):
            line.gap.append(event)
        elif isinstance(event, ParallelStart):
            self.fidelity.note(BRANCHES)
            self._children[event.region] = [(event.region, child) for child in range(event.num_branches)]
            for branch in self._children[event.region]:
                gap = _until_fork(line.gap)
                self._lines[branch] = _Line(list(line.waits), gap, line.last, from_start=not line.waits)
        elif isinstance(event, ParallelEnd):
            self._join([self._lines[branch] for branch in self._children[event.region]], line)

    def _call(self, call: Call, line: _Line) -> None:
        is_choice = line.has_calls and call.request is not None and line.last is not None
        if is_choice and line.last is not None and line.last.request == call.request and not line.gap:
            self.links[call.call] = Link(list(self.links[line.last.call].waits))
            line.waits.append(call.call)
            return
        self.links[call.call] = Link(line.waits, line.gap, not line.has_calls)
        if line.last is not None and not line.has_calls:
            self.links[line.last.call].children.append(call.call)
        self._note(line.gap, follows=bool(line.waits))
        line.waits, line.gap, line.last, line.has_calls = [call.call], [], call, True

    def _join(self, children: Iterable[_Line], line: _Line) -> None:
        """Wait for the children too; what the parent did meanwhile lies before the end of the last of them."""
        ended = [child for child in children if child.has_calls or child.has_joined]
        for child in ended:
            child.from_start = False
        line.waits = list(dict.fromkeys((*line.waits, *(call for child in ended for call in child.waits))))
        if ended:
            line.has_joined = True
            self.fidelity.note(MEANWHILE, len(line.gap))
            line.gap = []

    def _note(self, gap: Sequence[ToolCall | Wait], *, follows: bool) -> None:
        tools = [event for event in gap if isinstance(event, ToolCall)]
        timed = sum(tool.at_ms is not None for tool in tools)
        self.fidelity.note(WAITS if follows else FIRST_WAITS, len(gap) - len(tools))
        self.fidelity.note(TOOLS, timed)
        self.fidelity.note(UNTIMED_TOOLS, len(tools) - timed)


def _line(row: OutRow, member: Member, links: dict[int, Link], names: dict[tuple[int, int], str]) -> bytes:
    link = links[row.call.call]
    tools = link.tools
    fields: dict[str, Any] = {
        "request_id": names[row.member, row.call.call],
        "session_id": session_of(row),
        **request_fields(row),
        "wait_for": [names[row.member, call] for call in link.waits],
        "branches": [names[row.member, call] for call in link.children],
        "prefix_reset": link.is_first,
    }
    if row.at_ms is not None:
        fields["timestamp"] = as_number(row.at_ms)
    if link.waits:
        fields["delay"] = as_number(link.waits_ms)
    if tools:
        fields["tool_wait_ms"] = as_number(link.tools_ms)
        fields["tool_events"] = [_span(tool, member, str(row.member)) for tool in tools if tool.at_ms is not None]
    return row_line(fields)


def session_of(row: OutRow) -> str:
    """Return the id of the branch that a call is on."""
    return ".".join(map(str, (row.member, *(row.call.branch or ()))))


def _until_fork(gap: Sequence[ToolCall | Wait]) -> list[ToolCall | Wait]:
    """Return what the parent did before a fork as one wait of a child."""
    tools = [event for event in gap if isinstance(event, ToolCall)]
    slept_ms = _busy_ms(tools) + sum(event.duration_ms for event in gap if isinstance(event, Wait))
    return [Wait(kind="agent", duration_ms=slept_ms)] if slept_ms > 0 else []


def _busy_ms(tools: Sequence[ToolCall]) -> float:
    """Return how long any of the tools runs; those without a time run alone."""
    busy, end_ms = 0.0, 0.0
    timed = sorted((tool.at_ms, tool.duration_ms) for tool in tools if tool.at_ms is not None)
    for at_ms, duration_ms in timed:
        busy += max(at_ms + duration_ms - max(at_ms, end_ms), 0.0)
        end_ms = max(end_ms, at_ms + duration_ms)
    return busy + sum(tool.duration_ms for tool in tools if tool.at_ms is None)


def _span(tool: ToolCall, member: Member, session: str) -> dict[str, Any]:
    started_ms = round((member.start_ms or 0.0) + (tool.at_ms or 0.0))
    return {
        "tool_call_id": f"{session}.{tool.tool_call_id}",
        "tool_class": tool.tool_name,
        "started_at_unix_ms": started_ms,
        "ended_at_unix_ms": started_ms + round(tool.duration_ms),
        "duration_ms": tool.duration_ms,
        "status": "unknown",
    }
