"""Which conversations have branches of their own, and where the regions of those begin and end.

A conversation has a branch below that of the one that began it (`descent.py`) where something tells who began it. Of
the others, one that was never in flight together with that branch, or with another such one, runs inside it, in order.
Those that were, each set that hangs together by overlaps, are the branches of a region.

Branches that one branch began in the same gap, that overlap and that it could only go on after, are one region: it
begins before its first call, or before the call of the parent's branch that was in flight then, and is joined before
the next thing that the parent's branch does after all of it has ended.

Where the agent tells of its branches itself (`marks.py`), those that it began together are a region, whether they
overlap or not; it begins and ends when the agent says so, and is never joined where it does not say that.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from rotoscope.recorder.calls import SeenCall, SeenRun
from rotoscope.recorder.conversations import Turn
from rotoscope.recorder.descent import Conversation, Descent, find_descent
from rotoscope.recorder.told import Told
from rotoscope.traces.journal import BranchBegan, RegionJoined
from rotoscope.traces.model import Branch, ForkEvidence


@dataclass(slots=True)
class Region:
    """A set of conversations that ran beside one another and their parent's branch."""

    conversations: list[int]
    """Branch by branch, by their first calls."""
    parent: int
    """The conversation whose branch it stands on."""
    evidence: ForkEvidence
    number: int = -1
    branch: Branch | None = None
    """That it stands on."""
    begins_before: int = 0
    """The call that the start of the region stands before."""
    last_call: int = 0
    """Of the region, and of all that was begun below it."""
    start_ms: float = 0.0
    end_ms: float = 0.0
    agents: int = 0
    """How many of its branches are neither side calls nor duplicates."""
    has_gap: bool = True
    """Whether its parent's branch did nothing until all of it had ended."""
    told: BranchBegan | None = None
    """What the agent told of its beginning."""
    joined: RegionJoined | None = None
    """What it told of its end."""

    @property
    def is_awaited(self) -> bool:
        """Whether the time in which it ran is not that of its parent's tools."""
        return self.has_gap and self.agents > 0


@dataclass(slots=True)
class Lanes:
    """The branch of each conversation, and the regions in the order of their starts."""

    branches: dict[int, Branch | None]
    threads: dict[int, Branch | None] = field(default_factory=dict)
    """The branch of each thread."""
    regions: list[Region] = field(default_factory=list)


def find_lanes(run: SeenRun, turns: Sequence[Turn], told: Told) -> Lanes:
    """Assign conversations to branches."""

    def is_alike(earlier: SeenCall, later: SeenCall) -> bool:
        """Whether the later one has the same instructions, and the same tools or none."""
        instructions = {run.tree.instructions_id(call.head) for call in (earlier, later)}
        tools = run.tree.tools_of(later.head)
        has_same = len(instructions) == 1 and instructions != {-1} and earlier.domain == later.domain
        return has_same and tools in (None, run.tree.tools_of(earlier.head))

    return _Layout(run.calls, find_descent(run.calls, turns, told, is_alike), told).lanes()


@dataclass(slots=True)
class _Layout:
    """Branches are named by the conversation that each begins with until regions have numbers."""

    calls: Sequence[SeenCall]
    descent: Descent
    told: Told
    owners: dict[int, int] = field(default_factory=dict)
    """The branch that each conversation runs in."""
    regions: list[Region] = field(default_factory=list)
    """Those of a branch stand before those below it."""
    lines: dict[int, list[SeenCall]] = field(default_factory=dict)
    """The calls of each branch, in order."""

    def lanes(self) -> Lanes:
        """Return the branches by their final numbers."""
        self._lay_out()
        self.regions = [part for region in self.regions for part in self._parts(region)]
        self._place()
        depths = self._depths()
        order = sorted(self.regions, key=lambda x: (x.begins_before, depths[x.parent], x.conversations[0]))
        branches: dict[int, Branch | None] = {self.descent.root: None}
        for number, region in enumerate(order):
            region.number = number
            branches.update({owner: (number, index) for index, owner in enumerate(region.conversations)})
        for region in order:
            region.branch = branches[region.parent]
        found = {x: branches[self.owners[x]] for x in sorted(self.owners)}
        return Lanes(found, {thread: found[main] for thread, main in self.descent.mains.items()}, order)

    def _lay_out(self) -> None:
        waiting = [self.descent.root]
        while waiting:
            owner = waiting.pop()
            inside, beside = self._branch(owner)
            self.owners.update(dict.fromkeys(inside, owner))
            numbers = sorted(call.number for x in inside for call in self.descent.conversations[x].calls)
            self.lines[owner] = [self.calls[number] for number in numbers]
            for evidence, group in beside:
                self.regions.append(Region(group, owner, evidence))
                waiting.extend(group)

    def _branch(self, owner: int) -> tuple[list[int], list[tuple[ForkEvidence, list[int]]]]:
        """Return the conversations that run inside a branch, and the sets of those that it began beside it."""
        known = self.descent.conversations
        told: defaultdict[ForkEvidence, list[int]] = defaultdict(list)
        beside: list[tuple[ForkEvidence, list[int]]] = []
        inside, level = [owner], [owner]
        ends: list[tuple[float, int]] = []  # of those inside
        while level:
            for number in level:
                if known[number].calls:
                    insort(ends, (known[number].end_ms, number))
            untold = []
            for child in (child for x in level for child in known[x].children):
                evidence = known[child].evidence
                if evidence is None or evidence == "prefix":
                    untold.append(known[child])
                else:
                    told[evidence].append(child)
            first_ms = min((x.start_ms for x in untold if x.calls), default=inf)
            still = ends[bisect_right(ends, (first_ms, len(known))) :]  # a chain of prompts made anew has many levels
            groups = _overlapping(untold, [known[x] for _, x in still]) if untold else []
            beside += [(self._evidence(group, known[owner]), group) for group in groups]
            taken = {number for group in groups for number in group}
            level = [x.number for x in untold if x.number not in taken]
            inside += level
        return inside, [*told.items(), *beside]

    def _evidence(self, group: Sequence[int], owner: Conversation) -> ForkEvidence:
        """Say how it is known that conversations that nobody is said to have begun stand below a branch."""
        members = [self.descent.conversations[x] for x in group]
        if all(x.evidence == "prefix" for x in members):
            return "prefix"
        source = owner.first.opened.thread_source if owner.calls else None
        if source and all(x.thread == owner.thread and not x.is_main for x in members):
            return source
        return "time"

    def _parts(self, region: Region) -> list[Region]:
        """Return the regions of a set of conversations: those that the agent told of, and those of the rest."""
        parts: dict[int, Region] = {}
        rest: list[int] = []
        for number in sorted(region.conversations):
            began = self._began(number)
            if began is None:
                rest.append(number)
                continue
            joined = self.told.joined.get(began.region)
            part = Region([], region.parent, "own", has_gap=joined is not None, told=began, joined=joined)
            parts.setdefault(began.region, part).conversations.append(number)
            parts[began.region].agents += 1
        places = {branch.thread: place for place, branch in enumerate(self.told.began.values())}
        for part in parts.values():
            part.conversations.sort(key=lambda x: places[self.descent.conversations[x].thread or 0])
        return [*parts.values(), *self._parts_by_time(region, rest)]

    def _began(self, number: int) -> BranchBegan | None:
        """Return what the agent told of the beginning of a conversation."""
        thread = self.descent.conversations[number].thread
        is_main = thread is not None and self.descent.mains.get(thread) == number
        return self.told.began.get(thread) if is_main and thread is not None else None

    def _parts_by_time(self, region: Region, conversations: Sequence[int]) -> list[Region]:
        """Return the parts of a set that begin in one gap of the parent's branch, are joined together, and overlap."""
        known, line = self.descent.conversations, self.lines[region.parent]
        by_gap: defaultdict[tuple[int, int | None], list[int]] = defaultdict(list)
        for number in conversations:
            by_gap[self._gap(number, line)].append(number)
        parts: list[Region] = []
        for (before, behind), numbers in by_gap.items():
            until_ms = -inf
            has_gap = before == behind or before == len(line)
            for number in numbers:
                if known[number].start_ms >= until_ms:
                    parts.append(Region([], region.parent, region.evidence, has_gap=has_gap))
                parts[-1].conversations.append(number)
                parts[-1].agents += known[number].is_main
                until_ms = max(until_ms, known[number].end_ms)
        return parts

    def _gap(self, number: int, line: Sequence[SeenCall]) -> tuple[int, int | None]:
        """Return how many calls of a branch came before a conversation, and before the first behind its end."""
        conversation = self.descent.conversations[number]
        before = bisect_left(line, conversation.first.number, key=lambda call: call.number)
        behind = bisect_left(line, conversation.calls[-1].number, key=lambda call: call.number)
        behind = max(behind, bisect_left(line, conversation.end_ms, key=lambda call: call.start_ms))
        return before, behind if behind < len(line) else None

    def _place(self) -> None:
        """Say when regions begin and end, those below first."""
        reach = {owner: (line[0].number, line[-1].number) for owner, line in self.lines.items() if line}
        for region in reversed(self.regions):
            reached = [reach[x] for x in region.conversations if x in reach]
            first, region.last_call = min(low for low, _ in reached), max(high for _, high in reached)
            calls = (call for x in region.conversations for call in self.lines[x])
            region.end_ms = max((call.end_ms for call in calls), default=0.0)
            if region.told is None:
                region.begins_before = self._in_flight(self.lines[region.parent], self.calls[first])
                region.start_ms = self.calls[region.begins_before].start_ms
            else:
                region.start_ms = region.told.at_ms
                region.begins_before = self._next(self.lines[region.parent], region.start_ms, first)
            low, high = reach.get(region.parent, (first, region.last_call))
            reach[region.parent] = min(low, region.begins_before), max(high, region.last_call)

    def _next(self, line: Sequence[SeenCall], at_ms: float, first: int) -> int:
        """Return the first call behind a time, on a branch or of those that it began."""
        index = bisect_left(line, at_ms, key=lambda call: call.start_ms)
        return min(first, line[index].number) if index < len(line) else first

    def _in_flight(self, line: Sequence[SeenCall], first: SeenCall) -> int:
        """Return the call of a branch that is in flight when another one begins, or that one itself."""
        index = bisect_left(line, first.number, key=lambda call: call.number)
        begins = first.number
        while index and line[index - 1].end_ms > first.start_ms:
            index -= 1
            begins = line[index].number
        return begins

    def _depths(self) -> dict[int, int]:
        depths = {self.descent.root: 0}
        for region in self.regions:
            depths.update(dict.fromkeys(region.conversations, depths[region.parent] + 1))
        return depths


def _overlapping(conversations: Sequence[Conversation], line: Sequence[Conversation]) -> list[list[int]]:
    """Return the sets of conversations that were in flight together, or together with a branch, by their first calls.

    Those in flight at any moment are one set already, so that a call is only compared with one of them.
    """
    leader: dict[int, int] = {}
    in_flight: list[tuple[float, int]] = []
    line_ends: list[float] = []
    line_numbers = {x.number for x in line}

    def find(number: int) -> int:
        while leader.setdefault(number, number) != number:
            number = leader[number]
        return number

    calls = [(call.number, call, x.number) for x in (*conversations, *line) for call in x.calls]
    for _, call, mine in sorted(calls, key=lambda x: x[0]):
        while in_flight and in_flight[0][0] <= call.start_ms:
            heapq.heappop(in_flight)
        while line_ends and line_ends[0] <= call.start_ms:
            heapq.heappop(line_ends)
        if mine in line_numbers:
            for _, number in in_flight:
                find(number)
            heapq.heappush(line_ends, call.end_ms)
            continue
        if line_ends:
            find(mine)
        other = next((number for _, number in in_flight if number != mine), None)
        if other is not None:
            first, second = sorted((find(mine), find(other)))
            leader[second] = first
        heapq.heappush(in_flight, (call.end_ms, mine))
    groups: dict[int, list[int]] = {}
    for number in sorted(leader):
        groups.setdefault(find(number), []).append(number)
    return list(groups.values())
