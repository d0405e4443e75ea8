"""Messages for calls that have none, such that TensorRT-LLM's replay puts the same prompts together.

That replay keeps a list of segments a conversation and branch. A message overwrites the segment at its index or is
appended; an answer is appended without its reasoning. A prompt is all segments in a row. From that:

1. What a prompt is the first to have is cut into messages where later calls part from it.
2. A call goes on with the conversation of its branch that begins with most of what it shares, overwrites the segments
   from where it parts, with empty messages where there are too many, and appends the rest. Where nothing of what it
   shares is there, it gets a new conversation, and a prompt of new tokens.
3. Shared prefixes are system messages with an id; one that begins like another is two of them. An id is the same in all
   conversations, and a shorter text of it is its beginning.
4. The answer of a call that reasoned is left in the conversation where the next prompt has room for it: then that
   prompt shares the one before it, and not what was reasoned and said after it.

What lies inside an answer, in two conversations or in another branch's cannot be said like that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from rotoscope.traces.model import Branch, Call, Role, SharedPrefix, Trace


class Slot(NamedTuple):
    """A segment of a prompt; equal ones have the same tokens."""

    kind: str
    """`system`, `own` of a call, its `answer`, or `empty`."""
    of: int | str
    start: int
    tokens: int


@dataclass(frozen=True, slots=True)
class MadeMessage:
    """A message before a call."""

    message_index: int
    role: Role
    tokens: int
    shared: str | None = None
    """The shared prefix whose part it is."""


@dataclass(frozen=True, slots=True)
class MadePrompt:
    """How a call's prompt is put together."""

    conversation: int
    messages: tuple[MadeMessage, ...]
    message_index: int
    """Of the answer."""


@dataclass(slots=True)
class _Conversation:
    number: int
    slots: list[Slot] = field(default_factory=list)
    last_call: int | None = None


class PromptMaker:
    """Makes the prompts of a trace in the order of the file; prefixes must be in normal form."""

    def __init__(self, trace: Trace) -> None:
        self._shared = {shared.id: shared for shared in trace.shared_prefixes}
        self._calls = {call.call: call for call in trace.calls()}
        self._cuts: dict[int, set[int]] = {}
        for call in self._calls.values():
            if isinstance(call.prefix.of, int):
                self._cuts.setdefault(call.prefix.of, set()).add(call.prefix.tokens)
        self._prompts: dict[int, list[Slot]] = {}
        self._conversations: dict[Branch | None, list[_Conversation]] = {}
        self._count = 0

    def make(self, call: Call, *, after_tool: bool) -> MadePrompt:
        """Return the messages that come before a call; with `after_tool` the first new one is a tool's."""
        known = self._known(call)
        conversation, kept = self._conversation(call, known)
        known = _with_answer(known, conversation, call, self._calls)
        kept = _common(known, conversation.slots) if kept else 0
        slots = [*known[:kept], *self._new(call, known[kept:], sum(slot.tokens for slot in known))]
        _fill(slots, len(conversation.slots), call.call)
        self._prompts[call.call] = list(slots)
        messages = tuple(_messages(slots, kept, "tool" if after_tool else "user"))
        conversation.slots = [*slots, Slot("answer", call.call, 0, _content(call))]
        conversation.last_call = call.call
        return MadePrompt(conversation.number, messages, len(slots))

    def _known(self, call: Call) -> list[Slot]:
        """Return what a call's prompt has in common with an earlier stream, as far as segments can say it."""
        of, tokens = call.prefix.of, call.prefix.tokens
        if of is None:
            return []
        if isinstance(of, str):
            return list(_system(of, tokens, self._shared))
        owner = self._calls[of]
        if of not in self._prompts:
            return []
        known = _first(self._prompts[of], tokens)
        if tokens == owner.stream_tokens and not owner.reasoning_tokens and owner.completion_tokens:
            known = [*self._prompts[of], Slot("answer", of, 0, owner.completion_tokens)]
        return known

    def _conversation(self, call: Call, known: list[Slot]) -> tuple[_Conversation, int]:
        """Return the conversation that has most of what is known, and how many segments of it; a new one has none."""
        conversations = self._conversations.setdefault(call.branch, [])
        best, kept, most = None, 0, 0
        for conversation in reversed(conversations):
            common = _common(known, conversation.slots)
            tokens = sum(slot.tokens for slot in known[:common] if slot.kind != "system")
            if tokens > most:
                best, kept, most = conversation, common, tokens
        if best is None:
            best = _Conversation(self._count)
            self._count += 1
            conversations.append(best)
        return best, kept

    def _new(self, call: Call, lost: list[Slot], known_tokens: int) -> Iterator[Slot]:
        """Yield the segments that this prompt is the first to have, cut where later ones part from it.

        A system prompt that is not there yet can be had again; anything else that is `lost` is made of new tokens.
        """
        at = known_tokens - sum(slot.tokens for slot in lost)
        for slot in lost:
            if slot.tokens:
                yield slot if slot.kind == "system" else Slot("own", call.call, at, slot.tokens)
            at += slot.tokens
        cuts = sorted(cut for cut in self._cuts.get(call.call, ()) if known_tokens < cut < call.prompt_tokens)
        for start, end in pairwise([known_tokens, *cuts, call.prompt_tokens]):
            if end > start:
                yield Slot("own", call.call, start, end - start)


def _with_answer(known: list[Slot], conversation: _Conversation, call: Call, calls: dict[int, Call]) -> list[Slot]:
    """Leave the answer of a call that reasoned in the prompt that follows it, where there is room."""
    of = call.prefix.of
    if not isinstance(of, int) or conversation.last_call != of:
        return known
    owner, answer = calls[of], conversation.slots[-1]
    fits = call.prompt_tokens - call.prefix.tokens >= answer.tokens
    if owner.reasoning_tokens and call.prefix.tokens == owner.prompt_tokens and fits:
        return [*conversation.slots[:-1], answer]
    return known


def _system(of: str, tokens: int, shared: dict[str, SharedPrefix]) -> Iterator[Slot]:
    way: list[Slot] = []
    while link := shared[of].prefix:
        start = min(link.tokens, tokens)
        way.append(Slot("system", of, start, tokens - start))
        of, tokens = link.of, start
    way.append(Slot("system", of, 0, tokens))
    yield from (slot for slot in reversed(way) if slot.tokens > 0)


def _first(slots: Iterable[Slot], tokens: int) -> list[Slot]:
    """Return the leading segments that lie within the first tokens."""
    first: list[Slot] = []
    for slot in slots:
        tokens -= slot.tokens
        if tokens < 0:
            break
        first.append(slot)
        if tokens == 0:
            break
    return first


def _common(known: list[Slot], slots: list[Slot]) -> int:
    common = 0
    for slot, other in zip(known, slots, strict=False):
        if slot != other:
            break
        common += 1
    return common


def _fill(slots: list[Slot], least: int, call: int) -> None:
    """Cut the last segment, or add empty ones, until none of the conversation's old ones is left."""
    while len(slots) < least:
        last = slots[-1] if slots else None
        if last is not None and last.kind == "own" and last.of == call and last.tokens > 1:
            one = last._replace(tokens=1)
            slots[-1:] = [one, last._replace(start=last.start + 1, tokens=last.tokens - 1)]
        else:
            slots.append(Slot("empty", call, len(slots), 0))


def _messages(slots: list[Slot], kept: int, role: Role) -> Iterator[MadeMessage]:
    for index, slot in enumerate(slots[kept:], kept):
        if slot.kind == "system":
            yield MadeMessage(index, "system", slot.tokens, str(slot.of))
        else:
            yield MadeMessage(index, role, slot.tokens)
            role = "user" if slot.tokens else role


def _content(call: Call) -> int:
    """Return how long an answer is in the conversation; that replay knows none without a token."""
    return max(call.completion_tokens, 1) - call.reasoning_tokens
