from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from token_worlds import Tokens, World, common, worlds

from rotoscope.replayer.simulator.block_cache import BlockCache, Lease, block_keys

SIZES = st.integers(1, 4)


def keys(tokens: Tokens, block_size: int, salt: str = "") -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return block_keys(np.array(tokens, np.uint32), block_size, salt)


def serve(cache: BlockCache, stream: Tokens, block_size: int, *, prompt_tokens: int | None = None) -> int:
    """Run a call from begin to end and return its hit in tokens."""
    lease = begin(cache, stream, block_size, prompt_tokens=prompt_tokens)
    assert lease is not None
    cache.commit(lease, len(lease.keys))
    cache.release(lease)
    return lease.cached * block_size


def begin(cache: BlockCache, stream: Tokens, block_size: int, *, prompt_tokens: int | None = None) -> Lease | None:
    prompt_tokens = len(stream) if prompt_tokens is None else prompt_tokens
    total = -(-len(stream) // block_size)
    return cache.acquire(keys(stream, block_size), usable=(prompt_tokens - 1) // block_size, total=total)


class NaiveCache:
    """Least recently used over whole prefixes, by the book: an ordered dictionary, no key arithmetic."""

    def __init__(self, blocks: int, block_size: int) -> None:
        self.blocks, self.size = blocks, block_size
        self.prefixes: OrderedDict[Tokens, None] = OrderedDict()

    def serve(self, stream: Tokens) -> int:
        full = [stream[: (i + 1) * self.size] for i in range(len(stream) // self.size)]
        usable = full[: (len(stream) - 1) // self.size]
        hits = 0
        while hits < len(usable) and usable[hits] in self.prefixes:
            hits += 1
        held = set(usable[:hits])
        room = self.blocks - -(-len(stream) // self.size)
        for prefix in list(self.prefixes):
            if len(self.prefixes) - hits <= room:
                break
            if prefix not in held:
                del self.prefixes[prefix]
        for prefix in reversed(full):  # the deepest is the first to go
            self.prefixes.pop(prefix, None)
            self.prefixes[prefix] = None
        return hits * self.size


@given(worlds(domains=1), SIZES)
def test_one_call_after_another_hits_the_longest_common_prefix(world: World, block_size: int) -> None:
    cache = BlockCache(10_000)
    earlier: list[Tokens] = []

    for call in world.calls:
        longest = max((common(call.prompt, other) for other in earlier), default=0)
        expected = min(longest, len(call.prompt) - 1) // block_size * block_size
        assert serve(cache, call.stream, block_size, prompt_tokens=len(call.prompt)) == expected
        earlier.append(call.stream)


@given(st.data(), worlds(domains=1, chance=True), SIZES)
def test_overlapping_calls_never_hit_more_than_their_common_prefix(
    data: st.DataObject, world: World, block_size: int
) -> None:
    cache, earlier, running = BlockCache(10_000), list[Tokens](), list[Lease]()

    for call in world.calls:
        longest = max((common(call.prompt, other) for other in earlier), default=0)
        lease = begin(cache, call.stream, block_size, prompt_tokens=len(call.prompt))
        assert lease is not None
        assert lease.cached * block_size <= min(longest, len(call.prompt) - 1)
        earlier.append(call.stream)
        running.append(lease)
        step_some(data, cache, running)


def step_some(data: st.DataObject, cache: BlockCache, running: list[Lease]) -> None:
    """Let running calls compute and end in any order."""
    for lease in data.draw(st.lists(st.sampled_from(running), unique_by=id, max_size=3)) if running else []:
        cache.commit(lease, data.draw(st.integers(lease.committed, len(lease.keys))))
        if data.draw(st.booleans()):
            cache.release(lease)
            running.remove(lease)


@settings(max_examples=80)
@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=12).map(tuple), max_size=30), SIZES)
def test_eviction_is_least_recently_used_and_deepest_first(streams: list[Tokens], block_size: int) -> None:
    blocks = 7
    cache, naive = BlockCache(blocks), NaiveCache(blocks, block_size)

    for stream in streams:
        stream = stream[: blocks * block_size]
        assert serve(cache, stream, block_size) == naive.serve(stream)


@given(st.data(), worlds(domains=1, chance=True), SIZES, st.integers(1, 12))
def test_capacity_is_kept_and_cached_blocks_form_whole_prefixes(
    data: st.DataObject, world: World, block_size: int, blocks: int
) -> None:
    cache, running = BlockCache(blocks), list[Lease]()

    for call in world.calls:
        lease = begin(cache, call.stream, block_size, prompt_tokens=len(call.prompt))
        if lease is not None:
            assert len(lease.slots) == -(-len(call.stream) // block_size)
            running.append(lease)
        step_some(data, cache, running)
        assert cache.held == len({slot for lease in running for slot in lease.slots.tolist()}) <= blocks
        assert cache.cached <= blocks
        for other in world.calls:
            ordered = keys(other.stream, block_size)
            found = [int(key) in cache for key in ordered]
            assert sum(found) == cache.match(ordered), "a block is cached without the blocks above it"


def test_a_held_block_is_not_evicted() -> None:
    cache = BlockCache(4)
    held = begin(cache, (1, 2), 1)
    assert held is not None
    cache.commit(held, 2)

    serve(cache, (3, 4), 1)
    serve(cache, (5, 6), 1)

    assert cache.match(keys((1, 2), 1)) == 2
    assert cache.match(keys((3, 4), 1)) == 0


def test_what_does_not_fit_now_is_not_begun_and_takes_nothing() -> None:
    cache = BlockCache(4)
    held = begin(cache, (1, 2, 3), 1)
    assert held is not None

    assert begin(cache, (4, 5), 1) is None
    assert cache.held == 3

    cache.release(held)
    assert begin(cache, (4, 5), 1) is not None


def test_cached_blocks_that_nobody_holds_take_room_when_they_are_used_again() -> None:
    cache = BlockCache(4)
    serve(cache, (1, 2), 1)
    held = begin(cache, (3, 4), 1)

    assert held is not None
    assert begin(cache, (1, 2, 5), 1) is None
    assert begin(cache, (1, 2), 1) is not None


def test_a_block_is_found_only_when_it_has_been_computed() -> None:
    cache = BlockCache(8)
    lease = begin(cache, (1, 2, 3), 1)
    assert lease is not None
    cache.commit(lease, 2)

    assert cache.match(keys((1, 2, 3), 1)) == 2


def test_a_block_that_two_calls_computed_is_kept_once_and_stays_under_its_children() -> None:
    cache = BlockCache(8)
    first, second = begin(cache, (1, 2), 1), begin(cache, (1, 2, 3, 4), 1)
    assert first is not None
    assert second is not None
    cache.commit(first, 2)
    cache.commit(second, 4)
    cache.release(first)

    assert cache.held == 4
    assert cache.cached == 4
    cache.release(second)
    assert cache.held == 0
    assert cache.match(keys((1, 2, 3, 4), 1)) == 4


def test_a_released_block_that_was_never_computed_is_empty() -> None:
    cache = BlockCache(2)
    lease = begin(cache, (1, 2), 1)
    assert lease is not None
    cache.release(lease)

    serve(cache, (3, 4), 1)
    assert cache.evictions == 0


def test_streams_of_another_salt_share_nothing() -> None:
    cache = BlockCache(8)
    serve(cache, (1, 2, 3, 4), 2)

    assert cache.match(keys((1, 2, 3, 4), 2, "tenant")) == 0
    assert cache.match(keys((1, 2, 3, 4), 2)) == 2


@given(st.lists(st.integers(0, 3), max_size=20).map(tuple), st.lists(st.integers(0, 3), max_size=20).map(tuple), SIZES)
def test_keys_agree_exactly_as_far_as_the_streams(a: Tokens, b: Tokens, block_size: int) -> None:
    agreeing = common(tuple(keys(a, block_size).tolist()), tuple(keys(b, block_size).tolist()))

    assert agreeing == common(a, b) // block_size


@pytest.mark.parametrize("block_size", [1, 16, 7])
def test_there_is_one_key_for_each_full_block(block_size: int) -> None:
    assert len(keys(tuple(range(100)), block_size)) == 100 // block_size
