"""The parts of a recording as a tree, with what they say about one another without their text.

A prompt is the path from a root to its last part. Two prompts that pass the same part were sent alike up to its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rotoscope.recorder.hashing import SHORT_BYTES
from rotoscope.recorder.parts import border_ends
from rotoscope.traces.journal import PartSeen

_HEX = 2 * SHORT_BYTES
LEADING_ROLES = ("system", "tools")


class PartTree:
    """Paths of prompts through their parts."""

    def __init__(self, parts: Iterable[PartSeen]) -> None:
        self._parts = {part.part: part for part in parts}
        self._paths: dict[int, tuple[int, ...]] = {}

    def __getitem__(self, part: int) -> PartSeen:
        return self._parts[part]

    def path(self, head: int) -> tuple[int, ...]:
        """Return the parts of a prompt from its start to `head`."""
        known = self._paths.get(head)
        if known is None:
            steps, part = [], self._parts[head]
            while part.parent is not None and part.parent not in self._paths:
                steps.append(part.part)
                part = self._parts[part.parent]
            steps.append(part.part)
            before = () if part.parent is None else self._paths[part.parent]
            known = self._paths[head] = before + tuple(reversed(steps))
        return known

    def leading(self, path: Sequence[int]) -> int:
        """Return how many parts of a prompt are system messages and tools before its first other message."""
        for index, part in enumerate(path):
            if self._parts[part].role not in LEADING_ROLES:
                return index
        return len(path)

    def last_user(self, path: Sequence[int]) -> int:
        """Return the index of the last user message of a prompt, -1 when there is none."""
        for index in range(len(path) - 1, -1, -1):
            if self._parts[path[index]].role == "user":
                return index
        return -1

    def text_digest(self, part: int) -> str:
        """Return the digest of a part's loose text."""
        return self._parts[part].borders[-_HEX:]

    def border_digests(self, part: int) -> list[str]:
        """Return the digests of a part's loose text up to each of its borders."""
        borders = self._parts[part].borders
        return [borders[start : start + _HEX] for start in range(0, len(borders), _HEX)]

    def shared_bytes_at_most(self, a: int, b: int) -> int:
        """Return an upper bound of the loose bytes that the texts of two parts have in common at their start."""
        ends_a, ends_b = (border_ends(self._parts[part].loose_bytes) for part in (a, b))
        for end_a, end_b, at_a, at_b in zip(
            ends_a, ends_b, self.border_digests(a), self.border_digests(b), strict=False
        ):
            if at_a != at_b:
                return min(end_a, end_b)
        return min(self._parts[a].loose_bytes, self._parts[b].loose_bytes)


def common_length(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how many leading items two paths share."""
    low, high = 0, min(len(a), len(b))
    # Items name all that is before them, so the paths are alike up to one place and unlike behind it.
    while low < high:
        middle = (low + high + 1) // 2
        if a[middle - 1] == b[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low
