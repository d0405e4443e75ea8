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
    until: dict[Branch | None, float] = {None: 0.0}
    regions: dict[int, tuple[Branch | None, float]] = {}
    for event in trace.events:
        branch = event.branch
        if branch not in until:
            assert branch is not None
            until[branch] = regions[branch[0]][1]
        match event:
            case Call():
                start_ms = until[branch] if event.at_ms is None else event.at_ms
                times.calls[event.call] = start_ms, start_ms + (event.duration_ms or 0.0)
                times.assumed += event.at_ms is None or event.duration_ms is None
                until[branch] = max(until[branch], times.calls[event.call][1])
            case ToolCall():
                start_ms = until[branch] if event.at_ms is None else event.at_ms
                times.tools[event.tool_call_id] = start_ms, start_ms + event.duration_ms
                until[branch] = max(until[branch], start_ms + event.duration_ms)
            case Wait():
                start_ms = until[branch] if event.at_ms is None else event.at_ms
                until[branch] = max(until[branch], start_ms + event.duration_ms)
            case ParallelStart():
                regions[event.region] = branch, until[branch]
            case ParallelEnd():
                ends = [
                    ms for child, ms in until.items() if child is not None and _is_below(child, event.region, regions)
                ]
                until[branch] = max([until[branch], *ends])
            case _:
                pass
    return times


def _is_below(branch: Branch | None, region: int, regions: dict[int, tuple[Branch | None, float]]) -> bool:
    """Say whether a branch is one of a region, or comes from one."""
    while branch is not None:
        if branch[0] == region:
            return True
        branch = regions[branch[0]][0]
    return False
