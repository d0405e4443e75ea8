"""When the requests of a Weka trace were sent, and which of its sub-agents ran side by side.

1. Inner times of a sub-agent are relative to its start when the first of them is less than the `t` of its entry, unless
   as such they would be later than it ran and as absolute ones they fit. Else they are absolute, and `t` is the start.
2. Where they are relative, an entry with a duration is logged when its result arrives, so its start is t - duration; unless that is before the
   answer that precedes the entry, then `t` is the start. (In the published files every sub-agent with a duration then
   starts within a second after the answer that asked for it, and the parent's next prompt has its result. With `t` as
   the start half of the results would have been used before they were there.)
3. Calls are numbered by the time they were sent, ties by their place in the file.
4. Sub-agents that stand between two requests of their parent form one region.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from rotoscope.traces.formats.weka_requests import SourceAgent, SourceRequest, SourceTrace

ROUNDING_MS = 1000.0
"""Requests have their times in whole seconds."""


@dataclass(eq=False, slots=True)
class Sent:
    """A request on the clock of the whole run."""

    request: SourceRequest
    sent_ms: float
    call: int = -1

    @property
    def ended_ms(self) -> float | None:
        """When its answer ended, None when the file does not tell."""
        return None if self.request.api_ms is None else self.sent_ms + self.request.api_ms


Line: TypeAlias = list[Sent]
"""The requests of one branch in the order they were sent."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A sub-agent's requests and when it started and ended."""

    line: Line
    start_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True)
class Region:
    """Sub-agents that were started together."""

    number: int
    agents: list[Agent] = field(default_factory=list)

    @property
    def start_ms(self) -> float:
        """When the first of them started."""
        return min(agent.start_ms for agent in self.agents)

    @property
    def end_ms(self) -> float:
        """When the last of them ended."""
        return max(agent.end_ms for agent in self.agents)


@dataclass(slots=True)
class Schedule:
    """All requests of a trace in time."""

    parent: Line = field(default_factory=list)
    regions: list[Region] = field(default_factory=list)
    _by_start: list[Region] = field(default_factory=list)
    _starts: list[float] = field(default_factory=list)

    @classmethod
    def of(cls, source: SourceTrace) -> Schedule:
        """Put the entries of a file on one clock and number the calls."""
        schedule = cls()
        in_file_order: list[Sent] = []
        after_agent = False
        for entry in source.entries:
            if isinstance(entry, SourceAgent):
                agent = _agent(entry, schedule.parent)
                if not after_agent:
                    schedule.regions.append(Region(len(schedule.regions)))
                schedule.regions[-1].agents.append(agent)
                in_file_order += agent.line
            else:
                schedule.parent.append(Sent(entry, entry.at_ms))
                in_file_order.append(schedule.parent[-1])
            after_agent = isinstance(entry, SourceAgent)
        for number, sent in enumerate(sorted(in_file_order, key=_when)):
            sent.call = number
        schedule.parent.sort(key=_when)
        return schedule

    def calls(self) -> list[Sent]:
        """Return all requests in the order of their numbers."""
        agents = (agent for region in self.regions for agent in region.agents)
        lines = [self.parent, *(agent.line for agent in agents)]
        return sorted((sent for line in lines for sent in line), key=lambda sent: sent.call)

    def regions_started(self, since: Sent | None, until: Sent | None) -> Iterator[Region]:
        """Yield the regions that start between two requests of the parent; None stands for the beginning or the end."""
        if len(self._starts) != len(self.regions):
            self._by_start = sorted(self.regions, key=lambda region: region.start_ms)
            self._starts = [region.start_ms for region in self._by_start]
        first = 0 if since is None else bisect_left(self._starts, since.sent_ms)
        last = len(self._starts) if until is None else bisect_left(self._starts, until.sent_ms)
        yield from self._by_start[first:last]


def _when(sent: Sent) -> float:
    return sent.sent_ms


def _agent(entry: SourceAgent, parent: Line) -> Agent:
    start_ms = _start_ms(entry, parent)
    relative = bool(entry.requests) and entry.requests[0].at_ms < entry.at_ms and not _must_be_absolute(entry, start_ms)
    line = [Sent(request, request.at_ms + (start_ms if relative else 0.0)) for request in entry.requests]
    line.sort(key=_when)
    if line and not relative:
        start_ms = min(start_ms if _must_be_absolute(entry, start_ms) else entry.at_ms, line[0].sent_ms)
    ends = [sent.ended_ms or sent.sent_ms for sent in line]
    return Agent(line, start_ms, max([start_ms + (entry.duration_ms or 0.0), *ends]))


def _must_be_absolute(entry: SourceAgent, start_ms: float) -> bool:
    """Say whether requests would be sent after the sub-agent's end if their times were from its start."""
    if entry.duration_ms is None or not entry.requests:
        return False
    first_ms, last_ms = min(r.at_ms for r in entry.requests), max(r.at_ms for r in entry.requests)
    end_ms = start_ms + entry.duration_ms
    is_late = last_ms > entry.duration_ms + ROUNDING_MS
    return is_late and start_ms - ROUNDING_MS <= first_ms and last_ms <= end_ms + ROUNDING_MS


def _start_ms(entry: SourceAgent, parent: Line) -> float:
    if entry.duration_ms is None or not parent:
        return entry.at_ms
    start_ms = entry.at_ms - entry.duration_ms
    answered_ms = parent[-1].ended_ms or parent[-1].sent_ms
    if start_ms < answered_ms - ROUNDING_MS:
        return entry.at_ms
    return max(start_ms, parent[-1].sent_ms)
