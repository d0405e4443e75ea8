"""Bounds of common prefixes that hold for every tokenizer and chat template of a wide family (trace model, R5).

What is supposed of the tokenizer: it falls back on bytes, so that text of m bytes is at most m tokens; it may merge or
drop whitespace, and nothing else.
What is supposed of the template:

1. It renders the parts of a prompt in their order, each from its own content and what stands before it, and a few words
   (`PART_TOKENS` at most) around it; then it begins the answer (`ANSWER_START_TOKENS` at most, perhaps with an opened
   thinking block, which is absent when the answer is sent back).
2. System messages and tools may be moved into the last user message, before its text, and thinking that was sent back
   may be dropped once another user message follows. So what two prompts share is certain only up to their last user
   message, unless it is the same one.
3. It may ignore ids, names, thinking, roles, tools and whitespace: texts that differ in nothing else may be rendered
   alike.

From P of each call: a place is at most P(c) and at least P(c) less what can stand behind it in c.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rotoscope.recorder.calls import SeenCall
from rotoscope.recorder.part_tree import PartTree, common_length

PART_TOKENS = 24
"""What a template adds to one message at most."""
ANSWER_START_TOKENS = 24
"""What a template writes before an answer at most, tokens that merge across its border included."""
PREAMBLE_TOKENS = 1024
"""What a template adds at most once: a default system message, dates, how to call tools."""

_WITHIN, _NEXT, _LATER, _ANYWHERE = "within", "next", "later", "anywhere"
"""Where the last user message of a prompt is, seen from a place in it: before, right behind, or further on."""


@dataclass(frozen=True, slots=True)
class _View:
    """What of a prompt decides how its parts are rendered."""

    path: tuple[int, ...]
    leading: int
    """System messages and tools at the start."""
    last_user: int

    first_thinking: int
    """The first part with thinking that was sent back; the number of parts when there is none."""

    def at(self, count: int) -> str:
        """Return where the last user message is, seen from behind the first `count` parts."""
        nothing_moves = self.leading == 0 and count <= self.first_thinking
        if self.last_user < count or nothing_moves:
            return _WITHIN
        return _NEXT if self.last_user == count else _LATER


class Bounds:
    """Lower and upper bounds of what prompts share; made once all calls are known."""

    def __init__(self, tree: PartTree, calls: Iterable[SeenCall]) -> None:
        self._tree = tree
        self._least: dict[tuple[int, str], int] = {}
        self._most: dict[tuple[int, str], int] = {}
        self._views: dict[int, _View] = {}
        for call in calls:
            if call.reported_prompt_tokens is not None:
                self._learn(self._view(call), call.reported_prompt_tokens)

    def _view(self, call: SeenCall) -> _View:
        known = self._views.get(call.head)
        if known is None:
            path = call.path
            leading = self._tree.leading(path)
            thinking = next((i for i, part in enumerate(path) if self._tree[part].reasoning_bytes), len(path))
            known = self._views[call.head] = _View(path, leading, self._tree.last_user(path), thinking)
        return known

    def _learn(self, view: _View, prompt_tokens: int) -> None:
        behind = ANSWER_START_TOKENS
        moved = self._movable(view)
        for count in range(len(view.path), 0, -1):
            part, where = view.path[count - 1], view.at(count)
            self._raise(part, where, prompt_tokens - behind - (moved if where == _LATER else 0))
            if where == _NEXT:
                self._raise(part, _LATER, prompt_tokens - behind - moved)
            for key in ((part, where), (part, _ANYWHERE)):
                self._most[key] = min(self._most.get(key, prompt_tokens), prompt_tokens)
            behind += self.most_tokens(part)

    def _raise(self, part: int, where: str, tokens: int) -> None:
        if tokens > self._least.get((part, where), 0):
            self._least[part, where] = tokens

    def _movable(self, view: _View) -> int:
        """Return how many tokens a template may move out of the start of a prompt."""
        if view.leading == 0:
            return 0
        return sum(map(self.most_tokens, view.path[: view.leading])) + PREAMBLE_TOKENS

    def most_tokens(self, part: int) -> int:
        """Return how many tokens a part has at most, with what a template adds to it."""
        return self._tree[part].most_tokens + PART_TOKENS

    def least(self, call: SeenCall, other: SeenCall) -> int:
        """Return how many tokens of their prompts two calls share at least."""
        if call.head == other.head:
            return self._least_of_repeated(call, other)
        mine, theirs = self._view(call), self._view(other)
        shared = common_length(mine.path, theirs.path)
        if shared < max(mine.leading, theirs.leading):
            return 0
        least = 0
        for count in range(shared, 0, -1):
            where = _both(mine.at(count), theirs.at(count))
            if where is not None:
                least = max(least, self._least.get((mine.path[count - 1], where), 0))
        return least

    def _least_of_repeated(self, call: SeenCall, other: SeenCall) -> int:
        """A repeated prompt is the same prompt, unless the server counted it differently."""
        if call.reported_prompt_tokens is None or other.reported_prompt_tokens is None:
            return self._least.get((call.head, _WITHIN), 0)
        return call.reported_prompt_tokens if call.reported_prompt_tokens == other.reported_prompt_tokens else 0

    def of_leading(self, call: SeenCall) -> tuple[int, int]:
        """Return bounds of where the system messages and tools at the start of a prompt end."""
        view = self._view(call)
        least = self._least.get((view.path[view.leading - 1], view.at(view.leading)), 0)
        return least, self._most_before(call, view.leading)

    def loose_texts(self, call: SeenCall, *, with_answer: bool) -> list[str]:
        """Return the digests of the texts of a prompt, and of its answer."""
        path = _stream_path(call) if with_answer else call.path
        return [self._tree.text_digest(part) for part in self._messages(path)]

    def most(self, call: SeenCall, other: SeenCall) -> int:
        """Return how many tokens the prompt of `call` shares with the stream of `other` at most."""
        mine, theirs = call.path, _stream_path(other)
        shared = common_length(mine, theirs)
        start = self._most_before(call, shared)
        if shared <= len(other.path):
            start = min(start, self._most_before(other, shared))
        limits = [start + self._most_alike(mine[shared:], theirs[shared:])]
        limits.extend(x for x in (call.reported_prompt_tokens, _stream_tokens(other)) if x is not None)
        return min(limits)

    def _most_before(self, call: SeenCall, count: int) -> int:
        """Return where the end of the first `count` parts of a prompt is at most."""
        view = self._view(call)
        added = 0
        best = PREAMBLE_TOKENS + sum(map(self.most_tokens, view.path[:count]))
        for index in range(count, 0, -1):
            part = view.path[index - 1]
            where = view.at(index) if index > view.first_thinking else _ANYWHERE
            known = self._most.get((part, where))
            if known is not None:
                best = min(best, known + added)
            added += self.most_tokens(part)
            if added >= best:
                break
        return best

    def _most_alike(self, mine: Sequence[int], theirs: Sequence[int]) -> int:
        """Return how many tokens two ends of prompts could share at most if a template ignored what it may ignore."""
        tokens = min(self._tools_tokens(mine), self._tools_tokens(theirs))
        mine, theirs = self._messages(mine), self._messages(theirs)
        for a, b in zip(mine, theirs, strict=False):
            if self._tree.text_digest(a) != self._tree.text_digest(b):
                return tokens + self._most_alike_within(a, b)
            tokens += min(self.most_tokens(a), self.most_tokens(b))
        return tokens + ANSWER_START_TOKENS

    def _most_alike_within(self, a: int, b: int) -> int:
        """Return how many tokens two parts of different text could share at most."""
        if self._tree[a].has_calls or self._tree[b].has_calls:
            return min(self.most_tokens(a), self.most_tokens(b))
        shared = self._tree.shared_bytes_at_most(a, b)
        return min(self.most_tokens(x) - (self._tree[x].loose_bytes - shared) for x in (a, b))

    def _messages(self, path: Sequence[int]) -> list[int]:
        return [part for part in path if self._tree[part].role != "tools"]

    def _tools_tokens(self, path: Sequence[int]) -> int:
        return sum(self.most_tokens(part) for part in path if self._tree[part].role == "tools")


def _both(mine: str, theirs: str) -> str | None:
    """Return from where two prompts look at a place, None when they may render what is before it differently."""
    if mine == theirs:
        return mine
    return None if _WITHIN in (mine, theirs) else _LATER


def _stream_path(call: SeenCall) -> tuple[int, ...]:
    return call.path if call.answer is None else (*call.path, call.answer)


def _stream_tokens(call: SeenCall) -> int | None:
    """Return the length of a call's stream where the server counted all of it."""
    if call.reported_prompt_tokens is None or call.completion_source != "usage":
        return None
    return call.reported_prompt_tokens + call.completion_tokens
