"""The events of an agent run whose calls and tools have times: branches, joins, and what the client did in between.

Foreign files give lines of calls, one a session or sub-agent, and the lines that each of them started; where those
forked and joined is read off their times.

1. A call that was sent before the one in front of it on its line had been answered is on a lane of its own beside it.
2. A line starts behind the last call of its parent that was sent before it (a lane: that had ended before it), and joins
   before the parent's first call that was sent after everything on it had ended; if there is none it never joins. Lines
   that start and join at the same calls are the branches of one region.
3. A tool stands where it ended: the next call of its line waits for it. A tool during which a line that its answer
   started ran from beginning to end is how the agent waits for that line: the region stands for it, and only what is
   left of the tool behind the join is its own time. A tool that began when such a line had ended comes after the join.
4. What remains between an answer, the tools, the joins and the next call is a wait, or the time of tools that the
   answer asked for and nobody timed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from math import inf
from typing import TypedDict

from rotoscope.traces.errors import TraceError
from rotoscope.traces.formats.agent_lines import Lanes, Line, Span, Turn, all_lines, set_extent
from rotoscope.traces.model import (
    Branch,
    ParallelEnd,
    ParallelStart,
    TimeSource,
    ToolCall,
    ToolName,
    TraceEvent,
    Wait,
    WaitKind,
)

DEEPEST_LINE = 64
"""No agent nests so deep; what does is damage."""


@dataclass(slots=True)
class Timeline:
    """Writes the events of one run, and counts what it had to infer."""

    root: Line
    start_ms: float = 0.0
    """When the first call was sent."""
    forks: int = 0
    """Lines that others started; where each forked and joined was read off its times."""
    overlapping: int = 0
    """Calls that are on lines of their own, since they were sent before the one in front of them had been answered."""
    agent_tools: int = 0
    """Tools that a region stands for."""
    untimed_tools: int = 0
    """Tools that have the time of a gap."""
    timed: list[tuple[float, TraceEvent]] = field(default_factory=list)
    regions: Iterator[int] = field(default_factory=count)
    conversations: Iterator[int] = field(default_factory=count)

    def events(self) -> tuple[TraceEvent, ...]:
        """Return the events in the order of their times; raise TraceError where lines are nested too deeply."""
        root = self._in_lanes(self.root, 0)
        starts = [turn.start_ms for line in all_lines(root) for turn in line.turns]
        self.start_ms = min(starts, default=0.0)
        _LineWriter(self, root, None, (), self.start_ms, self.start_ms).write()
        numbers = count()
        return tuple(
            replace(event, tool_call_id=f"t{next(numbers)}") if isinstance(event, ToolCall) else event
            for _, event in sorted(self.timed, key=lambda item: item[0])
        )

    def _in_lanes(self, line: Line, depth: int) -> Line:
        """Return a line with calls that overlap on lines beside it, and when it and all that it started was."""
        if depth > DEEPEST_LINE:
            raise TraceError(f"expected sessions nested at most {DEEPEST_LINE} deep, found more")
        inner = [self._in_lanes(one, depth + 1) for one in line.lines]
        self.forks += len(inner)
        lanes = Lanes(Line(is_joined=line.is_joined))
        for turn in line.turns:
            lanes.add(turn)
        of_calls = {turn.call.call: lane for turn, lane in zip(line.turns, lanes.of_turns, strict=True)}
        for span in line.spans:
            of_calls.get(-1 if span.call is None else span.call, lanes.first).spans.append(span)
        starts = [turn.start_ms for turn in line.turns]
        for one in inner:
            place = bisect_right(starts, one.start_ms)
            (lanes.of_turns[place - 1] if place else lanes.first).lines.append(one)
        for other in lanes.others:
            set_extent(other)
            self.overlapping += len(other.turns)
        lanes.first.lines += lanes.others
        set_extent(lanes.first)
        return lanes.first

    def since_start(self, at_ms: float) -> float:
        """Return a time of the run, rounded to microseconds."""
        return max(round(float(at_ms - self.start_ms), 3), 0.0)


@dataclass(slots=True)
class _Group:
    """The lines of a region."""

    number: int
    join: int | None
    """Index of the call that waits for them."""
    lines: list[Line] = field(default_factory=list)

    @property
    def start_ms(self) -> float:
        return min(line.start_ms for line in self.lines)

    @property
    def end_ms(self) -> float:
        return max(line.end_ms for line in self.lines)


class _Place(TypedDict):
    branch: Branch | None
    branch_path: tuple[int, ...]


@dataclass(slots=True)
class _LineWriter:
    """Writes a line and those that it started."""

    timeline: Timeline
    line: Line
    branch: Branch | None
    path: tuple[int, ...]
    now_ms: float
    """Of the event that was written last: times follow the order of the branch."""
    accounted_ms: float
    """Until when the time of the branch is accounted for."""
    groups: dict[int, list[_Group]] = field(default_factory=dict)
    """By the index of the call they start behind, -1 where there is none."""
    joins: dict[int, list[_Group]] = field(default_factory=lambda: defaultdict(list))
    """By the index of the call they join before."""

    def write(self) -> None:
        conversation = next(self.timeline.conversations)
        self._group_lines()
        spans, later_spans = self._sorted_spans()
        for index, turn in enumerate(self.line.turns):
            self._write_between(index - 1, _take_ended(spans, turn.start_ms), until_ms=turn.start_ms)
            self._join(index, turn)
            for span in _take_ended(later_spans, turn.start_ms):
                self._write_rest(span)
            self._write_gap(index, turn)
            self._write_call(turn, conversation, index)
        self._write_between(len(self.line.turns) - 1, spans, until_ms=inf)

    def _group_lines(self) -> None:
        starts = [turn.start_ms for turn in self.line.turns]
        ends = [turn.end_ms for turn in self.line.turns]
        found: dict[tuple[int, int | None], _Group] = {}
        for line in sorted(self.line.lines, key=lambda line: line.start_ms):
            spawn = bisect_right(ends if line.is_lane else starts, line.start_ms) - 1
            join: int | None = max(bisect_left(starts, line.end_ms), spawn + 1)
            if join == len(starts) or not line.is_joined:
                join = None
            group = found.setdefault((spawn, join), _Group(-1, join))
            group.lines.append(line)
        for (spawn, join), group in found.items():
            self.groups.setdefault(spawn, []).append(group)
            if join is not None:
                self.joins[join].append(group)

    def _sorted_spans(self) -> tuple[list[Span], list[Span]]:
        """Return the tools, the last to end first, and apart from them those that come after joins."""
        places = {turn.call.call: index for index, turn in enumerate(self.line.turns)}
        spans: list[Span] = []
        later_spans: list[Span] = []
        for span in sorted(self.line.spans, key=lambda span: span.end_ms, reverse=True):
            groups = [] if span.call is None else self.groups.get(places[span.call], [])
            joined = [group for group in groups if group.join is not None]
            is_agent = any(_covers(span, line) for group in joined for line in group.lines)
            is_later = is_agent or any(group.end_ms <= span.start_ms for group in joined)
            (later_spans if is_later else spans).append(span)
            self.timeline.agent_tools += is_agent
        return spans, later_spans

    def _write_between(self, spawn: int, spans: list[Span], *, until_ms: float) -> None:
        """Write the tools that ended and the regions that began between two calls, the later one sent at `until_ms`."""
        groups = self.groups.get(spawn, [])
        items: list[tuple[float, int, Span | _Group]] = [
            *((span.end_ms, 0, span) for span in spans),
            *((group.start_ms, 1, group) for group in groups),
        ]
        for _, _, item in sorted(items, key=lambda item: item[:2]):
            if isinstance(item, Span):
                self._write_tool(item.tool_name, item.start_ms, item.end_ms, item.call, item.time_source)
            else:
                self._fork(item, min(item.start_ms, until_ms))

    def _fork(self, group: _Group, at_ms: float) -> None:
        group.number = next(self.timeline.regions)
        self._add(at_ms, ParallelStart(region=group.number, num_branches=len(group.lines), **self._place()))
        for index, line in enumerate(group.lines):
            branch, path = (group.number, index), (*self.path, index)
            _LineWriter(self.timeline, line, branch, path, self.now_ms, self.accounted_ms).write()

    def _join(self, index: int, turn: Turn) -> None:
        for group in self.joins[index]:
            self._add(turn.start_ms, ParallelEnd(region=group.number, **self._place()))
            self.accounted_ms = max(self.accounted_ms, group.end_ms)

    def _write_rest(self, span: Span) -> None:
        """Write what is left of a tool behind the join of the lines that it waited for."""
        if span.end_ms <= self.accounted_ms:
            return
        if span.start_ms > self.accounted_ms:
            self._write_wait("think", span.start_ms)
        self._write_tool(span.tool_name, self.accounted_ms, span.end_ms, None, span.time_source)

    def _write_gap(self, index: int, turn: Turn) -> None:
        previous = self.line.turns[index - 1] if index else None
        if self.accounted_ms >= turn.start_ms:
            return
        if previous is not None and previous.untimed_tools and not self.joins[index] and not turn.is_for_person:
            start_ms = self.accounted_ms
            for name in previous.untimed_tools:
                self._write_tool(name, start_ms, turn.start_ms, previous.call.call, "gap")
            self.timeline.untimed_tools += len(previous.untimed_tools)
        elif index == 0 and self.branch is not None and not self.line.is_lane:
            self._write_wait("agent", turn.start_ms)
        else:
            self._write_wait("human" if turn.is_for_person and index else "think", turn.start_ms)

    def _write_wait(self, kind: WaitKind, until_ms: float) -> None:
        wait = Wait(
            kind=kind,
            duration_ms=round(until_ms - self.accounted_ms, 3),
            at_ms=self.timeline.since_start(self.accounted_ms),
            **self._place(),
        )
        self._add(until_ms, wait)
        self.accounted_ms = until_ms

    def _write_tool(
        self, name: ToolName, start_ms: float, end_ms: float, call: int | None, time_source: TimeSource
    ) -> None:
        self._add(
            end_ms,
            ToolCall(
                tool_call_id="t0",  # numbered when all are in order
                tool_name=name,
                duration_ms=round(end_ms - start_ms, 3),
                call=call,
                at_ms=self.timeline.since_start(start_ms),
                time_source=time_source,
                **self._place(),
            ),
        )
        self.accounted_ms = max(self.accounted_ms, end_ms)

    def _write_call(self, turn: Turn, conversation: int, index: int) -> None:
        call = replace(
            turn.call,
            conversation_id=conversation,
            message_index=2 * index + 1,
            at_ms=self.timeline.since_start(turn.start_ms),
            **self._place(),
        )
        self._add(turn.start_ms, call)
        self.accounted_ms = max(self.accounted_ms, turn.end_ms)

    def _add(self, at_ms: float, event: TraceEvent) -> None:
        self.now_ms = max(self.now_ms, at_ms)
        self.timeline.timed.append((self.now_ms, event))

    def _place(self) -> _Place:
        return {"branch": self.branch, "branch_path": self.path}


def _take_ended(spans: list[Span], until_ms: float) -> list[Span]:
    """Take the tools that ended by then from the end of the list."""
    taken = []
    while spans and spans[-1].end_ms <= until_ms:
        taken.append(spans.pop())
    return taken


def _covers(span: Span, line: Line) -> bool:
    return span.start_ms <= line.start_ms and line.end_ms <= span.end_ms
