"""When what happened in a trace was, so that each part of it lies within the whole, where the trace says so or not.

1. What has no time of its own begins where its branch stands by then: at the end of what came before it.
2. A branch lasts from the first to the last of what happened on it, a region as long as its branches, and what they
   stand on as long as them.
3. Regions and branches on which nothing took time have a moment within what they stand on.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from rotoscope.traces.model import (
    Branch,
    Call,
    Embedding,
    ParallelEnd,
    ParallelStart,
    ToolCall,
    Trace,
    TraceEvent,
    Wait,
)

Timed: TypeAlias = Call | Embedding | ToolCall | Wait
Place = TypeVar("Place")


@dataclass(slots=True)
class Extent:
    """From when to when something lasted, in milliseconds from the beginning of the trace."""

    start_ms: float
    end_ms: float


@dataclass(slots=True)
class Places:
    """When everything in a trace was."""

    events: dict[int, Extent] = field(default_factory=dict)
    """Calls, embeddings, tools and waits, by index among the events."""
    branches: dict[Branch | None, Extent] = field(default_factory=lambda: {None: Extent(0.0, 0.0)})
    """Those on which something happened, and the root."""
    regions: dict[int, Extent] = field(default_factory=dict)
    """By number."""

    @classmethod
    def of(cls, trace: Trace) -> Places:
        """Place the events of a valid trace."""
        return _Walk(trace).places()


@dataclass(slots=True)
class _Walk:
    trace: Trace
    found: Places = field(default_factory=Places)
    stands_ms: dict[Branch | None, float] = field(default_factory=lambda: {None: 0.0})
    """Where each branch stands: at the end of what came last on it."""
    starts: dict[int, ParallelStart] = field(default_factory=dict)
    forked_ms: dict[int, float] = field(default_factory=dict)
    """Where the branch of a region stood when it began."""
    entered: defaultdict[int, dict[Branch, None]] = field(default_factory=lambda: defaultdict(dict))
    """The branches of each region on which something happened."""

    def places(self) -> Places:
        for index, event in enumerate(self.trace.events):
            self._take(index, event)
        for region in self.starts:
            self._settle(region)
        return self.found

    def _take(self, index: int, event: TraceEvent) -> None:
        branch = event.branch
        if branch is not None:
            self.entered[branch[0]][branch] = None
            self.stands_ms.setdefault(branch, self.forked_ms[branch[0]])
        match event:
            case Call() | Embedding() | ToolCall() | Wait():
                self._time(index, event)
            case ParallelStart():
                self.starts[event.region] = event
                self.forked_ms[event.region] = self.stands_ms[branch]
            case ParallelEnd() if event.region in self.found.regions:
                self.stands_ms[branch] = max(self.stands_ms[branch], self.found.regions[event.region].end_ms)

    def _time(self, index: int, event: Timed) -> None:
        start_ms = self.stands_ms[event.branch] if event.at_ms is None else event.at_ms
        extent = Extent(start_ms, start_ms + (event.duration_ms or 0.0))
        self.found.events[index] = extent
        self.stands_ms[event.branch] = max(self.stands_ms[event.branch], extent.end_ms)
        self._widen(event.branch, extent)

    def _widen(self, branch: Branch | None, extent: Extent) -> None:
        """Let all that something happened on or below last as long."""
        while branch is not None:
            _include(self.found.branches, branch, extent)
            _include(self.found.regions, branch[0], extent)
            branch = self.starts[branch[0]].branch
        _include(self.found.branches, None, extent)

    def _settle(self, region: int) -> None:
        """Give a region and its branches a moment where nothing in them took time; the region around it has been settled."""
        if region not in self.found.regions:
            around = self.found.branches[self.starts[region].branch]
            moment_ms = min(max(self.forked_ms[region], around.start_ms), around.end_ms)
            self.found.regions[region] = Extent(moment_ms, moment_ms)
        start_ms = self.found.regions[region].start_ms
        for branch in self.entered[region]:
            self.found.branches.setdefault(branch, Extent(start_ms, start_ms))


def _include(extents: dict[Place, Extent], place: Place, extent: Extent) -> None:
    known = extents.setdefault(place, Extent(extent.start_ms, extent.end_ms))
    known.start_ms, known.end_ms = min(known.start_ms, extent.start_ms), max(known.end_ms, extent.end_ms)
