"""Which call each call goes on from: from what requests tell (`origins.py`) to lines of calls that each go on in order.

All is decided when the run has ended, so that what came later counts:

- Of several calls with the same stream that one call may go on from, it is the first that no other goes on from; how
  many others it could be are its rivals.
- An answer that several calls hold: the first goes on with the conversation, unless it is cut short or set aside while
  another, that was sent beside it or has the same tools and model, is gone on from. A later one is a rewind when what
  the conversation did since had ended and is not gone on from again; else it forked and begins a conversation.
- The same prompt again goes on from the one before when that had ended without being gone on from, from one that was
  cut short first. When all that
  follows the one before is over and it began its conversation, somebody began anew.
- A prompt that holds nothing of any stream but the instructions goes on from a conversation that it is a compaction of:
  one with the same instructions and tools that had ended, is gone on from by nobody, and is longer; its last call was
  asked by the user for a text and not for tools, and the prompt has a message of that length at least that the
  conversation had not. Where the client names the line of calls and there is one conversation in it, half its length is
  enough, or the client's word. One that holds messages behind the instructions too, such as examples, begins anew.
- A call that the client says is beside its work goes on from another such call, or begins a conversation, though it
  began with the list of one; nothing else goes on from it.
- In a line that the client names, the summary may also be made by a call of its own, with other instructions and without
  tools: a list that holds its answer and is shorter goes on from the conversation that had ended before that call.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from rotoscope.recorder.calls import SeenCall, SeenRun
from rotoscope.recorder.origins import Origin, OriginFinder, is_same_request
from rotoscope.recorder.side_calls import find_looks, find_side_calls
from rotoscope.traces.model import LinkEvidence

_CUT_SHORT = ("cancelled", "error", "lost")
_LEAST_SUMMARY_BYTES = 64
_MOST_COMPARED = 64
"""So many calls with the same prompt, or conversations with the same instructions, are compared."""
_Start: TypeAlias = tuple[int | None, int, str]


@dataclass(frozen=True, slots=True)
class Link:
    """What a call goes on from, and how that is known."""

    conversation: int
    before: int | None
    """The conversation's previous call."""
    evidence: LinkEvidence | None
    rivals: int = 0
    is_aside: bool = False
    """Whether it is beside the agent's work."""
    forked: int | None = None
    """The conversation whose list it began with, where it begins one."""


@dataclass(slots=True)
class _Conversation:
    number: int
    first: SeenCall
    last: SeenCall
    is_main: bool
    """Whether it is neither a side call nor a duplicate."""


@dataclass(slots=True)
class Linker:
    """Link the calls of a run in the order of their numbers."""

    run: SeenRun
    origins: list[Origin] = field(init=False)
    links: list[Link] = field(default_factory=list)
    _behind: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By call, those whose requests hold or name its answer."""
    _looks: frozenset[int] = frozenset()
    _asides: frozenset[int] = frozenset()
    _twins: defaultdict[tuple[int | None, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    """Calls with the same prompt."""
    _taken: set[int] = field(default_factory=set)
    """Calls that are gone on from by one that could have gone on from no other."""
    _conversations: list[_Conversation] = field(default_factory=list)
    _mains: Counter[int | None] = field(default_factory=Counter)
    """How many conversations each line has that the client names, but for side calls and duplicates."""
    _grown: defaultdict[_Start, dict[int, _Conversation]] = field(default_factory=lambda: defaultdict(dict))
    """By line, instructions and tools, the conversations that were gone on with, those that took these last the last."""

    def __post_init__(self) -> None:
        self.origins = OriginFinder(self.run).origins()
        for call, origin in zip(self.run.calls, self.origins, strict=True):
            self._twins[call.thread, self._end_of(call)].append(call.number)
            if not self._is_further_choice(call) and origin.kind != "copy":
                for number in origin.calls if origin.is_behind_answer else origin.beneath:
                    self._behind[number].append(call.number)
        self._looks = find_looks(self.run, self.origins, self._behind)
        self._asides = find_side_calls(self.run, self.origins, self._behind) | self._looks

    def find(self) -> list[Link]:
        """Return the link of each call."""
        for call in self.run.calls:
            if self._is_further_choice(call):
                before = self.links[-1]
                link = Link(before.conversation, call.number - 1, before.evidence, is_aside=before.is_aside)
                self._conversations[link.conversation].last = call
            else:
                link = self._link(call)
            self.links.append(link)
        return self.links

    def _link(self, call: SeenCall) -> Link:
        origin = self._effective(call)
        if origin.kind == "copy":
            return self._begin(call, self.links[origin.calls[0]].conversation)
        is_look = call.number in self._looks
        if is_look or self._yields(call, origin):
            forked = self.links[origin.calls[0]].conversation if origin.calls else None
            return self._begin(call, forked, is_main=is_look or not self._is_cut_short(call))
        if origin.kind == "again":
            return self._again(call, origin.calls)
        if origin.calls and (origin.kind != "part" or self._is_alone(call)):
            return self._summed_up_aside(call, origin) or self._go_on(call, origin)
        return (None if origin.calls else self._compacted(call)) or self._begin(call)

    def _effective(self, call: SeenCall) -> Origin:
        """Return the origin of a call; of a prompt that is in flight that of the other, for both came from there."""
        origin = self.origins[call.number]
        while origin.kind == "again":
            beside = [x for x in origin.calls if self.run.calls[x].end_ms > call.start_ms]
            if not beside or (len(beside) < len(origin.calls) and self._left_behind(origin.calls, call)):
                break
            origin = Origin("prefix", origin.beneath) if origin.beneath else self.origins[beside[0]]
        return origin

    def _left_behind(self, numbers: Sequence[int], call: SeenCall) -> list[int]:
        """Return those that had ended when a call arrived, and that nothing goes on from."""
        ended = (x for x in numbers if self.run.calls[x].end_ms <= call.start_ms)
        return [x for x in ended if self._is_last(x) and self._is_free(x, call)]

    def _is_free(self, number: int, call: SeenCall) -> bool:
        """Whether nobody else goes on from a call, but one at most that may as well go on from `call`."""
        behind = [x for x in self._behind[number] if x != call.number]
        return not behind or (len(behind) == 1 and call.number in self.origins[behind[0]].calls)

    def _yields(self, call: SeenCall, origin: Origin) -> bool:
        """Whether another call that came from the same place is the one that goes on with it."""
        if self._behind[call.number]:
            return False
        twins = self._twins[call.thread, self._end_of(call)]
        middle = bisect_left(twins, call.number)
        near = twins[max(0, middle - _MOST_COMPARED) : middle + _MOST_COMPARED]
        beside = [x for x in near if self._is_beside(call, x)]
        if self._is_cut_short(call) and any(not self._is_cut_short(self.run.calls[x]) for x in beside):
            return True
        if any(self._behind[x] for x in beside):
            return bool(origin.calls) or self._is_cut_short(call)
        return any(self._is_set_aside(call, x) for x in origin.calls if origin.is_behind_answer)

    def _is_beside(self, call: SeenCall, number: int) -> bool:
        other = self.run.calls[number]
        if other is call or is_same_request(call, other):
            return False
        return other.start_ms < call.end_ms and call.start_ms < other.end_ms

    def _is_set_aside(self, call: SeenCall, number: int) -> bool:
        """Whether a call differs in tools or model from the one it goes on from, while a later one does not."""
        other = self.run.calls[number]
        if self._is_like(call, other):
            return False
        later = (self.run.calls[x] for x in self._behind[number] if x > call.number)
        return any(self._is_like(x, other) for x in later)

    def _is_like(self, a: SeenCall, b: SeenCall) -> bool:
        return a.domain == b.domain and self._tools_of(a) == self._tools_of(b)

    def _go_on(self, call: SeenCall, origin: Origin) -> Link:
        candidates = self._ordered(call, origin)
        open_ones = [x for x in candidates if self._is_last(x)]
        if origin.kind in ("rewind", "part") or not open_ones:
            return self._back(call, origin, candidates)
        chosen = open_ones[0]
        unsure = sum(x not in self._taken for x in candidates if x != chosen)
        rivals = max(unsure, len(self._behind[chosen]) - 1)
        if not rivals:
            self._taken.add(chosen)
        return self._join(call, chosen, self._said(call, origin), rivals)

    def _ordered(self, call: SeenCall, origin: Origin) -> list[int]:
        """Return candidates in the order in which they are tried."""
        if origin.kind != "answer":
            return list(origin.calls)
        start = self._start_of(call)
        return sorted(origin.calls, key=lambda x: (self._start_of(self.run.calls[x]) != start, -x))

    def _is_last(self, number: int) -> bool:
        """Whether a call, or another choice of its request, is the last of its conversation."""
        last = self._conversations[self.links[number].conversation].last
        return last.number == number or is_same_request(last, self.run.calls[number])

    def _back(self, call: SeenCall, origin: Origin, candidates: Sequence[int]) -> Link:
        """Go back in a conversation, or fork from it where it goes on."""
        for number in candidates:
            last = self._conversations[self.links[number].conversation].last
            if last.end_ms <= call.start_ms and self._is_free(last.number, call):
                is_start = origin.kind != "prefix" and self.links[number].before is None
                conversation = self._conversations[self.links[number].conversation]
                shrinks = _is_summed_up(call, last) or (is_start and self._is_compaction(call, conversation))
                return self._join(call, last.number, "compaction" if shrinks else "rewind", len(candidates) - 1)
        return self._begin(call, self.links[candidates[0]].conversation)

    def _again(self, call: SeenCall, twins: Sequence[int]) -> Link:
        """Send a prompt again that was sent before."""
        if free := self._left_behind(twins, call):
            cut = [x for x in free if self._is_cut_short(self.run.calls[x])]
            chosen = (cut or free)[-1]
            return self._join(call, chosen, "again", len(set(twins) - {chosen}))
        inner = [x for x in twins if self.links[x].before is not None]
        return self._back(call, self.origins[call.number], inner) if inner else self._begin(call)

    def _compacted(self, call: SeenCall) -> Link | None:
        if call.number in self._asides:
            return None
        fitting = [
            x
            for x in islice(reversed(self._grown[self._start_of(call)].values()), _MOST_COMPARED)
            if x.last.end_ms <= call.start_ms and not self._behind[x.last.number] and self._is_compaction(call, x)
        ]
        if not fitting:
            return None
        chosen = max(fitting, key=lambda x: x.last.end_ms)
        return self._join(call, chosen.last.number, "compaction", len(fitting) - 1)

    def _summed_up_aside(self, call: SeenCall, origin: Origin) -> Link | None:
        """Go on from the conversation of the same line that calls with other instructions and no tools summed up."""
        tellers = [self.run.calls[x] for x in origin.calls]
        start, length = self._start_of(call), len(self.run.tree.message_ids(call.head))
        if origin.kind != "answer" or call.thread is None or not start[2]:
            return None
        if any(self._tools_of(x) or self.links[x.number].before is not None for x in tellers):
            return None
        began_ms = min(x.start_ms for x in tellers)
        fitting = [
            x
            for x in islice(reversed(self._grown[start].values()), _MOST_COMPARED)
            if x.last.end_ms <= began_ms
            and not self._behind[x.last.number]
            and length < len(self.run.tree.message_ids(x.last.head))
        ]
        if not fitting:
            return None
        chosen = max(fitting, key=lambda x: x.last.end_ms)
        return self._join(call, chosen.last.number, "compaction", len(fitting) - 1)

    def _is_compaction(self, call: SeenCall, conversation: _Conversation) -> bool:
        last, start = conversation.last, self._start_of(call)
        if start[1:] == (-1, "") or start not in (self._start_of(conversation.first), self._start_of(last)):
            return False
        length, before = (len(self.run.tree.message_ids(x.head)) for x in (call, last))
        if self._is_alone(call) and (2 * length <= before or _is_summed_up(call, last)):
            return True
        tree = self.run.tree
        if length >= before or last.tools or last.answer is None or tree[last.head].role != "user":
            return False
        summary = tree[last.answer].loose_bytes
        long = [x for x in tree.messages(call.head) if tree[x].loose_bytes >= summary >= _LEAST_SUMMARY_BYTES]
        known = {tree.text_digest(x) for x in tree.messages(last.head)} if long else set()
        return any(tree.text_digest(x) not in known for x in long)

    def _begin(self, call: SeenCall, forked: int | None = None, *, is_main: bool = True) -> Link:
        is_aside = call.number in self._asides
        conversation = _Conversation(len(self._conversations), call, call, is_main and not is_aside)
        self._conversations.append(conversation)
        self._mains[call.thread] += conversation.is_main
        return Link(conversation.number, None, None if is_main else "duplicate", is_aside=is_aside, forked=forked)

    def _join(self, call: SeenCall, before: int, evidence: LinkEvidence, rivals: int) -> Link:
        conversation = self._conversations[self.links[before].conversation]
        last = conversation.last
        if last.number == conversation.first.number:
            self._grown[self._start_of(last)][conversation.number] = conversation
        if (start := self._start_of(call)) != self._start_of(last):
            self._grown[start].pop(conversation.number, None)
            self._grown[start][conversation.number] = conversation
        conversation.last = call
        return Link(conversation.number, last.number, evidence, rivals, is_aside=call.opened.aux)

    def _said(self, call: SeenCall, origin: Origin) -> LinkEvidence:
        """Return the evidence of a link: who is named, where that alone tells."""
        if call.opened.thread_source and self._is_alone(call):
            return call.opened.thread_source
        match origin.kind:
            case "part" | "copy" | "none":
                return "rewind"
            case kind:
                return kind

    def _is_alone(self, call: SeenCall) -> bool:
        """Whether the client names who sends a call, and that one has one conversation."""
        return call.thread is not None and self._mains[call.thread] == 1

    def _is_further_choice(self, call: SeenCall) -> bool:
        return call.number > 0 and is_same_request(self.run.calls[call.number - 1], call)

    def _is_cut_short(self, call: SeenCall) -> bool:
        return call.finish_reason in _CUT_SHORT

    def _end_of(self, call: SeenCall) -> int:
        ids = self.run.tree.message_ids(call.head)
        return ids[-1] if ids else -1

    def _start_of(self, call: SeenCall) -> _Start:
        """Return what stands for who sends a prompt, its instructions and its tools."""
        return call.thread, self.run.tree.instructions_id(call.head), self._tools_of(call)

    def _tools_of(self, call: SeenCall) -> str:
        tools = self.run.tree.tools_of(call.head)
        return "" if tools is None else self.run.tree.text_digest(tools)


def _is_summed_up(call: SeenCall, last: SeenCall) -> bool:
    """Whether who sends a call says that what was said up to another one was summed up."""
    mine, before = call.opened.window, last.opened.window
    return call.thread == last.thread and mine is not None and before is not None and mine > before
