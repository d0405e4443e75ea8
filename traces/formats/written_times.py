"""When the calls and tools of a corpus were, for formats that must say it: recorded, or as early as what is before allows.

Times are in milliseconds on one clock that starts at 0. Where the corpus has no clock, all its traces start together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from rotoscope.traces.corpus import Member
from rotoscope.traces.model import Branch, Call, ParallelEnd, ParallelStart, ToolCall, Trace, Wait

Extent: TypeAlias = tuple[float, float]
"""Start and end."""


@dataclass(slots=True)
class WrittenTimes:
    """The times of one trace."""

    calls: dict[int, Extent] = field(default_factory=dict)
    tools: dict[str, Extent] = field(default_factory=dict)
    assumed: int = 0
    """Calls whose start or duration the trace does not say."""

    def moved(self, by_ms: float) -> WrittenTimes:
        """Return the same times that much later."""
        calls = {number: (start + by_ms, end + by_ms) for number, (start, end) in self.calls.items()}
        tools = {number: (start + by_ms, end + by_ms) for number, (start, end) in self.tools.items()}
        return WrittenTimes(calls, tools, self.assumed)


def has_clock(members: Sequence[Member]) -> bool:
    """Say whether it is known when each trace of a corpus began."""
    return all(member.start_ms is not None for member in members)


def written_times(members: Sequence[Member]) -> list[WrittenTimes]:
    """Return the times of each trace of a corpus."""
    clock = has_clock(members)
    return [times_of(member.trace).moved((member.start_ms or 0.0) if clock else 0.0) for member in members]


def times_of(trace: Trace) -> WrittenTimes:
    """Return the times of a trace from its own start."""
    times = WrittenTimes()
    until = _Until()
    for event in trace.events:
        branch = event.branch
        match event:
            case Call():
                start_ms = until.of(branch) if event.at_ms is None else event.at_ms
                times.calls[event.call] = start_ms, start_ms + (event.duration_ms or 0.0)
                times.assumed += event.at_ms is None or event.duration_ms is None
                until.raise_to(branch, times.calls[event.call][1])
            case ToolCall():
                start_ms = until.of(branch) if event.at_ms is None else event.at_ms
                times.tools[event.tool_call_id] = start_ms, start_ms + event.duration_ms
                until.raise_to(branch, start_ms + event.duration_ms)
            case Wait():
                start_ms = until.of(branch) if event.at_ms is None else event.at_ms
                until.raise_to(branch, start_ms + event.duration_ms)
            case ParallelStart():
                until.fork(branch, event)
            case ParallelEnd():
                until.raise_to(branch, until.end_of(event.region))
            case _:
                pass
    return times


def behind_last_calls(trace: Trace) -> list[ToolCall | Wait]:
    """Return the tools and waits that no call of their branch follows: formats of gaps between calls lose them."""
    since_call: dict[Branch | None, list[ToolCall | Wait]] = {}
    for event in trace.events:
        if isinstance(event, ToolCall | Wait):
            since_call.setdefault(event.branch, []).append(event)
        elif isinstance(event, Call):
            since_call.pop(event.branch, None)
    return [event for events in since_call.values() for event in events]


@dataclass(slots=True)
class _Until:
    """Until when each branch has come."""

    branches: dict[Branch | None, float] = field(default_factory=lambda: {None: 0.0})
    started: dict[int, tuple[float, int]] = field(default_factory=dict)
    """By region: when it forked, and how many branches it has."""
    regions: dict[Branch | None, list[int]] = field(default_factory=dict)
    """By branch: the regions that it started."""

    def of(self, branch: Branch | None) -> float:
        if branch not in self.branches:
            assert branch is not None
            self.branches[branch] = self.started[branch[0]][0]
        return self.branches[branch]

    def raise_to(self, branch: Branch | None, at_ms: float) -> None:
        self.branches[branch] = max(self.of(branch), at_ms)

    def fork(self, branch: Branch | None, fork: ParallelStart) -> None:
        self.started[fork.region] = self.of(branch), fork.num_branches
        self.regions.setdefault(branch, []).append(fork.region)

    def end_of(self, region: int) -> float:
        """Return when the last branch of a region ends, or of those that they started."""
        waiting, end_ms = [region], 0.0
        while waiting:
            started_ms, children = self.started[number := waiting.pop()]
            end_ms = max(end_ms, started_ms)
            for child in ((number, index) for index in range(children)):
                end_ms = max(end_ms, self.branches.get(child, 0.0))
                waiting += self.regions.get(child, ())
        return end_ms
