"""Where the calls of a trace stand in a Weka file: on the parent's line or in a sub-agent, and when.

1. The root branch is the parent; every other branch with calls is a sub-agent, also those inside another one.
2. A call has its recorded time, or the earliest that what stands before it on its branch allows.
3. What the client did between two calls of a branch is one gap: the sum of its waits and tools, tools that overlap
   counted once. Where a region starts or joins in between, it is the time from the answer to the next request.
4. A region without any call is client time, such as tools that ran side by side.
5. A sub-agent is awaited where its region is joined and its end is not after the parent's next request.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.model import Branch, Call, ParallelEnd, ParallelStart, ToolCall, Trace, TraceEvent, Wait

MAX_BRANCHES = 100_000
"""No agent forks so wide; a greater number is damage."""


@dataclass(frozen=True, slots=True)
class PlacedCall:
    """A call and what the client did before it."""

    call: Call
    at_ms: float
    gap_ms: float | None
    """Since the answer before it; None for the first call of a line."""
    brings_result: bool
    """Whether a tool ran in the gap."""


@dataclass(slots=True)
class PlacedAgent:
    """A branch as a sub-agent."""

    branch: Branch
    start_ms: float
    end_ms: float
    is_nested: bool
    is_awaited: bool = False
    calls: list[PlacedCall] = field(default_factory=list)
    tools: int = 0

    @property
    def starts_at_ms(self) -> float:
        """When it started, or its first request where the recorded time of that is earlier."""
        return min([self.start_ms, *(placed.at_ms for placed in self.calls)])


Entry: TypeAlias = PlacedCall | PlacedAgent


@dataclass(frozen=True, slots=True)
class Layout:
    """A trace as it stands in a file."""

    entries: list[Entry]
    """In the order of the file."""
    assumed_times: int
    """Calls whose time is not recorded."""
    silent_branches: int
    """Branches without a call."""

    @property
    def agents(self) -> list[PlacedAgent]:
        return [entry for entry in self.entries if isinstance(entry, PlacedAgent)]

    @property
    def calls(self) -> list[PlacedCall]:
        """All calls in the order of the file."""
        return [
            placed for entry in self.entries for placed in (entry.calls if isinstance(entry, PlacedAgent) else [entry])
        ]


def lay_out(trace: Trace) -> Layout:
    """Return where everything stands."""
    calling = {event.branch for event in trace.events if isinstance(event, Call)}
    placing = _Placing(calling, _speaking(trace, calling))
    for event in trace.events:
        placing.add(event)
    return placing.layout()


def _speaking(trace: Trace, calling: set[Branch | None]) -> set[Branch | None]:
    """Return the branches that have a call, or one inside."""
    parents = {event.region: event.branch for event in trace.events if isinstance(event, ParallelStart)}
    speaking: set[Branch | None] = set()
    for branch in calling:
        while branch is not None and branch not in speaking:
            speaking.add(branch)
            branch = parents[branch[0]]
    return speaking


@dataclass(slots=True)
class _Line:
    """How far a branch has come."""

    now_ms: float
    has_call: bool = False
    answered_ms: float = 0.0
    gap_ms: float = 0.0
    """Waits and tools since the last call."""
    tools_until_ms: float = -inf
    ran_tool: bool = False
    is_split: bool = False
    """Whether a region started or joined since the last call."""


@dataclass(slots=True)
class _Region:
    branch: Branch | None
    start_ms: float
    num_branches: int
    is_joined: bool = False


@dataclass(slots=True)
class _Placing:
    calling: set[Branch | None]
    """Branches with a call of their own."""
    speaking: set[Branch | None]
    """Those and the ones around them."""
    lines: dict[Branch | None, _Line] = field(default_factory=lambda: {None: _Line(0.0)})
    regions: dict[int, _Region] = field(default_factory=dict)
    agents: dict[Branch, PlacedAgent] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    assumed_times: int = 0

    def add(self, event: TraceEvent) -> None:
        """Take the next event."""
        match event:
            case Call():
                self._call(event)
            case ToolCall():
                self._tool(event)
            case Wait():
                self._wait(event)
            case ParallelStart():
                self._fork(event)
            case ParallelEnd():
                self._join(event)
            case _:
                pass

    def layout(self) -> Layout:
        """Return where everything stands, when all events are added."""
        for branch, agent in self.agents.items():
            agent.end_ms = max(agent.end_ms, self._line(branch).now_ms)
        following_ms = inf
        for entry in reversed(self.entries):
            if isinstance(entry, PlacedCall):
                following_ms = entry.at_ms
            else:
                entry.is_awaited = self.regions[entry.branch[0]].is_joined and entry.end_ms <= following_ms
        branches = sum(region.num_branches for region in self.regions.values())
        return Layout(self.entries, self.assumed_times, branches - len(self.calling - {None}))

    def _line(self, branch: Branch | None) -> _Line:
        if branch not in self.lines:
            assert branch is not None
            self.lines[branch] = _Line(self.regions[branch[0]].start_ms)
        return self.lines[branch]

    def _call(self, call: Call) -> None:
        line = self._line(call.branch)
        at_ms = line.now_ms if call.at_ms is None else call.at_ms
        self.assumed_times += call.at_ms is None
        gap_ms = max(at_ms - line.answered_ms, 0.0) if line.is_split else line.gap_ms
        placed = PlacedCall(call, at_ms, gap_ms if line.has_call else None, line.ran_tool)
        if call.branch is None:
            self.entries.append(placed)
        else:
            self.agents[call.branch].calls.append(placed)
        answered_ms = at_ms + (call.duration_ms or 0.0)
        self.lines[call.branch] = _Line(max(line.now_ms, answered_ms), has_call=True, answered_ms=answered_ms)

    def _wait(self, wait: Wait) -> None:
        line = self._line(wait.branch)
        line.gap_ms += wait.duration_ms
        line.now_ms = _after(line, wait)
        agent = self.agents.get(wait.branch) if wait.branch is not None else None
        if wait.kind == "agent" and agent is not None and not (line.has_call or line.ran_tool):
            agent.start_ms = line.now_ms

    def _tool(self, tool: ToolCall) -> None:
        line = self._line(tool.branch)
        line.ran_tool = True
        if tool.at_ms is None:
            line.gap_ms += tool.duration_ms
        else:
            end_ms = tool.at_ms + tool.duration_ms
            line.gap_ms += max(end_ms - max(tool.at_ms, line.tools_until_ms), 0.0)
            line.tools_until_ms = max(line.tools_until_ms, end_ms)
        line.now_ms = _after(line, tool)
        if tool.branch is not None and tool.branch in self.agents:
            self.agents[tool.branch].tools += 1

    def _fork(self, fork: ParallelStart) -> None:
        if fork.num_branches > MAX_BRANCHES:
            raise UnusableInput(
                f"region {fork.region} has {fork.num_branches} branches, and at most {MAX_BRANCHES} can be written"
            )
        line = self._line(fork.branch)
        self.regions[fork.region] = _Region(fork.branch, line.now_ms, fork.num_branches)
        for index in range(fork.num_branches):
            branch = (fork.region, index)
            line.is_split |= branch in self.speaking
            if branch in self.calling:
                agent = PlacedAgent(branch, line.now_ms, line.now_ms, fork.branch is not None)
                self.agents[branch] = agent
                self.entries.append(agent)

    def _join(self, join: ParallelEnd) -> None:
        line, region = self._line(join.branch), self.regions[join.region]
        region.is_joined = True
        children = [(join.region, index) for index in range(region.num_branches)]
        end_ms = max(self.lines[child].now_ms if child in self.lines else region.start_ms for child in children)
        if self.speaking.isdisjoint(children):
            line.gap_ms += max(end_ms - max(region.start_ms, line.tools_until_ms), 0.0)
            line.tools_until_ms = max(line.tools_until_ms, end_ms)
            line.ran_tool |= any(self.lines[child].ran_tool for child in children if child in self.lines)
        else:
            line.is_split = True
        line.now_ms = max(line.now_ms, end_ms)


def _after(line: _Line, event: ToolCall | Wait) -> float:
    """Return how far a branch has come after a tool or a wait."""
    if event.at_ms is None:
        return line.now_ms + event.duration_ms
    return max(line.now_ms, event.at_ms + event.duration_ms)
