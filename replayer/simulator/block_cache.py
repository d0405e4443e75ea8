"""A KV cache of blocks: prefix identity, reference counts, least recently used eviction.

A block is known by a key of everything from the start of its stream to its own end, so equal keys mean equal prefixes.
A lease holds the blocks of one running call. It begins with the cached blocks that its stream starts with; the others
are taken from blocks that nobody holds, those released longest ago first and the deepest first among those released
together. Blocks become findable when they are committed, that is, when they have been computed.

The cached blocks always form whole prefixes (a block's parent is held whenever the block is, and is released no
earlier), which is why the longest match may be searched by bisection. Counts are blocks, not tokens.

With a host tier, what is evicted here goes there, children before their parents, and comes back when a stream needs it.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rotoscope.replayer.simulator.host_tier import HostTier
from rotoscope.replayer.simulator.tokenizer import TokenIds

BlockKeys = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def block_keys(ids: TokenIds, block_size: int, salt: str = "") -> BlockKeys:
    """Return one key for each full block of a stream; streams of another salt share none.

    A key is the sum, modulo 2^64, of a mixed value of each (position, token) up to the end of the block, over the
    digest of the salt: two different prefixes agree with a chance of 2^-64. The mixer is SplitMix64's finaliser
    (Steele, Lea and Flood 2014). 100,000 tokens take about a millisecond, at any block size.
    """
    full = len(ids) // block_size * block_size
    start = np.frombuffer(hashlib.sha256(salt.encode()).digest()[:8], np.uint64)[0]
    value = ids[:full].astype(np.uint64) + np.arange(1, full + 1, dtype=np.uint64) * _GOLDEN
    value = (value ^ (value >> np.uint64(30))) * _MIX_1
    value = (value ^ (value >> np.uint64(27))) * _MIX_2
    value ^= value >> np.uint64(31)
    sums: BlockKeys = np.cumsum(value, dtype=np.uint64)[block_size - 1 :: block_size] + start
    return sums


@dataclass(slots=True, eq=False)
class Lease:
    """The blocks of one running call, in the order of its stream."""

    keys: BlockKeys
    """Of all blocks that may ever be committed."""
    slots: NDArray[np.int64]
    cached: int
    """How many leading blocks were found, here or in the host tier."""
    committed: int
    """How many leading blocks can be found by others."""
    onboarded: int = 0
    """How many of the found blocks, the last ones, had to be brought back from the host tier."""


class BlockCache:
    """A fixed number of blocks, each empty, held by running calls, or cached and free to be evicted."""

    def __init__(self, blocks: int, host: HostTier | None = None) -> None:
        self.blocks = blocks
        self.host = host
        self.held = 0
        """Blocks that running calls hold."""
        self.evictions = 0
        """Cached blocks that were given to another stream."""
        self._slot_of: dict[int, int] = {}
        self._key = np.zeros(blocks, np.uint64)
        self._holders = np.zeros(blocks, np.int64)
        self._released = np.zeros(blocks, np.int64)
        self._findable = np.zeros(blocks, np.bool_)
        self._releases = 0
        self._empty = np.arange(blocks, dtype=np.int64)
        """The first `_empty_count` of them are the empty blocks."""
        self._empty_count = blocks
        self._queue: deque[tuple[int, NDArray[np.int64]]] = deque()
        """Releases with the cached blocks that nobody held after them, some of which may be held or gone by now."""
        self._queued = 0
        """Blocks in the queue, those too."""

    @property
    def cached(self) -> int:
        """Blocks that a prompt could find, held or not."""
        return len(self._slot_of)

    def __contains__(self, key: int) -> bool:
        """Say whether a block is cached."""
        return key in self._slot_of

    def match(self, keys: BlockKeys) -> int:
        """Return how many leading blocks of a stream are cached."""
        return bisect_left(range(len(keys)), True, key=lambda at: int(keys[at]) not in self)

    def held_of(self, keys: BlockKeys) -> int:
        """Return how many of these blocks, which are all cached, running calls hold now."""
        slots = np.fromiter(map(self._slot_of.__getitem__, keys.tolist()), np.int64, len(keys))
        return int(np.count_nonzero(self._holders[slots]))

    def acquire(self, keys: BlockKeys, *, usable: int, total: int) -> Lease | None:
        """Hold `total` blocks for a stream, at most `usable` of them found; None if there is no room now.

        What the host tier has of the stream behind the cached blocks is brought back, into blocks taken for it, and can
        be found by others at once.
        """
        found = self.match(keys[:usable])
        if self.held + total - found > self.blocks:  # spares who waits for room the work below at every step
            return None
        slots = np.fromiter(map(self._slot_of.__getitem__, keys[:found].tolist()), np.int64, found)
        revived = int(np.count_nonzero(self._holders[slots] == 0))
        if self.held + revived + total - found > self.blocks:
            return None
        self._holders[slots] += 1
        # out of the host tier first: its room is for what has to make way here
        onboarded = self.host.withdraw(keys[found:usable].tolist()) if self.host is not None else 0
        taken = self._take(total - found)
        self._holders[taken] = 1
        self.held += revived + len(taken)
        cached = found + onboarded
        if onboarded:
            self._make_findable(keys[found:cached].tolist(), taken[:onboarded])
        return Lease(keys, np.concatenate([slots, taken]), cached, cached, onboarded)

    def commit(self, lease: Lease, count: int) -> None:
        """Make the first `count` blocks of a lease findable; a block that somebody else computed meanwhile is shared."""
        keys = lease.keys[lease.committed : count].tolist()
        shared = next((rank for rank, key in enumerate(keys) if key not in self._slot_of), len(keys))
        for depth, key in enumerate(keys[:shared], lease.committed):
            self._share(lease, depth, self._slot_of[key])
        if shared < len(keys):
            self._make_findable(keys[shared:], lease.slots[lease.committed + shared : count])
        if self.host is not None:
            self.host.discard(keys[shared:])
        lease.committed = max(lease.committed, count)

    def release(self, lease: Lease) -> None:
        """Let go of all blocks of a lease; those that are findable stay cached until they are needed."""
        self._holders[lease.slots] -= 1
        free = lease.slots[self._holders[lease.slots] == 0]
        cached = self._findable[free]
        self._releases += 1
        self._released[free] = self._releases
        self._enqueue(free[cached][::-1])
        self._add_empty(free[~cached])
        self.held -= len(free)

    def _make_findable(self, keys: list[int], slots: NDArray[np.int64]) -> None:
        self._slot_of.update(zip(keys, slots.tolist(), strict=True))
        self._key[slots] = np.array(keys, np.uint64)
        self._findable[slots] = True

    def _share(self, lease: Lease, depth: int, other: int) -> None:
        """Swap a block for an equal one, so that the blocks above a cached block are always cached themselves."""
        own = lease.slots[depth]
        self._holders[own] = 0
        self._add_empty(lease.slots[depth : depth + 1])
        self.held -= 1 if self._holders[other] else 0
        self._holders[other] += 1
        lease.slots[depth] = other

    def _take(self, count: int) -> NDArray[np.int64]:
        """Return blocks that nobody holds, the empty ones first; who was cached in the others is evicted."""
        empty = min(count, self._empty_count)
        self._empty_count -= empty
        taken = self._empty[self._empty_count : self._empty_count + empty].copy()
        if empty == count:
            return taken
        evicted = self._oldest(count - empty)
        keys = self._key[evicted].tolist()
        for key in keys:
            del self._slot_of[key]
        self.evictions += len(keys)
        if self.host is not None:
            self.host.store(keys)
        self._findable[evicted] = False
        return np.concatenate([taken, evicted])

    def _oldest(self, count: int) -> NDArray[np.int64]:
        """Take so many cached blocks that nobody holds off the queue, by release and among those of one the deepest."""
        pieces = []
        while count:
            stamp, slots = self._queue.popleft()
            self._queued -= len(slots)
            slots = self._still_free(stamp, slots)
            if len(slots) > count:
                self._queue.appendleft((stamp, slots[count:]))
                self._queued += len(slots) - count
                slots = slots[:count]
            count -= len(slots)
            pieces.append(slots)
        return np.concatenate(pieces)

    def _still_free(self, stamp: int, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those of the blocks that were free since that release."""
        free: NDArray[np.int64] = slots[(self._holders[slots] == 0) & (self._released[slots] == stamp)]
        return free

    def _add_empty(self, slots: NDArray[np.int64]) -> None:
        self._empty[self._empty_count : self._empty_count + len(slots)] = slots
        self._empty_count += len(slots)

    def _enqueue(self, slots: NDArray[np.int64]) -> None:
        """Put blocks that were released together, the deepest first, at the end of the queue."""
        self._queue.append((self._releases, slots))
        self._queued += len(slots)
        if self._queued > 2 * self.blocks:
            kept = [(stamp, free) for stamp, old in self._queue if len(free := self._still_free(stamp, old))]
            self._queue = deque(kept)
            self._queued = sum(len(free) for _, free in kept)
