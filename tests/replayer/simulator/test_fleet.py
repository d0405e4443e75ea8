from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from event_loops import in_event_loop
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.simulator.block_cache import BlockCache
from rotoscope.replayer.simulator.engine import Engine
from rotoscope.replayer.simulator.fleet import Fleet, Replica, router_named
from rotoscope.replayer.simulator.scheduler import Generation, Scheduler
from rotoscope.replayer.simulator.timing import JumpingClock, Timing
from rotoscope.traces.analysis.profiles import profile_named
from rotoscope.traces.errors import RunFailed, UnusableInput

TIMING = Timing(prefill_tokens_per_s=1000.0, decode_step_s=((1, 0.01),))
ROUTERS = ("round-robin", "kv")


def make_fleet(router: str, replicas: int = 2, *, blocks: int = 1000, max_batch: int = 8) -> Fleet:
    profile = profile_named("vllm")
    schedulers = [Scheduler(BlockCache(blocks), TIMING, profile, max_batch=max_batch) for _ in range(replicas)]
    return Fleet([Replica(Engine(scheduler, JumpingClock())) for scheduler in schedulers], router_named(router))


def make_generation(prompt_tokens: int = 64, output_tokens: int = 1, *, first: int = 0) -> Generation:
    prompt = np.arange(first, first + prompt_tokens, dtype=np.uint32)
    return Generation(prompt, np.arange(output_tokens, dtype=np.uint32))


def send(fleet: Fleet, generation: Generation) -> int:
    """Submit a call where the router says and return the index of that replica."""
    replica = fleet.replica_for([generation])
    replica.engine.scheduler.submit(generation, 0.0)
    return fleet.replicas.index(replica)


def finish(fleet: Fleet) -> None:
    """Let all replicas compute what they have."""
    for replica in fleet.replicas:
        scheduler = replica.engine.scheduler
        while scheduler.next_stretch(0.0) is not None:
            scheduler.complete()


def serve(fleet: Fleet, generations: Sequence[Generation]) -> Iterator[int]:
    """Serve one call after the other and yield where each went."""
    for generation in generations:
        yield send(fleet, generation)
        finish(fleet)


def conversation(first: int, turns: int) -> list[Generation]:
    return [make_generation(160 * (turn + 1), first=first) for turn in range(turns)]


def test_round_robin_deals_in_turn() -> None:
    fleet = make_fleet("round-robin", 3)

    assert list(serve(fleet, conversation(0, 7))) == [0, 1, 2, 0, 1, 2, 0]


def test_kv_keeps_a_growing_conversation_where_it_is() -> None:
    fleet = make_fleet("kv", 3)
    send(fleet, make_generation(first=50_000))  # busy, so that the conversation begins elsewhere

    first = send(fleet, make_generation(160))
    finish(fleet)

    assert first == 1
    assert set(serve(fleet, conversation(0, 6))) == {1}


def test_conversations_hit_more_by_kv_than_by_round_robin() -> None:
    found = {}
    for router in ROUTERS:
        fleet = make_fleet(router, 3)
        turns = zip(*(conversation(first * 10_000, 6) for first in range(4)), strict=True)
        for at_once in turns:
            for call in at_once:
                send(fleet, call)
            finish(fleet)
        found[router] = sum(replica.engine.scheduler.counts.hit_tokens for replica in fleet.replicas)

    # by kv all but the first turn of each: 160 + 320 + 480 + 640 + 800 tokens
    assert found["kv"] == 4 * 2400
    assert found["round-robin"] < found["kv"] / 2


def test_kv_spreads_what_shares_nothing_by_load() -> None:
    fleet = make_fleet("kv", 3)

    assert [send(fleet, make_generation(first=first)) for first in range(0, 60_000, 10_000)] == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize(("load_tokens", "expected"), [(400, 0), (600, 1)])
def test_kv_leaves_a_cached_prefix_where_the_load_there_costs_more_than_it_saves(
    load_tokens: int, expected: int
) -> None:
    fleet = make_fleet("kv")
    list(serve(fleet, [make_generation(1024)]))  # 64 blocks are on the first replica
    fleet.replicas[0].engine.scheduler.submit(make_generation(load_tokens, first=50_000), 0.0)

    # what is in use grows by as many blocks on both; there are 64 blocks to compute on the second, and on the first
    # load / 16 to compute and as many in use: 50 in all, or 75
    assert send(fleet, make_generation(1025)) == expected


def test_kv_counts_a_prefix_that_running_calls_hold_as_no_further_load() -> None:
    fleet = make_fleet("kv")
    first, second = (replica.engine.scheduler for replica in fleet.replicas)
    for scheduler in (first, second):
        scheduler.submit(make_generation(320), 0.0)
        while scheduler.next_stretch(0.0) is not None:
            scheduler.complete()
    # both have the prefix; the second one's is in use by a call, the first has another call of the same size
    for scheduler, start in ((first, 50_000), (second, 0)):
        call = make_generation(320, 100, first=start)
        scheduler.submit(call, 0.0)
        while not call.decoding or not call.generated:
            assert scheduler.next_stretch(0.0) is not None
            scheduler.complete()

    assert send(fleet, make_generation(321)) == 1


def test_of_equal_costs_fewest_calls_decide() -> None:
    fleet = make_fleet("kv")
    first, second = (replica.engine.scheduler for replica in fleet.replicas)
    first.submit(make_generation(16), 0.0)
    first.submit(make_generation(16, first=500), 0.0)
    second.submit(make_generation(32, first=900), 0.0)

    assert send(fleet, make_generation(16, first=2000)) == 1


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 200)), max_size=12), st.sampled_from(ROUTERS))
def test_the_same_requests_go_the_same_ways(requests: list[tuple[int, int]], router: str) -> None:
    def ways() -> list[int]:
        fleet = make_fleet(router, 3, blocks=20)
        return list(serve(fleet, [make_generation(length, first=which * 1000) for which, length in requests]))

    assert ways() == ways()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 200)), max_size=12), st.sampled_from(ROUTERS))
def test_one_replica_hits_what_it_hits_without_a_router(requests: list[tuple[int, int]], router: str) -> None:
    def calls() -> list[Generation]:
        return [make_generation(length, first=which * 1000) for which, length in requests]

    fleet, alone = make_fleet(router, 1, blocks=20), make_fleet(router, 1, blocks=20).replicas[0].engine.scheduler
    assert set(serve(fleet, calls())) <= {0}
    for call in calls():
        alone.submit(call, 0.0)
        while alone.next_stretch(0.0) is not None:
            alone.complete()

    assert fleet.replicas[0].engine.scheduler.counts == alone.counts


def test_all_outputs_of_a_request_go_to_one_replica() -> None:
    fleet = make_fleet("round-robin")

    chosen = [fleet.replica_for([make_generation(), make_generation(first=500)]) for _ in range(2)]

    assert chosen == list(fleet.replicas)


@in_event_loop
async def test_an_engine_that_fails_stops_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = make_fleet("round-robin")
    monkeypatch.setattr(fleet.replicas[1].engine.scheduler, "next_stretch", lambda now_s, start_s: 1 / 0)
    running = asyncio.create_task(fleet.run())

    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        await running
    for replica in fleet.replicas:
        with pytest.raises(RunFailed, match="has stopped"):
            await anext(replica.engine.generate([make_generation()]))


def test_a_router_has_a_name_that_is_known() -> None:
    with pytest.raises(UnusableInput, match="unknown router 'x': there are round-robin, kv"):
        router_named("x")
