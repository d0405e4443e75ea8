"""The prefix forest of a format that knows messages and their sizes, not tokens.

Conversations are paths in a tree of boundaries; the edge to a boundary is one message. Two streams share what lies on
the path that both have, so a call's prefix is the deepest boundary of its prompt that an earlier stream has too. How
many tokens lie before a boundary:

1. A prompt ends there: its recorded prompt_tokens, of the first such prompt (R5). An answer without reasoning ends
   there: prompt_tokens + completion_tokens of its call.
2. A shared prefix ends there: the size of its messages.
3. Else the boundary lies between two that are known; what is between those is shared out by the sizes of the messages.
   When they add up, no message takes more than its size: the boundary lies as surely as the first of the two, and no
   further than by that. When they do not, the true value may lie anywhere between the two.

An answer with reasoning comes back without it, so it is not the beginning of anything that its call's stream has. An
answer that comes back may be rendered in other tokens than it was generated in; nothing in such a file tells. A prefix
that reaches into an answer therefore has the prompt before it as its least value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rotoscope.traces.forest import Node
from rotoscope.traces.model import MAX_COUNT, Prefix, SharedPrefix, SharedPrefixLink


@dataclass(eq=False, slots=True)
class Boundary:
    """A place between two messages; where it lies is known once a stream has it."""

    parent: Boundary | None
    size: int | None
    """Tokens of the message before it; None when that is not recorded."""
    prompt_tokens: int | None = None
    """Length of the first prompt that ends here."""
    stream: Node | None = None
    """The first stream that has it."""
    at: int = 0
    low: int = 0
    high: int = 0

    def place(self, stream: Node, at: int, low: int, high: int) -> None:
        """Say where in which stream the boundary lies, in tokens from its start: best, least, greatest."""
        self.stream, self.at, self.low, self.high = stream, at, low, high


@dataclass(slots=True)
class _Shared:
    number: int
    prefix: tuple[_Shared, int] | None
    tokens: int = 0

    @property
    def id(self) -> str:
        return f"s{self.number}"


@dataclass(frozen=True, slots=True)
class _Prompt:
    end: Boundary
    answer: Boundary
    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int


@dataclass(slots=True)
class MessageForest:
    """Collect the messages and calls of a trace in order, then derive every prefix."""

    root: Boundary = field(default_factory=lambda: Boundary(None, 0))
    _shared: dict[tuple[str | None, int, str], _Shared] = field(default_factory=dict)
    _shared_ends: dict[tuple[str, int], Boundary] = field(default_factory=dict)
    _shared_of: dict[Boundary, _Shared] = field(default_factory=dict)
    _prompts: list[_Prompt] = field(default_factory=list)
    _unseen: set[Boundary] = field(default_factory=set)
    _answers: set[Boundary] = field(default_factory=set)
    """The ends of outputs that no prompt holds."""

    def message(self, before: Boundary, size: int | None) -> Boundary:
        """Add a message after a boundary; return the boundary after it, the same one if the message is empty."""
        return before if size == 0 else Boundary(before, size)

    def unseen(self, before: Boundary) -> Boundary:
        """Add messages that were never recorded; what a prompt that begins with them shares is not known."""
        unseen = Boundary(before, None)
        if before is self.root:
            self._unseen.add(unseen)
        return unseen

    def shared_message(self, before: Boundary, name: str, size: int) -> Boundary:
        """Add a message that is the same in all conversations that begin with the same named messages.

        Renders of one name may differ in length: all are taken as beginnings of the longest.
        """
        outer = self._shared_of.get(before)
        at = before.at + size
        if size == 0 or at > MAX_COUNT or (outer is None and before is not self.root):
            return self.message(before, size)
        key = (outer.id if outer else None, before.at, name)
        shared = self._shared.setdefault(key, _Shared(len(self._shared), (outer, before.at) if outer else None))
        shared.tokens = max(shared.tokens, at)
        if (shared.id, at) not in self._shared_ends:
            end = self._shared_ends[shared.id, at] = Boundary(before, size)
            end.place(shared.id, at, at, at)
            self._shared_of[end] = shared
        return self._shared_ends[shared.id, at]

    def shared_id(self, boundary: Boundary) -> str | None:
        """Return the id of the shared prefix that ends at a boundary."""
        shared = self._shared_of.get(boundary)
        return shared.id if shared else None

    def call(self, end: Boundary, *, prompt_tokens: int, completion_tokens: int, reasoning_tokens: int) -> Boundary:
        """Add the next call, whose prompt ends at a boundary behind the root; return the boundary after its answer."""
        answer = self.message(end, completion_tokens - reasoning_tokens)
        self._prompts.append(_Prompt(end, answer, prompt_tokens, completion_tokens, reasoning_tokens))
        if end.prompt_tokens is None:
            end.prompt_tokens = prompt_tokens
        return answer

    def shared_prefixes(self) -> tuple[SharedPrefix, ...]:
        """Return the shared prefixes, parents first."""
        return tuple(
            SharedPrefix(
                shared.id,
                "system",
                shared.tokens,
                SharedPrefixLink(shared.prefix[0].id, shared.prefix[1]) if shared.prefix else None,
            )
            for shared in self._shared.values()
        )

    def shared_identity(self) -> list[str]:
        """Return what tells the shared prefixes apart, in their order; equal lists mean the same ids everywhere."""
        return [f"{outer}/{at}/{name}" for outer, at, name in self._shared]

    def prefixes(self) -> list[Prefix]:
        """Return the prefix of every call, in their order; afterwards every boundary of a prompt has its place."""
        return [self._prefix(number, prompt) for number, prompt in enumerate(self._prompts)]

    def _prefix(self, call: int, prompt: _Prompt) -> Prefix:
        known, fresh = prompt.end, list[Boundary]()
        while known.stream is None and known.parent is not None:
            fresh.append(known)
            known = known.parent
        fresh.reverse()
        opaque = bool(fresh) and fresh[0] in self._unseen
        prefix = _shared_part(known, prompt.prompt_tokens, opaque=opaque)
        self._hold(known, call, prompt, fresh)
        _place_all(call, prompt, fresh, prefix)
        if prompt.completion_tokens and not prompt.reasoning_tokens:
            least, end = prompt.prompt_tokens, prompt.prompt_tokens + prompt.completion_tokens
            prompt.answer.place(call, end, least, end)
            self._answers.add(prompt.answer)
        return prefix

    def _hold(self, known: Boundary, call: int, prompt: _Prompt, fresh: Sequence[Boundary]) -> None:
        """Say where the last boundary that earlier streams have too lies in a prompt, for the prompts that follow.

        A prompt that ends there measures it. The message of an answer may end behind the output, so two prompts that
        hold it may share more than either does with the stream of that answer.
        """
        end = prompt.prompt_tokens
        if not fresh and end == known.prompt_tokens and (known.low, known.high) != (end, end):
            known.place(call, end, end, end)
        elif known in self._answers:
            known.high = max(known.high, end - sum(boundary.size or 0 for boundary in fresh))
        self._answers.discard(known)


def _shared_part(known: Boundary, prompt_tokens: int, *, opaque: bool) -> Prefix:
    if opaque:
        return Prefix(None, 0, "opaque", high=prompt_tokens)
    tokens = min(known.at, prompt_tokens)
    low, high = min(known.low, tokens), min(known.high, prompt_tokens)
    return Prefix(
        known.stream if tokens else None,
        tokens,
        "messages",
        low=None if low == tokens else low,
        high=None if high == tokens else high,
    )


def _place_all(call: int, prompt: _Prompt, fresh: list[Boundary], prefix: Prefix) -> None:
    """Place the boundaries that this call's prompt is the first to have."""
    if not fresh:
        return
    start = Boundary(None, 0, at=prefix.tokens, low=prefix.least, high=prefix.greatest)
    fresh[-1].place(call, prompt.prompt_tokens, prompt.prompt_tokens, prompt.prompt_tokens)
    between: list[Boundary] = []
    for boundary in fresh:
        if boundary is not fresh[-1]:
            measured = boundary.prompt_tokens
            if measured is None or not start.at <= measured <= prompt.prompt_tokens:
                between.append(boundary)
                continue
            boundary.place(call, measured, measured, measured)
        _share_out(call, start, between, boundary)
        start, between = boundary, []


def _share_out(call: int, start: Boundary, between: list[Boundary], end: Boundary) -> None:
    """Place boundaries between two known ones by the sizes of the messages."""
    room = end.at - start.at
    unsized = [boundary for boundary in (*between, end) if boundary.size is None]
    rest = max(room - sum(boundary.size or 0 for boundary in (*between, end)), 0)
    for index, boundary in enumerate(unsized):
        boundary.size = rest * (index + 1) // len(unsized) - rest * index // len(unsized)
    total = sum(boundary.size or 0 for boundary in (*between, end))
    exact = total == room and not unsized
    before = 0
    for boundary in between:
        before += boundary.size or 0
        at = start.at + before * room // total if total else start.at
        if exact:
            boundary.place(call, at, start.low + before, at)
        else:
            boundary.place(call, at, start.low, end.high)
