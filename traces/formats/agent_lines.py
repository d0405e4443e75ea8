"""Lines of calls and tools with their times, as foreign files give them, and the lanes of one whose calls overlap."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush

from rotoscope.traces.model import Call, TimeSource, ToolName

_MOST_TOOL_NAMES = 10**6


@dataclass(slots=True)
class ToolNames:
    """Pseudonyms of the tools of a file, in the order in which they are first met."""

    known: dict[str | None, ToolName] = field(default_factory=dict)

    def of(self, name: str | None) -> ToolName:
        """Return the pseudonym of a name; those beyond a million share the last one."""
        return self.known.setdefault(name, f"tool{min(len(self.known), _MOST_TOOL_NAMES - 1)}")


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """A call and when it was sent and answered, in milliseconds of the file's clock."""

    call: Call
    """Its branch, its conversation, its place in it and `at_ms` are set here."""
    start_ms: float
    end_ms: float
    untimed_tools: tuple[ToolName, ...] = ()
    """Tools that it asked for, where nothing tells when they ran."""
    is_for_person: bool = False
    """Whether it answers what a person wrote."""


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """A tool and when it ran."""

    tool_name: ToolName
    start_ms: float
    end_ms: float
    call: int | None = None
    """The call whose answer asked for it, one of the same line."""
    time_source: TimeSource = "client"


@dataclass(slots=True, eq=False)
class Line:
    """What happens one after another in a session or sub-agent, and the lines that it started."""

    turns: list[Turn] = field(default_factory=list)
    """In the order of their calls, which is that of their starts."""
    spans: list[Span] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    is_joined: bool = True
    """False where it is known that its parent never waits for it."""
    is_lane: bool = False
    """Whether it goes on beside the calls of its parent, rather than being started by one of them."""
    start_ms: float = 0.0
    """Of everything on it and on what it started; set by `Timeline`, which leaves its own lines as they are."""
    end_ms: float = 0.0


def all_lines(line: Line) -> Iterator[Line]:
    """Yield a line and those that it started."""
    yield line
    for inner in line.lines:
        yield from all_lines(inner)


@dataclass(slots=True)
class Lanes:
    """Deals the calls of a line to lanes, on each of which they follow one another.

    A lane beside the first one is over when a call of the first one was sent after its end: it joins there.
    """

    first: Line
    others: list[Line] = field(default_factory=list)
    of_turns: list[Line] = field(default_factory=list)
    """By turn."""
    _open: list[tuple[float, int]] = field(default_factory=list)
    """Those of the others that are not over, a heap by the end of their last call."""

    def add(self, turn: Turn) -> None:
        """Deal the next call."""
        lane = self._lane_for(turn)
        lane.turns.append(turn)
        self.of_turns.append(lane)

    def _lane_for(self, turn: Turn) -> Line:
        last = self.of_turns[-1] if self.of_turns else self.first
        if last.turns and _are_choices(last.turns[-1].call, turn.call):
            return last
        if not self.first.turns or self.first.turns[-1].end_ms <= turn.start_ms:
            while self._open and self._open[0][0] <= turn.start_ms:
                heappop(self._open)
            return self.first
        if self._open and self._open[0][0] <= turn.start_ms:
            number = heappop(self._open)[1]
        else:
            number = len(self.others)
            self.others.append(Line(is_lane=True))
        heappush(self._open, (turn.end_ms, number))
        return self.others[number]


def set_extent(line: Line) -> None:
    """Set when a line started and ended, with all that it started."""
    parts: list[Turn | Span | Line] = [*line.turns, *line.spans, *line.lines]
    line.start_ms = min((part.start_ms for part in parts), default=0.0)
    line.end_ms = max((part.end_ms for part in parts), default=0.0)


def _are_choices(call: Call, other: Call) -> bool:
    return call.request is not None and call.request == other.request
