"""Which conversation began each conversation, and how that is known.

In this order: the client names who began it, and that one has made a call; its list began as that of another conversation; it began while another one
waited for tools; it is of the same line by the client's word. Otherwise the root's conversation is taken, that of the
first call that nobody is said to have begun and that is no side call.

An agent that makes its prompt anew sends no results to the conversation that asked for tools. One that ended so is gone
on with, in the same branch, by what begins then with the same instructions; on a line of ours, by whatever begins then.

Where the agent tells of its branches itself (`marks.py`), who began one may make its first call later, or none: it then
has a conversation without calls.

Of several conversations that waited for tools one is taken that sent the results when all was over; then one that asked
for more tools than it is known to have begun conversations; then a sub-agent rather than its parent; then the one that
began to wait first.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TypeAlias

from rotoscope.recorder.calls import SeenCall
from rotoscope.recorder.conversations import Turn
from rotoscope.recorder.told import Told
from rotoscope.traces.model import ForkEvidence


@dataclass(slots=True)
class Conversation:
    """The calls of a conversation, and who began it."""

    number: int
    calls: list[SeenCall]
    turns: list[Turn]
    of_thread: int | None = None
    """Who would make its calls, where it has none."""
    parent: int | None = None
    """None for the root's."""
    evidence: ForkEvidence | None = None
    """None where nothing but the time is known of it."""
    children: list[int] = field(default_factory=list)

    @property
    def first(self) -> SeenCall:
        return self.calls[0]

    @property
    def start_ms(self) -> float:
        return self.calls[0].start_ms

    @property
    def end_ms(self) -> float:
        return max(call.end_ms for call in self.calls)

    @property
    def thread(self) -> int | None:
        return self.calls[0].thread if self.calls else self.of_thread

    @property
    def is_main(self) -> bool:
        """Whether it is neither a side call nor a duplicate."""
        return not self.turns or (not self.turns[0].link.is_aside and self.turns[0].link.evidence != "duplicate")


@dataclass(slots=True)
class Descent:
    """The conversations of a run by number, as a tree."""

    conversations: list[Conversation]
    root: int
    mains: dict[int, int]
    """The conversation that stands for each thread."""


_Found: TypeAlias = tuple[int, ForkEvidence | None]
IsAlike: TypeAlias = Callable[[SeenCall, SeenCall], bool]


def _never(one: SeenCall, other: SeenCall) -> bool:
    return False


def find_descent(calls: Sequence[SeenCall], turns: Sequence[Turn], told: Told, is_alike: IsAlike = _never) -> Descent:
    """Say which conversation began each; `is_alike` tells whether a later call may be of an earlier one's agent."""
    known: list[Conversation] = []
    for call, turn in zip(calls, turns, strict=True):
        if turn.conversation == len(known):
            known.append(Conversation(turn.conversation, [], []))
        known[turn.conversation].calls.append(call)
        known[turn.conversation].turns.append(turn)
    mains: dict[int, int] = {}
    for conversation in known:
        if conversation.is_main and conversation.thread is not None:
            mains.setdefault(conversation.thread, conversation.number)
    seen = len(known)
    known += _without_calls(told, mains, seen)
    root = _root(known, told)
    waiting = _Waiting(is_alike, told)
    for conversation in known:
        if conversation.number != root:
            found = _told(conversation, mains, told)
            if found is None and conversation.calls:
                found = (
                    _named(conversation, known, mains, waiting)
                    or _forked(conversation)
                    or waiting.find(conversation)
                    or _same_line(conversation, mains)
                    or (root, None if conversation.first.opened.parent is None else "time")
                )
            conversation.parent, conversation.evidence = found or (root, None)  # agents of a run that nobody began
            if conversation.parent == conversation.number:
                conversation.parent = root
        if conversation.calls:
            waiting.add(conversation)
    for conversation in known:
        if conversation.parent is not None:
            known[conversation.parent].children.append(conversation.number)
    return Descent(known, root, mains)


def _without_calls(told: Told, mains: dict[int, int], number: int) -> list[Conversation]:
    """Return a conversation for each thread that made no call but began, or stood beside, one that did.

    Their numbers go on from `number`, and they join `mains`.
    """
    found: list[Conversation] = []

    def add(thread: int) -> None:
        if thread not in mains:
            mains[thread] = number + len(found)
            found.append(Conversation(mains[thread], [], [], of_thread=thread))

    for thread in list(mains):
        for above in told.line_of(thread):
            add(above)
    regions = {told.began[thread].region for thread in mains if thread in told.began}
    for thread, branch in told.began.items():
        if branch.region in regions and branch.parent in mains:
            add(thread)
    return found


def _root(known: Sequence[Conversation], told: Told) -> int:
    """Return the first conversation that nobody began: of those that the agent tells of, where it does."""
    tellers = {branch.parent for branch in told.began.values()} - set(told.began)
    first = (x.number for x in known if x.is_main and x.thread in tellers)
    begun_by_nobody = (x.number for x in known if x.calls and x.is_main and x.first.opened.parent is None)
    return next(first, next(begun_by_nobody, 0))


def _told(conversation: Conversation, mains: dict[int, int], told: Told) -> _Found | None:
    """Return who began a conversation by what the agent told of its branches."""
    thread = conversation.thread
    if thread is None or thread not in told.began or mains[thread] != conversation.number:
        return None
    return mains[told.began[thread].parent], "own"


def _named(
    conversation: Conversation, known: Sequence[Conversation], mains: dict[int, int], waiting: _Waiting
) -> _Found | None:
    """Return who began a conversation by the client's word: of several of that sender the one that waited for tools."""
    opened = conversation.first.opened
    is_main = opened.thread is not None and mains.get(opened.thread) == conversation.number
    if opened.parent is None or opened.parent == opened.thread or not is_main:
        return None
    parent = mains.get(opened.parent)
    if parent is None or known[parent].first.number > conversation.first.number:
        return None
    found = waiting.find(conversation, sender=opened.parent)
    return (found[0] if found else parent), opened.thread_source


def _forked(conversation: Conversation) -> _Found | None:
    forked = conversation.turns[0].link.forked
    return None if forked is None else (forked, "prefix")


def _same_line(conversation: Conversation, mains: dict[int, int]) -> _Found | None:
    main = mains.get(conversation.thread, conversation.number) if conversation.thread is not None else None
    return None if main is None or main >= conversation.number else (main, None)


@dataclass(slots=True)
class _Gap:
    """Time in which a conversation waited for tools."""

    start_ms: float
    end_ms: float
    conversation: Conversation
    is_answered: bool
    """Whether results were sent at its end."""
    tools: int
    """How many were asked for."""
    begun: int = 0
    """How many conversations it is known to have begun."""
    left_ms: float = inf
    """When its agent had certainly gone on, without sending results."""
    is_over: bool = False

    @property
    def has_room(self) -> bool:
        """Whether it asked for more tools than it is known to have begun conversations."""
        return self.begun < self.tools

    def holds(self, conversation: Conversation) -> bool:
        """Whether a conversation had ended when the results were sent."""
        return self.is_answered and conversation.end_ms <= self.end_ms

    def is_last_before(self, conversation: Conversation) -> bool:
        """Whether the same sender sent no results and may have gone on in a conversation."""
        return self.end_ms == inf and self.conversation.thread == conversation.thread

    def is_made_anew(self, conversation: Conversation, is_alike: IsAlike) -> bool:
        """Whether its agent may go on in a conversation: it ended here, and what tools returned is in another prompt."""
        return self.is_last_before(conversation) and is_alike(self.conversation.calls[-1], conversation.first)

    def leave(self, conversation: Conversation) -> None:
        """Take in that its agent goes on in a conversation: what begins when that has ended was not begun here."""
        self.left_ms = min(self.left_ms, conversation.end_ms)


_Queue: TypeAlias = list[tuple[bool, int, float, int, _Gap]]
"""A heap of gaps: those with room first, the inner ones, the first; they leave it when they come to its top."""


@dataclass(slots=True)
class _Waiting:
    """Conversations by when they wait for tools, in the order in which conversations begin.

    Gaps whose results were sent end then, and are looked at one by one. Others may stay open for as long as the run takes,
    so that of them only the likeliest is looked at.
    """

    _is_alike: IsAlike
    _told: Told
    _coming: list[tuple[float, int, _Gap]] = field(default_factory=list)
    _answered: list[_Gap] = field(default_factory=list)
    _unanswered: _Queue = field(default_factory=list)
    _of_threads: defaultdict[int | None, _Queue] = field(default_factory=lambda: defaultdict(list))
    """The same of each thread."""
    _opened: int = 0
    _lines: set[int | None] = field(default_factory=set)
    _known: dict[int | None, Conversation] = field(default_factory=dict)
    _depths: dict[int | None, int] = field(default_factory=dict)

    def add(self, conversation: Conversation) -> None:
        """Take in a conversation; those that it may have begun come later."""
        self._lines.add(conversation.thread)
        self._known[conversation.number] = conversation
        self._depths[conversation.number] = self._depths.get(conversation.parent, 0) + 1
        left_ms = self._told.joined_ms(conversation.thread)
        followed = zip(
            conversation.calls, [*conversation.calls[1:], None], [*conversation.turns[1:], None], strict=True
        )
        for call, following, turn in followed:
            if call.tools:
                end_ms = inf if following is None else following.sent_ms(call)
                is_answered = turn is not None and turn.carries_tools > 0
                gap = _Gap(call.end_ms, end_ms, conversation, is_answered, tools=len(call.tools), left_ms=left_ms)
                heapq.heappush(self._coming, (gap.start_ms, call.number, gap))

    def find(self, conversation: Conversation, *, sender: int | None = None) -> _Found | None:
        """Find who waited for tools when a conversation began, among those of a sender where one is named."""
        now_ms = conversation.start_ms
        self._open(now_ms)
        if not conversation.is_main:
            return None
        gaps = [gap for gap in self._answered if self._may_begin(gap.conversation, conversation)]
        gaps = [gap for gap in gaps if sender is None or gap.conversation.thread == sender]
        holding = [gap for gap in gaps if gap.holds(conversation)]
        if (unanswered := self._likeliest_unanswered(conversation, sender, now_ms)) is not None:
            gaps.append(unanswered)
        if not gaps:
            return None
        gap = max(holding or gaps, key=self._likely)
        is_sure = len(holding) == 1
        if not is_sure and sender is None:
            if conversation.first.opened.thread_source == "own":
                self._leave(conversation, now_ms)
                return None  # an agent that says on which line it is would say that it is below it
            if gap.is_made_anew(conversation, self._is_alike):
                gap.leave(conversation)
                return gap.conversation.number, None
        gap.begun += 1
        return gap.conversation.number, "tools" if is_sure else "time"

    def _open(self, now_ms: float) -> None:
        while self._coming and self._coming[0][0] <= now_ms:
            gap = heapq.heappop(self._coming)[2]
            if gap.is_answered:
                self._answered.append(gap)
                continue
            self._opened += 1
            entry = self._entry(gap, self._opened)
            heapq.heappush(self._unanswered, entry)
            heapq.heappush(self._of_threads[gap.conversation.thread], entry)
        self._answered = [gap for gap in self._answered if self._may_wait(gap, now_ms)]

    def _entry(self, gap: _Gap, place: int) -> tuple[bool, int, float, int, _Gap]:
        return not gap.has_room, -self._depths[gap.conversation.number], gap.start_ms, place, gap

    def _likeliest_unanswered(self, conversation: Conversation, sender: int | None, now_ms: float) -> _Gap | None:
        """Return the first in order of those without results that may have begun a conversation."""
        if conversation.thread is None or conversation.thread not in self._lines:
            queue = self._unanswered if sender is None else self._of_threads[sender]
        elif sender in (None, conversation.thread):
            queue = self._of_threads[conversation.thread]
        else:
            return None
        while queue:
            has_no_room, _, _, place, gap = queue[0]
            if not self._may_wait(gap, now_ms):
                heapq.heappop(queue)
            elif has_no_room is gap.has_room:
                heapq.heapreplace(queue, self._entry(gap, place))
            else:
                return gap
        return None

    def _leave(self, conversation: Conversation, now_ms: float) -> None:
        """Take in that all that its thread waited for is over when a conversation has ended."""
        queue = self._of_threads[conversation.thread]
        queue[:] = [entry for entry in queue if self._may_wait(entry[-1], now_ms)]
        heapq.heapify(queue)
        for *_, gap in queue:
            if gap.is_last_before(conversation):
                gap.leave(conversation)

    def _likely(self, gap: _Gap) -> tuple[bool, int, float]:
        """Order gaps: those that a conversation is not too many for, the inner ones, the first."""
        return gap.has_room, self._depths[gap.conversation.number], -gap.start_ms

    def _may_wait(self, gap: _Gap, now_ms: float) -> bool:
        """Whether a gap is open; once it is not, it never is."""
        gap.is_over = gap.is_over or gap.end_ms <= now_ms or gap.left_ms <= now_ms or self._has_gone_on(gap, now_ms)
        return not gap.is_over

    def _has_gone_on(self, gap: _Gap, now_ms: float) -> bool:
        """Whether results never came and who began the conversation went on: it has ended with a tool, as some do."""
        parent = None if gap.is_answered else self._known.get(gap.conversation.parent)
        if parent is None:
            return False
        behind = bisect_left(parent.calls, gap.start_ms, key=lambda call: call.start_ms)
        return behind < len(parent.calls) and parent.calls[behind].start_ms < now_ms

    def _may_begin(self, other: Conversation, conversation: Conversation) -> bool:
        """Whether the client's words allow it: who is known by name begins nobody who went on under another before."""
        is_new = conversation.thread is None or conversation.thread not in self._lines
        return is_new or other.thread == conversation.thread
