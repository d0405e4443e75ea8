from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from token_worlds import Tokens, World, worlds

from rotoscope.replayer.simulator.block_cache import BlockCache, BlockKeys, Lease, block_keys
from rotoscope.replayer.simulator.host_tier import HostTier

SIZES = st.integers(1, 4)
STREAMS = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=12).map(tuple), max_size=30)
DEVICE = 7


def keys(tokens: Tokens, block_size: int) -> BlockKeys:
    return block_keys(np.array(tokens, np.uint32), block_size)


def begin(cache: BlockCache, stream: Tokens, block_size: int = 1) -> Lease | None:
    usable, total = (len(stream) - 1) // block_size, -(-len(stream) // block_size)
    return cache.acquire(keys(stream, block_size), usable=usable, total=total)


def serve(cache: BlockCache, stream: Tokens, block_size: int = 1) -> int:
    """Run a call from begin to end and return how many blocks it found."""
    lease = begin(cache, stream, block_size)
    assert lease is not None
    cache.commit(lease, len(lease.keys))
    cache.release(lease)
    return lease.cached


@settings(max_examples=80)
@given(STREAMS, SIZES, st.integers(1, 12))
def test_one_call_after_another_finds_what_a_cache_of_both_sizes_would_hold(
    streams: list[Tokens], block_size: int, host_blocks: int
) -> None:
    tiered, whole, alone = (
        BlockCache(DEVICE, HostTier(host_blocks)),
        BlockCache(DEVICE + host_blocks),
        BlockCache(DEVICE),
    )

    for stream in streams:
        stream = stream[: DEVICE * block_size]
        found = serve(tiered, stream, block_size)
        assert found == serve(whole, stream, block_size) >= serve(alone, stream, block_size)


@given(STREAMS, SIZES)
def test_behind_a_huge_host_tier_nothing_is_ever_lost(streams: list[Tokens], block_size: int) -> None:
    tiered, unbounded = BlockCache(DEVICE, HostTier(10_000)), BlockCache(10_000)

    for stream in streams:
        stream = stream[: DEVICE * block_size]
        assert serve(tiered, stream, block_size) == serve(unbounded, stream, block_size)


@given(st.data(), worlds(domains=1, chance=True), SIZES, st.integers(1, 12), st.integers(1, 12))
def test_whatever_overlaps_capacities_are_kept_and_both_tiers_together_hold_whole_prefixes(
    data: st.DataObject, world: World, block_size: int, blocks: int, host_blocks: int
) -> None:
    host = HostTier(host_blocks)
    cache, running = BlockCache(blocks, host), list[Lease]()

    for call in world.calls:
        lease = begin(cache, call.stream, block_size)
        if lease is not None:
            running.append(lease)
        for one in data.draw(st.lists(st.sampled_from(running), unique_by=id, max_size=3)) if running else []:
            cache.commit(one, data.draw(st.integers(one.committed, len(one.keys))))
            if data.draw(st.booleans()):
                cache.release(one)
                running.remove(one)
        assert cache.held == len({slot for lease in running for slot in lease.slots.tolist()}) <= blocks
        assert len(host) <= host_blocks
        for other in world.calls:
            ordered = keys(other.stream, block_size).tolist()
            on_device, on_host = [key in cache for key in ordered], [key in host for key in ordered]
            assert not any(here and there for here, there in zip(on_device, on_host, strict=True))
            device = cache.match(np.array(ordered, np.uint64))
            assert sum(on_device) == device
            assert sum(on_host) == host.match(ordered[device:]), "a block is in the host tier without those above it"


def test_what_comes_back_is_told_apart_and_can_be_found_by_others_at_once() -> None:
    host = HostTier(10)
    cache = BlockCache(4, host)
    serve(cache, (1, 2, 3, 4))
    serve(cache, (5, 6))

    lease = begin(cache, (1, 2, 3, 4))

    assert lease is not None
    assert (lease.cached, lease.onboarded) == (3, 1)
    assert cache.match(keys((1, 2, 3, 4), 1)) == 3
    assert lease.committed == 3


def test_what_has_no_room_on_the_device_stays_in_the_host_tier() -> None:
    host = HostTier(10)
    cache = BlockCache(4, host)
    serve(cache, (1, 2, 3))
    held = begin(cache, (5, 6, 7, 8))
    assert held is not None
    assert len(host) == 3

    assert begin(cache, (1, 2, 3)) is None
    assert len(host) == 3

    cache.release(held)
    assert serve(cache, (1, 2, 3)) == 2


def test_the_host_tier_forgets_the_oldest_and_of_one_stream_the_deepest() -> None:
    host = HostTier(3)
    cache = BlockCache(2, host)
    for first in (1, 3, 5):
        serve(cache, (first, first + 1))

    assert host.match(keys((1, 2), 1).tolist()) == 1
    assert host.match(keys((3, 4), 1).tolist()) == 2


def test_a_block_that_is_computed_anew_is_no_longer_in_the_host_tier() -> None:
    host = HostTier(4)
    cache = BlockCache(2, host)
    serve(cache, (1, 2))
    serve(cache, (3, 4))

    assert serve(cache, (1, 2)) == 1  # the last prompt token is computed, whether there is a block of it or not
    assert [key in host for key in keys((1, 2), 1).tolist()] == [False, False]
