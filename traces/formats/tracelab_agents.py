"""Which sessions of a TraceLab file were sub-agents of others, as far as their times can tell.

The file has no link between them. A session that lies wholly within one call of the tool that runs sub-agents, in a
longer session of the same person and project, is taken to be what that call ran: the tightest such call. Where calls of
several sessions would do, and these do not lie within one another, nothing is said. This is a rule, not knowledge: two
sessions of one person may lie so by chance. AIPerf joins sessions by the same rule (`_tracelab_convert.py` at 018a03f).

Only tools that hold up the agent until the sub-agent has ended are looked at, as those of Claude Code do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from rotoscope.traces.formats.tracelab_rounds import Round

AGENT_TOOLS = frozenset(("Agent", "Task"))
SHORTEST_MS = 10_000.0
"""A shorter call of the tool is most often an error or ran nothing."""


@dataclass(frozen=True, slots=True)
class _Extent:
    start_ms: float
    end_ms: float

    @property
    def length_ms(self) -> float:
        return self.end_ms - self.start_ms

    def holds(self, other: _Extent) -> bool:
        return self.start_ms <= other.start_ms and other.end_ms <= self.end_ms


_Window: TypeAlias = tuple[_Extent, str]
"""A call that may have run sub-agents, and its session."""


@dataclass(slots=True)
class Links:
    """Sub-agents with the sessions that ran them."""

    parents: dict[str, str] = field(default_factory=dict)
    doubtful: int = 0
    """Sessions that could be sub-agents of several others."""


def links_of(sessions: Mapping[str, Sequence[Round]]) -> Links:
    """Return the links between sessions; a parent is always longer than its sub-agents."""
    extents = {name: extent for name, rounds in sessions.items() if (extent := _extent(rounds)) is not None}
    windows: dict[object, list[_Window]] = defaultdict(list)
    for name, rounds in sessions.items():
        for round_ in rounds:
            windows[round_.place] += ((window, name) for window in _windows(round_))
    children: dict[object, list[str]] = defaultdict(list)
    for name in extents:
        children[sessions[name][0].place].append(name)
    links = Links()
    for place, names in children.items():
        if place in windows:
            for name, open_windows in _in_time(names, windows[place], extents):
                _link(name, open_windows, extents, links)
    return links


def _in_time(
    names: Sequence[str], windows: Sequence[_Window], extents: Mapping[str, _Extent]
) -> Iterator[tuple[str, list[_Window]]]:
    """Yield sessions by their start, each with the windows that are open then."""
    coming = sorted(windows, key=lambda window: window[0].start_ms, reverse=True)
    open_windows: list[_Window] = []
    for name in sorted(names, key=lambda name: extents[name].start_ms):
        start_ms = extents[name].start_ms
        while coming and coming[-1][0].start_ms <= start_ms:
            open_windows.append(coming.pop())
        open_windows = [window for window in open_windows if window[0].end_ms >= start_ms]
        yield name, open_windows


def _link(name: str, windows: Sequence[_Window], extents: Mapping[str, _Extent], links: Links) -> None:
    extent = extents[name]
    found = [
        (window, parent)
        for window, parent in windows
        if window.holds(extent) and parent != name and extents[parent].length_ms > extent.length_ms
    ]
    if not found:
        return
    parent = min(found, key=lambda item: item[0].length_ms)[1]
    if all(other == parent or window.holds(extents[parent]) for window, other in found):
        links.parents[name] = parent
    else:
        links.doubtful += 1


def _extent(rounds: Sequence[Round]) -> _Extent | None:
    times = [
        at_ms
        for round_ in rounds
        for at_ms in (
            round_.sent_ms,
            round_.ended_ms,
            *(t for tool in round_.tools for t in (tool.start_ms, tool.end_ms)),
        )
        if at_ms is not None
    ]
    return _Extent(min(times), max(times)) if times else None


def _windows(round_: Round) -> list[_Extent]:
    if round_.provider == "codex":
        return []
    return [
        _Extent(tool.start_ms, tool.end_ms)
        for tool in round_.tools
        if tool.name in AGENT_TOOLS
        and tool.start_ms is not None
        and tool.end_ms is not None
        and tool.end_ms - tool.start_ms >= SHORTEST_MS
    ]
