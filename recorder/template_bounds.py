"""Bounds of common prefixes that hold for every tokenizer and chat template of a wide family (trace model, R5).

What is supposed of the tokenizer: it falls back on bytes, so that text of m bytes is at most m tokens; it may merge or
drop whitespace, and nothing else.
What is supposed of the template:

1. It renders the parts of a prompt in their order, each from its own content and what stands before it, and a few words
   (`PART_TOKENS` at most) around it; then it begins the answer (`ANSWER_START_TOKENS` at most, perhaps with an opened
   thinking block, which is absent when the answer is sent back).
2. System messages and tools may be moved into the last user message, before its text, and thinking that was sent back
   may be dropped once another user message follows. So what two prompts share is certain only up to their last user
   message, unless it is the same one; and prompts with different system messages may be alike up to there.
3. It may ignore ids, names, thinking, roles, tools and whitespace: texts that differ in nothing else may be rendered
   alike.

Plain text and token ids (role `text`) are rendered as they are, behind a mark of their beginning at most.

From P of each call: a place is at most P(c) and at least P(c) less what can stand behind it in c.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf

from rotoscope.recorder.calls import SeenCall
from rotoscope.recorder.canonical import ID_BYTES
from rotoscope.recorder.part_tree import PartNode, PartTree, common_length
from rotoscope.traces.journal import PartRole
from rotoscope.traces.model import MAX_COUNT

PART_TOKENS = 24
"""What a template adds to one message at most."""
ANSWER_START_TOKENS = 24
"""What a template writes before an answer at most, tokens that merge across its border included."""
PREAMBLE_TOKENS = 1024
"""What a template adds at most once: a default system message, dates, how to call tools."""
BEGINNING_TOKENS = 8
"""What stands before plain text at most."""

_WITHIN, _NEXT, _LATER = range(3)
"""Where the last user message of a prompt is, seen from a place in it: before, right behind, or further on."""

_Views = list[float]
"""A number for each of the three."""


class Bounds:
    """Lower and upper bounds of what prompts share; made once all calls are known."""

    def __init__(self, tree: PartTree, calls: Iterable[SeenCall]) -> None:
        self._tree = tree
        behind, counted = self._gather(calls)
        self._floors = [max(views) for views in behind]
        self._least: list[_Views] = []
        self._most: list[_Views] = []
        for part in range(len(tree)):
            self._least.append(self._least_at(part, behind[part]))
            self._most.append(self._most_at(part, counted[part]))

    def _gather(self, calls: Iterable[SeenCall]) -> tuple[list[_Views], list[_Views]]:
        """Return for each part what follows from the prompts that pass it, by where their last user message is.

        First the greatest P less all that their parts can be; second the least P.
        """
        behind = [[-inf] * 3 for _ in range(len(self._tree))]
        counted = [[inf] * 3 for _ in range(len(self._tree))]
        for call in calls:
            if call.reported_prompt_tokens is not None:
                tokens = call.reported_prompt_tokens
                head = self._tree.node(call.head)
                behind[call.head][_WITHIN] = max(
                    behind[call.head][_WITHIN], tokens - ANSWER_START_TOKENS - _most_up_to(head)
                )
                counted[call.head][_WITHIN] = min(counted[call.head][_WITHIN], tokens)
        for part in range(len(self._tree) - 1, -1, -1):
            seen = self._tree[part]
            if seen.parent is not None:
                _pass_up(behind[part], behind[seen.parent], max, is_user=seen.role == "user")
                _pass_up(counted[part], counted[seen.parent], min, is_user=seen.role == "user")
        return behind, counted

    def _least_at(self, part: int, behind: _Views) -> _Views:
        node = self._tree.node(part)
        within, right_behind, later = (x + _most_up_to(node) for x in behind)
        if _nothing_moves(node):
            within = right_behind = later = max(within, right_behind, later)
        later = max(later, right_behind) - self._movable(node)
        parent = node.seen.parent
        before = [0.0] * 3 if parent is None else self._least[parent]
        return _with_before([within, right_behind, later], before, max, is_user=node.seen.role == "user")

    def _most_at(self, part: int, counted: _Views) -> _Views:
        node = self._tree.node(part)
        parent = node.seen.parent
        before = [float(_preamble(node.seen.role))] * 3 if parent is None else self._most[parent]
        size = self.most_tokens(part)
        if node.first_thinking == node.count:
            counted = [min(counted)] * 3
        return _with_before(counted, [x + size for x in before], min, is_user=node.seen.role == "user")

    def _movable(self, node: PartNode) -> int:
        """Return how many tokens a template may move out of the start of a prompt."""
        if node.leading == 0:
            return 0
        last = self._tree.path(node.seen.part)[node.leading - 1]
        return _most_up_to(self._tree.node(last)) + PREAMBLE_TOKENS

    def most_tokens(self, part: int) -> int:
        """Return how many tokens a part has at most, with what a template adds to it."""
        seen = self._tree[part]
        return seen.most_tokens + (0 if seen.role == "text" else PART_TOKENS)

    def floor(self, part: int) -> int:
        """Return where a part ends at least, in a template that moves nothing."""
        return int(max(0.0, self._floors[part] + _most_up_to(self._tree.node(part))))

    def least(self, call: SeenCall, other: SeenCall) -> int:
        """Return how many tokens of their prompts two calls share at least.

        Where that would be more than one of them has, the template does something else, and nothing is certain.
        """
        if call.head == other.head:
            return self._least_of_repeated(call, other)
        least = self._least_of_different(call, other)
        counted = [x.reported_prompt_tokens for x in (call, other) if x.reported_prompt_tokens is not None]
        return 0 if any(least > tokens for tokens in counted) else least

    def _least_of_different(self, call: SeenCall, other: SeenCall) -> int:
        mine, theirs = self._tree.node(call.head), self._tree.node(other.head)
        shared = common_length(call.path, other.path)
        if shared == 0 or shared < max(mine.leading, theirs.leading):
            return 0
        part = call.path[shared - 1]
        here, there = self._where(mine, part), self._where(theirs, part)
        if here == there:
            return int(self._least[part][here])
        if _WITHIN not in (here, there):
            return int(self._least[part][_LATER])
        before_user = self._tree.node(part).last_user
        return int(self._least[call.path[before_user - 1]][_LATER]) if before_user > 0 else 0

    def _where(self, head: PartNode, part: int) -> int:
        """Return where the last user message of a prompt is, seen from the end of one of its parts."""
        node = self._tree.node(part)
        if head.last_user < node.count or _nothing_moves(node):
            return _WITHIN
        return _NEXT if head.last_user == node.count else _LATER

    def _least_of_repeated(self, call: SeenCall, other: SeenCall) -> int:
        """A repeated prompt is the same prompt, unless the server counted it differently."""
        if call.reported_prompt_tokens is None or other.reported_prompt_tokens is None:
            return int(self._least[call.head][_WITHIN])
        return call.reported_prompt_tokens if call.reported_prompt_tokens == other.reported_prompt_tokens else 0

    def of_leading(self, call: SeenCall) -> tuple[int, int]:
        """Return bounds of where the system messages and tools at the start of a prompt end."""
        head = self._tree.node(call.head)
        part = call.path[head.leading - 1]
        where = self._where(head, part)
        return int(self._least[part][where]), int(self._most[part][where])

    def most(self, call: SeenCall, other: SeenCall) -> int:
        """Return how many tokens the prompt of `call` shares with the stream of `other` at most."""
        mine, theirs = call.path, _stream_path(other)
        shared = common_length(mine, theirs)
        start = self._most_up_to(call, shared)
        if shared <= len(other.path):
            start = min(start, self._most_up_to(other, shared))
        limits = [start + self._most_alike(call, other, shared)]
        if shared == len(other.path) and self._drops_thinking(mine, theirs, shared):
            limits.append(start + ANSWER_START_TOKENS + self._most_without_thinking(mine[shared], other))
        limits.extend(x for x in (call.reported_prompt_tokens, _stream_tokens(other)) if x is not None)
        return min(limits)

    def most_behind(self, call: SeenCall, count: int, theirs: int | None) -> int:
        """Return how many tokens a prompt shares at most with streams that are alike up to its first `count` parts.

        Behind these they have the part `theirs`, or end.
        """
        alike = ANSWER_START_TOKENS
        if theirs is not None and count < len(call.path):
            alike = self._most_alike_within(call.path[count], theirs)
        most = self._most_up_to(call, count) + alike
        return most if call.reported_prompt_tokens is None else min(most, call.reported_prompt_tokens)

    def leading_tokens(self, call: SeenCall) -> int:
        """Return how many tokens the system messages and tools at the start of a prompt have at most."""
        return sum(self.most_tokens(part) for part in call.path[: self._tree.node(call.head).leading])

    def _most_up_to(self, call: SeenCall, count: int) -> int:
        """Return where the end of the first `count` parts of a prompt is at most."""
        if count == 0:
            return _preamble(self._tree[call.path[0]].role)
        part = call.path[count - 1]
        return int(self._most[part][self._where(self._tree.node(call.head), part)])

    def _most_alike(self, call: SeenCall, other: SeenCall, shared: int) -> int:
        """Return how many tokens two streams could share at most behind the parts that they share for certain.

        That is: if a template ignored what it may ignore. Where their system messages differ, a template may still move
        those into the last message of the user and render what stands before that alike.
        """
        mine, theirs = self._tree.node(call.head), self._tree.node(other.head)
        if shared >= max(mine.leading, theirs.leading):
            return self._most_alike_messages(call.path, _stream_path(other), shared, shared)
        tokens = min(self.leading_tokens(call), self.leading_tokens(other))
        systems = [
            [
                self._tree.text_digest(part)
                for part in x.path[: self._tree.node(x.head).leading]
                if self._is_message(part)
            ]
            for x in (call, other)
        ]
        if systems[0] == systems[1]:
            return tokens + self._most_alike_messages(call.path, _stream_path(other), mine.leading, theirs.leading)
        before_user = max(0, min(mine.last_user - mine.leading, theirs.last_user - theirs.leading))
        ours, others = call.path[: mine.leading + before_user], other.path[: theirs.leading + before_user]
        return tokens + PART_TOKENS + self._most_alike_messages(ours, others, mine.leading, theirs.leading)

    def _most_alike_messages(self, mine: Sequence[int], theirs: Sequence[int], start: int, their_start: int) -> int:
        """Compare two paths from given places on, text by text."""
        tokens = 0
        for a, b in zip(self._messages(mine, start), self._messages(theirs, their_start), strict=False):
            if self._tree.text_digest(a) != self._tree.text_digest(b):
                return tokens + self._most_alike_within(a, b)
            tokens += min(self.most_tokens(a), self.most_tokens(b))
        return tokens + ANSWER_START_TOKENS

    def _most_alike_within(self, a: int, b: int) -> int:
        """Return how many tokens two parts of different text could share at most."""
        if self._tree[a].has_calls or self._tree[b].has_calls:
            return min(self.most_tokens(a), self.most_tokens(b))
        if self._are_unlike(a, b) or self._tree.is_cut(a, b) or "opaque" in (self._tree[a].role, self._tree[b].role):
            return MAX_COUNT
        shared = self._tree.shared_bytes_at_most(a, b)
        if self._tree[a].is_ids:
            return -(-shared // ID_BYTES)
        return min(self.most_tokens(x) - (self._tree[x].loose_bytes - shared) for x in (a, b))

    def _are_unlike(self, a: int, b: int) -> bool:
        """Whether nothing is known of two parts: one is token ids, or plain text, and the other is not."""
        one, other = self._tree[a], self._tree[b]
        return one.is_ids != other.is_ids or (one.role == "text") != (other.role == "text")

    def _drops_thinking(self, mine: Sequence[int], theirs: Sequence[int], index: int) -> bool:
        """Whether a prompt holds the answer that stands at an index of another stream, but without its thinking."""
        if len(mine) <= index or len(theirs) <= index:
            return False
        ours, full = self._tree[mine[index]], self._tree[theirs[index]]
        is_same_text = self._tree.text_digest(mine[index]) == self._tree.text_digest(theirs[index])
        return is_same_text and full.reasoning_bytes > 0 and not ours.reasoning_bytes

    def _most_without_thinking(self, part: int, other: SeenCall) -> int:
        """Return how much an answer without thinking shares at most with the output, where thinking comes first."""
        assert other.end is not None
        return self.most_tokens(part) - max(0, self._tree[part].loose_bytes - other.end.alike_bytes)

    def _messages(self, path: Sequence[int], start: int) -> Iterator[int]:
        return (path[i] for i in range(start, len(path)) if self._is_message(path[i]))

    def _is_message(self, part: int) -> bool:
        return self._tree[part].role != "tools"


def _most_up_to(node: PartNode) -> int:
    """Return how many tokens a prompt has at most up to the end of a part, but for what a template adds once."""
    return node.most_tokens + node.rendered * PART_TOKENS


def _preamble(role: PartRole) -> int:
    """Return how many tokens stand at most before a prompt that begins with a part of a role."""
    return BEGINNING_TOKENS if role == "text" else PREAMBLE_TOKENS


def _nothing_moves(node: PartNode) -> bool:
    """Whether no part up to here could be moved or dropped: no system message, no tools, no thinking."""
    return node.leading == 0 and node.first_thinking == node.count


def _pass_up(views: _Views, parent: _Views, choose: Callable[[float, float], float], *, is_user: bool) -> None:
    """Tell the part before what prompts say of a part, as seen from there."""
    where = _NEXT if is_user else _WITHIN
    parent[where] = choose(parent[where], views[_WITHIN])
    parent[_LATER] = choose(parent[_LATER], choose(views[_NEXT], views[_LATER]))


def _with_before(views: _Views, before: _Views, choose: Callable[[float, float], float], *, is_user: bool) -> _Views:
    """Combine what is known of a part's end with what is known of the part before it."""
    return [
        choose(views[_WITHIN], before[_NEXT if is_user else _WITHIN]),
        choose(views[_NEXT], before[_LATER]),
        choose(views[_LATER], before[_LATER]),
    ]


def _stream_path(call: SeenCall) -> tuple[int, ...]:
    """Return the parts of a prompt and of its answer."""
    return call.path if call.answer is None else (*call.path, call.answer)


def _stream_tokens(call: SeenCall) -> int | None:
    """Return the length of a call's stream where the server counted all of it."""
    if call.reported_prompt_tokens is None or call.completion_source != "usage":
        return None
    return call.reported_prompt_tokens + call.completion_tokens
