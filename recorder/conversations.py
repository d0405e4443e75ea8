"""Which call belongs to which conversation, and which messages each call brought into it.

A call belongs to the conversation whose list it shares most messages with, one beyond the system messages at least,
if that conversation's last call had ended when it arrived: it extends the list, or cuts it first (a rewind). Of several
it takes the one whose list ends there, else the first: who goes on behind a fork is the one that forked. Otherwise it
begins a conversation. Messages are compared by their loose form; a conversation may change its model.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from rotoscope.recorder.calls import SeenCall, SeenRun
from rotoscope.recorder.part_tree import common_length


@dataclass(frozen=True, slots=True)
class Turn:
    """A call in its conversation."""

    conversation: int
    messages: tuple[int, ...]
    """The prompt's parts without the tools."""
    kept: int
    """So many messages were in the list before; the others entered with this call."""
    before: int | None
    """The conversation's previous call."""
    carries_tools: int = 0
    """Tool results in the prompt right behind the answer of the previous call."""


@dataclass(slots=True)
class _Conversation:
    number: int
    messages: tuple[int, ...] = ()
    """Loose ids of the list, the last answer included."""
    last: SeenCall | None = None
    last_length: int = 0
    """Messages in the prompt of the last call."""


class Threader:
    """Assign calls to conversations in the order of their numbers."""

    def __init__(self, run: SeenRun) -> None:
        self._run = run
        self._conversations: list[_Conversation] = []
        self._holders: defaultdict[int, set[int]] = defaultdict(set)
        """By loose id, the conversations whose list holds it."""

    def turns(self) -> list[Turn]:
        """Return the turn of each call."""
        return [self._turn(call) for call in self._run.calls]

    def _turn(self, call: SeenCall) -> Turn:
        tree = self._run.tree
        parts, ids = tree.messages(call.head), tree.message_ids(call.head)
        head = tree.node(call.head)
        leading = head.leading - (0 <= head.tools < head.leading)
        conversation = self._find(call, ids, leading) or self._begin()
        before = conversation.last
        if before is not None and is_same_request(before, call):
            kept = len(parts)
        else:
            kept = common_length(conversation.messages, ids)
        carries = self._tool_results(parts, conversation.last_length) if kept >= conversation.last_length else 0
        self._put(conversation, call, ids)
        return Turn(conversation.number, parts, kept, None if before is None else before.number, carries)

    def _find(self, call: SeenCall, ids: Sequence[int], leading: int) -> _Conversation | None:
        for index in range(len(ids) - 1, leading - 1, -1):
            holders = [self._conversations[number] for number in self._holders.get(ids[index], ())]
            free = [x for x in holders if x.last is not None and _may_follow(x.last, call)]
            if free:
                return max(free, key=lambda x: (len(x.messages) == index + 1, -x.number))
        return None

    def _begin(self) -> _Conversation:
        self._conversations.append(_Conversation(len(self._conversations)))
        return self._conversations[-1]

    def _put(self, conversation: _Conversation, call: SeenCall, ids: tuple[int, ...]) -> None:
        answered = ids if call.answer is None else (*ids, self._run.tree.node(call.answer).message_id)
        kept = common_length(conversation.messages, answered)
        for gone in conversation.messages[kept:]:
            self._holders[gone].discard(conversation.number)
        for new in answered[kept:]:
            self._holders[new].add(conversation.number)
        conversation.messages = answered
        conversation.last = call
        conversation.last_length = len(ids)

    def _tool_results(self, parts: Sequence[int], answer: int) -> int:
        """Count the tool results behind the answer at index `answer`, which the client may have written anew."""
        if answer >= len(parts) or self._run.tree[parts[answer]].role != "assistant":
            return 0
        count = 0
        while answer + 1 + count < len(parts) and self._run.tree[parts[answer + 1 + count]].role == "tool":
            count += 1
        return count


def _may_follow(last: SeenCall, call: SeenCall) -> bool:
    return last.end_ms <= call.start_ms or is_same_request(last, call)


def is_same_request(a: SeenCall, b: SeenCall) -> bool:
    """Whether two calls are choices of one request."""
    return a.opened.request is not None and a.opened.request == b.opened.request
