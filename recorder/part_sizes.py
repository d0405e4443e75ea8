"""How many tokens the text of each part is: counted by a tokenizer at hand, else by its bytes.

These are sizes, and evidence of nothing else: the server's tokenizer may be another one, so no bound of what prompts
share follows from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from rotoscope.recorder.canonical import ID_BYTES, MEDIA_TOKENS
from rotoscope.recorder.part_tree import PartTree
from rotoscope.traces.journal import PartCounted, PartSeen
from rotoscope.traces.model import TokenSource

BYTES_PER_TOKEN = 4
"""A usual ratio, where nothing better is known."""
LEAST_BYTES = 1024
"""From as much counted text on, its ratio is taken for text that was not counted."""
_MOST_TEXT_WITH_MEDIA_BYTES = 4096
"""A part of less text that may take as many tokens as media do has media."""


class PartSizes:
    """The sizes of the parts of a run, in tokens of one tokenizer."""

    def __init__(self, tree: PartTree, counts: Mapping[int, PartCounted], tokenizer: str | None) -> None:
        self._tree = tree
        self._counts = counts
        self.source: TokenSource = f"tokenizer:{tokenizer}" if tokenizer and counts else "estimate"
        """Where numbers come from that were counted."""
        self._bytes_per_token = self._ratio()
        self._up_to: list[float] = []
        self._uncounted_up_to: list[float] = []
        self._thinking_up_to: list[float] = []
        self._messages_up_to: list[int] = []
        self._answers_with_calls_up_to: list[int] = []
        for part in range(len(tree)):
            parent = tree[part].parent
            for sums, size in (
                (self._up_to, self.text(part) + self.reasoning(part)),
                (self._uncounted_up_to, self._uncounted(part)),
                (self._thinking_up_to, self.reasoning(part)),
            ):
                sums.append(size + (0.0 if parent is None else sums[parent]))
            for numbers, is_one in (
                (self._messages_up_to, tree[part].role != "text"),
                (self._answers_with_calls_up_to, tree[part].has_calls),
            ):
                numbers.append(is_one + (0 if parent is None else numbers[parent]))

    def __repr__(self) -> str:
        return f"PartSizes({len(self._counts)} of {len(self._tree)} counted)"

    def text(self, part: int) -> float:
        """Return the size of a part's text without thinking; token ids are as many as they are."""
        if self._tree[part].is_ids:
            return self._tree[part].loose_bytes // ID_BYTES
        counted = self._counts.get(part)
        return self._tree[part].text_bytes / self._bytes_per_token if counted is None else counted.tokens

    def reasoning(self, part: int) -> float:
        """Return the size of a part's thinking."""
        counted = self._counts.get(part)
        return self._tree[part].reasoning_bytes / self._bytes_per_token if counted is None else counted.reasoning_tokens

    def is_counted(self, part: int) -> bool:
        """Whether all of a part's text was counted as it is."""
        counted = self._counts.get(part)
        is_known = self._tree[part].is_ids or _is_empty(self._tree[part])
        return is_known if counted is None else not counted.is_estimate

    def up_to(self, part: int) -> float:
        """Return the size of a prompt up to the end of a part."""
        return self._up_to[part]

    def uncounted_up_to(self, part: int) -> float:
        """Return how much of that was not counted: one token at least where anything was not, no end where none can."""
        return self._uncounted_up_to[part]

    def thinking_up_to(self, part: int) -> float:
        """Return how much of it is thinking, which a template may drop."""
        return self._thinking_up_to[part]

    def messages_up_to(self, part: int) -> int:
        """Return how many of its parts a template renders."""
        return self._messages_up_to[part]

    def answers_with_calls_up_to(self, part: int) -> int:
        """Return how many of its parts are answers that call tools."""
        return self._answers_with_calls_up_to[part]

    def source_of(self, *parts: int) -> TokenSource:
        """Say where the size of some parts comes from."""
        return self.source if all(map(self.is_counted, parts)) else "estimate"

    def source_up_to(self, part: int) -> TokenSource:
        """Say where the size of a prompt up to the end of a part comes from."""
        return "estimate" if self._uncounted_up_to[part] else self.source

    def _uncounted(self, part: int) -> float:
        seen = self._tree[part]
        if self.is_counted(part):
            return 0.0
        if seen.role == "opaque" or _has_media(seen):
            return inf
        return max(1.0, self.text(part) + self.reasoning(part))

    def _ratio(self) -> float:
        parts = [self._tree[part] for part in self._counts]
        bytes_ = sum(part.text_bytes + part.reasoning_bytes for part in parts)
        tokens = sum(count.tokens + count.reasoning_tokens for count in self._counts.values())
        return bytes_ / tokens if tokens and bytes_ >= LEAST_BYTES else BYTES_PER_TOKEN


def _is_empty(part: PartSeen) -> bool:
    return not part.loose_bytes and not part.reasoning_bytes and part.role != "opaque"


def _has_media(part: PartSeen) -> bool:
    text_bytes = part.text_bytes + part.reasoning_bytes
    return part.most_tokens >= MEDIA_TOKENS and text_bytes < _MOST_TEXT_WITH_MEDIA_BYTES
