"""In which order and on which paths the events of a trace stand in a TensorRT-LLM file.

Its replay keeps one queue a path and one stack of open regions for the whole file, and a `parallel_end` closes what is on
top. So:

1. Child i of a region has the path of its parent with i appended.
2. Regions of one branch that overlap become one, which has the children of all, starts with the first and joins with
   the last. One that is never joined joins when its branch is over.
3. Tools of one branch that overlapped become a region with one tool a child, as that format writes them.
4. Events keep their order if no region then ends before another one that was started inside it; else all events of a
   child come before those of the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.formats.trtllm_events import MAX_BRANCHES, Path
from rotoscope.traces.model import Branch, Call, ParallelEnd, ParallelStart, ToolCall, Trace, TraceEvent


@dataclass(frozen=True, slots=True)
class Fork:
    """A region starts on a path."""

    path: Path
    num_branches: int


@dataclass(frozen=True, slots=True)
class Join:
    """The newest region on a path ends."""

    path: Path


@dataclass(frozen=True, slots=True)
class Placed:
    """Any other event and its path."""

    path: Path
    event: TraceEvent


Step: TypeAlias = Fork | Join | Placed


def calls_of(steps: Iterable[Step]) -> list[Call]:
    """Return the calls in the order of the file."""
    return [step.event for step in steps if isinstance(step, Placed) and isinstance(step.event, Call)]


@dataclass(slots=True)
class Order:
    """The events of a file."""

    steps: list[Step]
    merged: list[int]
    """Regions that became one with an earlier region."""
    unjoined: list[int]
    """Regions that were never joined."""
    held_up: list[int]
    """Regions during which branches beside theirs go on, which that replay does not let them."""
    is_rearranged: bool
    """Whether events come in another order."""


@dataclass(eq=False, slots=True)
class _Fan:
    """What becomes one region of the file."""

    branch: Branch | None
    path: Path
    start: int
    end: float = inf
    open_regions: set[int] = field(default_factory=set)
    regions: list[int] = field(default_factory=list)
    children: list[Branch] = field(default_factory=list)

    @property
    def key(self) -> tuple[float, int]:
        """Return where it ends: inner regions before the ones around them."""
        return self.end, -len(self.path)


@dataclass(frozen=True, slots=True)
class _Tools:
    """Tools that ran side by side."""

    path: Path
    tools: tuple[ToolCall, ...]


_Item: TypeAlias = Placed | _Tools | _Fan


def ordered(trace: Trace) -> Order:
    """Return the events of a trace as they stand in the file."""
    ordering = _Ordering(_overlapping_tools(trace))
    for index, event in enumerate(trace.events):
        ordering.add(event, index)
    return ordering.order()


@dataclass(slots=True)
class _Ordering:
    tools: dict[int, tuple[int, tuple[ToolCall, ...]]]
    """By index of a tool that overlaps others: the index of the first, and all of them."""
    paths: dict[Branch | None, Path] = field(default_factory=lambda: {None: ()})
    items: dict[Branch | None, list[tuple[int, _Item]]] = field(default_factory=dict)
    fans: dict[int, _Fan] = field(default_factory=dict)
    """By region."""
    open_fans: dict[Branch | None, _Fan] = field(default_factory=dict)

    def add(self, event: TraceEvent, index: int) -> None:
        """Take the next event."""
        match event:
            case ParallelStart():
                self._fork(event, index)
            case ParallelEnd():
                fan = self.fans[event.region]
                fan.open_regions.discard(event.region)
                if not fan.open_regions:
                    fan.end = index
                    del self.open_fans[event.branch]
            case ToolCall() if index in self.tools and event.branch not in self.open_fans:
                first, tools = self.tools[index]
                if index == first:
                    self._put(event.branch, index, _Tools(self.paths[event.branch], tools))
            case _:
                self._put(event.branch, index, Placed(self.paths[event.branch], event))

    def order(self) -> Order:
        """Return all of them in their order."""
        fans = list(dict.fromkeys(self.fans.values()))
        in_order = [item for items in self.items.values() for item in items]
        in_order.sort(key=lambda item: item[0])
        keeps = _keeps_order(fans)
        steps = list(_as_they_were(in_order, fans)) if keeps else list(self._depth_first(None))
        return Order(
            steps=steps,
            merged=[region for fan in fans for region in fan.regions[1:]],
            unjoined=[region for fan in fans for region in fan.regions if region in fan.open_regions],
            held_up=[fan.regions[0] for fan in fans if self._has_neighbours(fan)],
            is_rearranged=not keeps,
        )

    def _fork(self, fork: ParallelStart, index: int) -> None:
        if fork.num_branches > MAX_BRANCHES:
            raise UnusableInput(
                f"region {fork.region} has {fork.num_branches} branches, and at most {MAX_BRANCHES} can be written"
            )
        fan = self.open_fans.get(fork.branch)
        if fan is None:
            fan = self.open_fans[fork.branch] = _Fan(fork.branch, self.paths[fork.branch], index)
            self._put(fork.branch, index, fan)
        fan.regions.append(fork.region)
        fan.open_regions.add(fork.region)
        self.fans[fork.region] = fan
        for child in range(fork.num_branches):
            self.paths[fork.region, child] = (*fan.path, len(fan.children))
            fan.children.append((fork.region, child))

    def _put(self, branch: Branch | None, index: int, item: _Item) -> None:
        self.items.setdefault(branch, []).append((index, item))

    def _depth_first(self, branch: Branch | None) -> Iterator[Step]:
        fan: _Fan | None = None
        for index, item in self.items.get(branch, []):
            if fan is not None and fan.end < index:
                yield Join(fan.path)
                fan = None
            yield from _steps(item)
            if isinstance(item, _Fan):
                fan = item
                for child in item.children:
                    yield from self._depth_first(child)
        if fan is not None:
            yield Join(fan.path)

    def _has_neighbours(self, fan: _Fan) -> bool:
        """Say whether anything but the region's own branch and what is inside it has events while it is open."""
        return any(
            fan.start < index < fan.end
            for branch, items in self.items.items()
            if not self._is_inside(branch, fan.branch)
            for index, _ in items
        )

    def _is_inside(self, branch: Branch | None, outer: Branch | None) -> bool:
        while branch != outer:
            if branch is None:
                return False
            branch = self.fans[branch[0]].branch
        return True


def _keeps_order(fans: Sequence[_Fan]) -> bool:
    """Say whether regions end in the opposite order of their starts."""
    borders = sorted(
        [((fan.start, 0), True, fan) for fan in fans] + [(fan.key, False, fan) for fan in fans], key=_first
    )
    stack: list[_Fan] = []
    for _, starts, fan in borders:
        if starts:
            stack.append(fan)
        elif stack.pop() is not fan:
            return False
    return True


def _first(border: tuple[tuple[float, int], bool, _Fan]) -> tuple[float, int]:
    return border[0]


def _as_they_were(items: Sequence[tuple[int, _Item]], fans: Sequence[_Fan]) -> Iterator[Step]:
    ends = sorted(fans, key=lambda fan: fan.key, reverse=True)
    for index, item in items:
        while ends and ends[-1].end < index:
            yield Join(ends.pop().path)
        yield from _steps(item)
    while ends:
        yield Join(ends.pop().path)


def _steps(item: _Item) -> Iterator[Step]:
    match item:
        case _Fan():
            yield Fork(item.path, len(item.children))
        case _Tools():
            yield Fork(item.path, len(item.tools))
            yield from (Placed((*item.path, number), tool) for number, tool in enumerate(item.tools))
            yield Join(item.path)
        case Placed():
            yield item


def _overlapping_tools(trace: Trace) -> dict[int, tuple[int, tuple[ToolCall, ...]]]:
    """Return tools of one branch that overlap, nothing of the branch between them."""
    groups: list[list[tuple[int, ToolCall]]] = []
    last: dict[Branch | None, tuple[list[tuple[int, ToolCall]], float]] = {}
    for index, event in enumerate(trace.events):
        group, until_ms = last.pop(event.branch, ([], -inf))
        if isinstance(event, ToolCall) and event.at_ms is not None:
            if event.at_ms >= until_ms:
                group, until_ms = [], -inf
                groups.append(group)
            group.append((index, event))
            last[event.branch] = group, max(until_ms, event.at_ms + event.duration_ms)
    found = {}
    for group in groups:
        if len(group) > 1:
            tools = tuple(tool for _, tool in group)
            found.update({index: (group[0][0], tools) for index, _ in group})
    return found
