"""The parts of a recording as a tree, with what they say about one another without their text.

A prompt is the path from a root to its last part. Two prompts that pass the same part were sent alike up to its end.
What follows from the parts before a part is found once for each part, so that a growing conversation costs what is new.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from rotoscope.traces.journal import SHORT_DIGEST_BYTES, PartSeen

_HEX = 2 * SHORT_DIGEST_BYTES
_LEADING_ROLES = ("system", "tools")


@dataclass(slots=True)
class PartNode:
    """A part and what is known of the prompt up to its end."""

    seen: PartSeen
    count: int
    """Parts up to here."""
    leading: int
    """How many of them are system messages and tools at the start."""
    last_user: int
    """The index of the last user message, -1 when there is none."""
    first_thinking: int
    """The index of the first part with thinking that was sent back, `count` when there is none."""
    tools: int
    """The index of the tools, -1 when there are none."""
    unseen: int
    """The index of the first part that only the server has, -1 when there is none."""
    most_tokens: int
    """Tokens up to here at most, without what a template adds."""
    rendered: int
    """How many parts up to here a template renders: all but stretches of plain text."""
    message_id: int
    """Equal for parts whose messages up to here have the same roles and loose texts."""
    text_id: int
    """Equal for parts whose messages up to here have the same loose texts."""
    body_id: int
    """The same without the system messages and tools at the start; -1 among those."""


class PartTree:
    """Paths of prompts through their parts, which are numbered from 0 in order."""

    def __init__(self, parts: Iterable[PartSeen]) -> None:
        self._nodes: list[PartNode] = []
        self._paths: dict[int, tuple[int, ...]] = {}
        self._ids: dict[int, tuple[int, ...]] = {}
        self._message_ids: dict[Hashable, int] = {}
        self._text_ids: dict[Hashable, int] = {}
        self.text_parents: list[int] = []
        """By text or body id, the id before it; -1 at the start."""
        for part in parts:
            self._nodes.append(self._node(part))

    def __getitem__(self, part: int) -> PartSeen:
        return self._nodes[part].seen

    def __len__(self) -> int:
        return len(self._nodes)

    def parts(self) -> Iterator[PartSeen]:
        """Yield all parts in order."""
        return (node.seen for node in self._nodes)

    def node(self, part: int) -> PartNode:
        """Return a part with what is known of the prompt up to its end."""
        return self._nodes[part]

    def path(self, head: int) -> tuple[int, ...]:
        """Return the parts of a prompt from its start to `head`."""
        known = self._paths.get(head)
        if known is None:
            steps: list[int] = []
            part: int | None = head
            while part is not None and part not in self._paths:
                steps.append(part)
                part = self._nodes[part].seen.parent
            known = self._paths[head] = (() if part is None else self._paths[part]) + tuple(reversed(steps))
        return known

    def messages(self, head: int) -> tuple[int, ...]:
        """Return the parts of a prompt without the tools."""
        path, tools = self.path(head), self._nodes[head].tools
        return path if tools < 0 else path[:tools] + path[tools + 1 :]

    def message_ids(self, head: int) -> tuple[int, ...]:
        """Return the message ids of the messages of a prompt."""
        known = self._ids.get(head)
        if known is None:
            steps: list[int] = []
            part: int | None = head
            while part is not None and part not in self._ids:
                if self._nodes[part].seen.role != "tools":
                    steps.append(self._nodes[part].message_id)
                part = self._nodes[part].seen.parent
            known = self._ids[head] = (() if part is None else self._ids[part]) + tuple(reversed(steps))
        return known

    def leading_messages(self, head: int) -> int:
        """Return how many system messages a prompt begins with, the tools not counted."""
        node = self._nodes[head]
        return node.leading - (0 <= node.tools < node.leading)

    def instructions_id(self, head: int) -> int:
        """Return the message id of the last system message that a prompt begins with, -1 when there is none."""
        leading = self.leading_messages(head)
        return self.message_ids(head)[leading - 1] if leading else -1

    def tools_of(self, head: int) -> int | None:
        """Return the part that the tools of a prompt are."""
        tools = self._nodes[head].tools
        return None if tools < 0 else self.path(head)[tools]

    def text_digest(self, part: int) -> str:
        """Return the digest of a part's loose text."""
        return self._nodes[part].seen.borders[-_HEX:]

    def border_digests(self, part: int) -> list[str]:
        """Return the digests of a part's loose text up to each of its borders."""
        borders = self._nodes[part].seen.borders
        return [borders[start : start + _HEX] for start in range(0, len(borders), _HEX)]

    def shared_bytes_at_most(self, a: int, b: int) -> int:
        """Return an upper bound of the loose bytes that the texts of two parts have in common at their start."""
        one, other = self[a], self[b]
        for index, ends in enumerate(zip(one.border_ends(), other.border_ends(), strict=False)):
            digest = slice(index * _HEX, (index + 1) * _HEX)
            if one.borders[digest] != other.borders[digest]:
                return min(ends)
        return min(one.loose_bytes, other.loose_bytes)

    def is_cut(self, a: int, b: int) -> bool:
        """Whether two stretches of text may go on alike behind the end of the shorter one, which is no border of both."""
        if self[a].role != "text" or self[b].role != "text":
            return False
        shorter = min(a, b, key=lambda part: self[part].loose_bytes)
        end = self[shorter].loose_bytes
        before_end = slice(max(0, len(self[shorter].border_ends()) - 1) * _HEX)
        return self[a].borders[before_end] == self[b].borders[before_end] and (
            end not in self[a].border_ends() or end not in self[b].border_ends()
        )

    def _node(self, part: PartSeen) -> PartNode:
        before = None if part.parent is None else self._nodes[part.parent]
        count = before.count + 1 if before else 1
        leading = before.leading if before else 0
        if leading == count - 1 and part.role in _LEADING_ROLES:
            leading = count
        thinking = before.first_thinking if before else 0
        if thinking == count - 1 and not part.reasoning_bytes:
            thinking = count
        is_leading = leading == count
        return PartNode(
            seen=part,
            count=count,
            leading=leading,
            last_user=count - 1 if part.role == "user" else before.last_user if before else -1,
            first_thinking=thinking,
            tools=count - 1 if part.role == "tools" else before.tools if before else -1,
            unseen=before.unseen if before and before.unseen >= 0 else count - 1 if part.role == "opaque" else -1,
            most_tokens=part.most_tokens + (before.most_tokens if before else 0),
            rendered=(before.rendered if before else 0) + (part.role != "text"),
            message_id=self._message_id(part, before),
            text_id=self._text_id(part, before.text_id if before else -1),
            body_id=-1 if is_leading else self._text_id(part, before.body_id if before else -1),
        )

    def _message_id(self, part: PartSeen, before: PartNode | None) -> int:
        parent = before.message_id if before else -1
        if part.role == "tools":
            return parent
        return self._message_ids.setdefault((parent, part.role, part.borders[-_HEX:]), len(self._message_ids))

    def _text_id(self, part: PartSeen, before: int) -> int:
        if part.role == "tools":
            return before
        number = self._text_ids.setdefault((before, part.borders[-_HEX:]), len(self._text_ids))
        if number == len(self.text_parents):
            self.text_parents.append(before)
        return number


def common_length(a: Sequence[Hashable], b: Sequence[Hashable]) -> int:
    """Return how many leading items two paths share; an item names all that is before it."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[middle - 1] == b[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low
