"""Where what an agent told belongs, of a thread whose calls do not say that they are its own.

Some clients send no header of ours, and their calls find their branches by what they say. What the thread told of its
tools and waits is placed by time then: it lies in a gap between two calls of a branch.

1. A tool belongs to an answer that asked for it by name, and ran before the results were sent; an answer takes no more
   tools of a name than it asked for. Those with one such answer come first, and tell on which branch their thread is;
   others give way to those that could belong nowhere else.
2. Of several one is taken whose results were sent, for else their time would be given to the same tool again; then one
   of this branch, one on a branch whose calls were all made while the thread was at work, one where no other thread is
   known to be, and the one that ends first.
3. Everything else stands on the branch of its thread, as far as that is known; a tool else where any was asked for; a
   wait of the outermost thread on the root, and of others below it.
4. A tool that belongs nowhere stands with who began its thread, beside what happens there. A wait that lies in none was
   beside calls on all branches, and nothing waited for it: it is left out.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

from rotoscope.recorder.calls import SeenCall
from rotoscope.recorder.conversations import Turn
from rotoscope.recorder.regions import Lanes, Region
from rotoscope.recorder.told import Timed, Told, ended_ms
from rotoscope.traces.journal import ToolRan, Waited
from rotoscope.traces.model import Branch

LEAST_MS = 1e-3
"""No two things happen at one time that is told more closely."""
Place: TypeAlias = Branch | None
"""A branch; None is the root's."""


@dataclass(slots=True)
class Placed:
    """What was told, where it stands."""

    timed: dict[Place, deque[Timed]]
    """By its end."""
    of_calls: dict[int, Counter[int]] = field(default_factory=dict)
    """By call: the tools that were placed because its answer asked for them."""
    asking: dict[int, int] = field(default_factory=dict)
    """By the identity of such a tool: that call."""


def place(told: Told, calls: Sequence[SeenCall], turns: Sequence[Turn], lanes: Lanes) -> Placed:
    """Say on which branch everything stands that was timed."""
    found: defaultdict[Place, list[Timed]] = defaultdict(list)
    strays = [one for thread, timed in told.timed.items() if thread not in lanes.threads for one in timed]
    for thread, branch in lanes.threads.items():
        found[branch].extend(told.timed.get(thread, ()))
    gaps: list[_Gap] = []
    if strays:
        taken = {branch for thread, branch in lanes.threads.items() if thread in told.timed or thread in told.began}
        gaps = [gap for gap in _gaps(calls, turns, lanes) if gap.branch not in taken]
        for one, branch in _Placing(told, lanes).places(strays, gaps):
            found[branch].append(one)
    return Placed(
        {branch: deque(sorted(timed, key=ended_ms)) for branch, timed in found.items()},
        {gap.call: Counter(one.tool for one in gap.tools) for gap in gaps if gap.call is not None and gap.tools},
        {id(one): gap.call for gap in gaps for one in gap.tools if gap.call is not None},
    )


@dataclass(slots=True, eq=False)
class _Gap:
    """Time behind a call of a branch, or before the first one."""

    branch: Place
    call: int | None
    start_ms: float
    end_ms: float
    """When the branch makes its next call."""
    asked_ms: float
    """When the call began: a tool may run before the answer that asked for it has ended."""
    sent_ms: float
    """When results were sent, else when its branch went on."""
    is_answered: bool
    """Whether they were: then time is given to tools that nobody told of."""
    left: Counter[int]
    """Tools that were asked for, and how many of them were not placed."""
    line_ms: tuple[float, float]
    """When the calls of its branch began and ended."""
    tools: list[ToolRan] = field(default_factory=list)
    waits: list[Waited] = field(default_factory=list)

    def holds(self, one: Timed) -> bool:
        return self.start_ms <= one.at_ms and ended_ms(one) <= self.end_ms

    def asks_for(self, one: ToolRan) -> bool:
        return one.tool in self.left and self.asked_ms <= one.at_ms and ended_ms(one) <= self.sent_ms

    @property
    def until_ms(self) -> float:
        return max(self.end_ms, self.sent_ms if self.left else self.end_ms)


def _gaps(calls: Sequence[SeenCall], turns: Sequence[Turn], lanes: Lanes) -> Iterator[_Gap]:
    """Yield the gaps of all branches, before their first calls and behind their last ones too."""
    lines: defaultdict[Place, list[SeenCall]] = defaultdict(list)
    for call in calls:
        lines[lanes.branches[turns[call.number].conversation]].append(call)
    sent_ms: dict[int, float] = {}
    for call, turn in zip(calls, turns, strict=True):
        if turn.before is not None and turn.carries_tools:
            sent_ms.setdefault(turn.before, call.start_ms)
    times = _times(lines, lanes.regions)
    for branch, line in lines.items():
        start_ms, until_ms = times.get(branch, (line[0].start_ms, 0.0))
        line_ms = line[0].start_ms, max(call.end_ms for call in line)
        yield _Gap(branch, None, start_ms, line[0].start_ms, start_ms, 0.0, False, Counter(), line_ms)
        for call, end_ms in zip(line, [*(call.start_ms for call in line[1:]), until_ms], strict=True):
            sent, is_answered = sent_ms.get(call.number, end_ms), call.number in sent_ms
            left = Counter(call.tools)
            yield _Gap(branch, call.number, call.end_ms, end_ms, call.start_ms, sent, is_answered, left, line_ms)


def _times(lines: Mapping[Place, Sequence[SeenCall]], regions: Sequence[Region]) -> dict[Place, tuple[float, float]]:
    """Return when each branch begins, and until when it is certainly not joined: its parent's does nothing before."""
    times: dict[Place, tuple[float, float]] = {None: (0.0, inf)}
    steps: defaultdict[Place, list[float]] = defaultdict(list)
    for branch, line in lines.items():
        steps[branch] = [call.start_ms for call in line]
    for region in regions:
        steps[region.branch].append(region.start_ms)
    for found in steps.values():
        found.sort()
    for region in regions:
        above = steps[region.branch]
        behind = bisect_left(above, max(region.end_ms, region.start_ms + LEAST_MS))
        end_ms = min(above[behind] if behind < len(above) else inf, times[region.branch][1])
        times.update({(region.number, index): (region.start_ms, end_ms) for index in range(len(region.conversations))})
    return times


@dataclass(slots=True)
class _Placing:
    told: Told
    lanes: Lanes
    of_threads: defaultdict[int, Counter[Place]] = field(default_factory=lambda: defaultdict(Counter))
    """How much of a thread was placed on a branch."""
    owners: defaultdict[Place, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    """And of which threads by the branch."""

    choices: dict[int, list[_Gap]] = field(default_factory=dict)
    """By the identity of a tool: the answers that asked for it."""
    full: defaultdict[tuple[int, bool], set[int]] = field(default_factory=lambda: defaultdict(set))
    """By tool and what is looked for: the identities of answers that take no more of it, whoever gives way."""

    def places(self, timed: Iterable[Timed], gaps: Sequence[_Gap]) -> Iterator[tuple[Timed, Place]]:
        """Yield what has a place, and that."""
        near = list(_near(timed, gaps))
        tools = [(one, there) for one, there in near if isinstance(one, ToolRan)]
        self.choices = {id(one): [gap for gap in there if gap.asks_for(one)] for one, there in tools}
        in_order = [one for one, _ in sorted(tools, key=self._order)]
        asked = {id(one) for one in in_order if self._answer(one, is_answered=True)}
        asked |= {id(one) for one in in_order if id(one) not in asked and self._answer(one, is_answered=False)}
        for tool, there in tools:
            if id(tool) not in asked:
                yield tool, self._of_tool(tool, [gap for gap in there if gap.holds(tool)])
        for one, there in near:
            holding = [gap for gap in there if gap.holds(one)]
            if isinstance(one, Waited) and holding:
                gap = self._nearest(one, holding)
                gap.waits.append(one)
                self._note(one, gap)
        for gap in gaps:
            yield from ((tool, gap.branch) for tool in gap.tools)
            yield from ((wait, gap.branch) for wait in gap.waits)

    def _order(self, tool: tuple[ToolRan, list[_Gap]]) -> tuple[bool, float]:
        return len(self.choices[id(tool[0])]) > 1, ended_ms(tool[0])

    def _answer(self, one: ToolRan, *, is_answered: bool) -> bool:
        """Give a tool to an answer that asked for it, where others that have a choice give way if they must.

        It is an augmenting path of a matching, so with `is_answered` as many answers as can be have all their tools.
        Those that one search went through in vain are on no path of a later one.
        """
        full = self.full[one.tool, is_answered]
        came: dict[int, tuple[ToolRan, _Gap] | None] = {id(one): None}
        seen: set[int] = set()
        for mover in (waiting := [one]):
            choices = [gap for gap in self.choices[id(mover)] if gap.is_answered or not is_answered]
            choices = [gap for gap in choices if id(gap) not in full]
            free = [gap for gap in choices if gap.left[one.tool]]
            if free:
                self._put(mover, self._nearest(mover, free))
                while (step := came[id(mover)]) is not None:
                    before, gap = step
                    self._take_out(mover, gap)
                    self._put(before, gap)
                    mover = before
                return True
            for gap in choices:
                if id(gap) not in seen:
                    seen.add(id(gap))
                    others = [x for x in gap.tools if x.tool == one.tool and id(x) not in came]
                    came.update({id(x): (mover, gap) for x in others})
                    waiting += others
        full |= seen
        return False

    def _take_out(self, one: ToolRan, gap: _Gap) -> None:
        del gap.tools[next(place for place, x in enumerate(gap.tools) if x is one)]
        gap.left[one.tool] += 1
        self._note(one, gap, -1)

    def _put(self, one: ToolRan, gap: _Gap) -> None:
        gap.tools.append(one)
        gap.left[one.tool] -= 1
        self._note(one, gap)

    def _note(self, one: Timed, gap: _Gap, count: int = 1) -> None:
        self.of_threads[one.thread][gap.branch] += count
        self.owners[gap.branch][one.thread] += count

    def _nearest(self, one: Timed, gaps: Iterable[_Gap]) -> _Gap:
        return min(gaps, key=lambda gap: self._strangeness(one, gap))

    def _is_of(self, one: Timed, gap: _Gap) -> bool:
        """Whether a gap is on the branch of a thread, as far as that is known."""
        known = self.of_threads.get(one.thread)
        return known is not None and known.most_common(1)[0][0] == gap.branch

    def _strangeness(self, one: Timed, gap: _Gap) -> tuple[bool, ...]:
        began = self.told.began.get(one.thread)
        first_ms, last_ms = gap.line_ms
        is_at_work = began is None or (began.at_ms <= first_ms and last_ms <= self.told.joined_ms(one.thread))
        others = self.owners[gap.branch]
        is_foreign = others.total() > others[one.thread]
        beside: tuple[Timed, ...] = (*gap.tools, *gap.waits) if isinstance(one, Waited) else ()
        is_crowded = any(x.at_ms < ended_ms(one) and one.at_ms < ended_ms(x) for x in beside)
        is_twice = isinstance(one, ToolRan) and not gap.is_answered
        is_elsewhere = (gap.branch is None) != (began is None)
        return is_twice, is_crowded, not self._is_of(one, gap), not is_at_work, is_elsewhere, is_foreign

    def _of_tool(self, one: ToolRan, holding: Sequence[_Gap]) -> Place:
        """Return the branch of a tool that nobody asked for by its name; it counts for none that was asked for."""
        fitting = [gap for gap in holding if self._is_of(one, gap) or gap.left.total() > 0]
        if fitting:
            return self._nearest(one, fitting).branch
        whose = next((x for x in self.told.line_of(one.thread) if x in self.lanes.threads), one.thread)
        return self.lanes.threads.get(whose)


def _near(timed: Iterable[Timed], gaps: Iterable[_Gap]) -> Iterator[tuple[Timed, list[_Gap]]]:
    """Yield each with the gaps that it may lie in, those that end first before others."""
    coming = deque(sorted(gaps, key=lambda gap: gap.asked_ms))
    is_open: list[tuple[float, int, _Gap]] = []
    for one in sorted(timed, key=lambda x: x.at_ms):
        while coming and coming[0].asked_ms <= one.at_ms:
            gap = coming.popleft()
            heapq.heappush(is_open, (gap.until_ms, -len(coming), gap))
        while is_open and is_open[0][0] < one.at_ms:
            heapq.heappop(is_open)
        yield one, [gap for _, _, gap in sorted(is_open)]
