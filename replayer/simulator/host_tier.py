"""The tier behind the cache: blocks that made way on the device, kept in host memory, least recently evicted first out.

A block is here or on the device, never in both. Its parent is on the device, or here and was stored later: the device
evicts children first. So what the two hold together forms whole prefixes, as long as the oldest goes first here too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import takewhile


class HostTier:
    """At most a number of blocks, by their keys."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self._keys: OrderedDict[int, None] = OrderedDict()
        """In the order they were stored."""

    def __len__(self) -> int:
        """Return how many blocks are here."""
        return len(self._keys)

    def __contains__(self, key: int) -> bool:
        """Say whether a block is here."""
        return key in self._keys

    def match(self, keys: Sequence[int]) -> int:
        """Return how many of these blocks, from the first on, are here without a gap."""
        return sum(1 for _ in takewhile(self._keys.__contains__, keys))

    def store(self, keys: Sequence[int]) -> None:
        """Keep blocks that were evicted, children before their parents; the oldest make room."""
        for key in keys:
            self._keys[key] = None
        for _ in range(len(self._keys) - self.blocks):
            self._keys.popitem(last=False)

    def withdraw(self, keys: Sequence[int]) -> int:
        """Give up blocks that go back to the device, from the first on until one is not here; return how many."""
        found = self.match(keys)
        self.discard(keys[:found])
        return found

    def discard(self, keys: Sequence[int]) -> None:
        """Forget blocks that the device has now, those of them that are here."""
        for key in keys:
            self._keys.pop(key, None)
