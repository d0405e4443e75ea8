"""Steps that are taken together give what they give one by one: times, hits, counts and what is in the cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from token_worlds import World, worlds

from rotoscope.replayer.simulator.block_cache import BlockCache
from rotoscope.replayer.simulator.host_tier import HostTier
from rotoscope.replayer.simulator.scheduler import Generation, Scheduler
from rotoscope.replayer.simulator.timing import Timing
from rotoscope.traces.analysis.profiles import profile_named

TIMING = Timing(
    prefill_tokens_per_s=997.0,
    prefill_attention_s=1e-5,
    decode_step_s=((1, 0.0101), (2, 0.0173), (8, 0.0307)),
    decode_context_s=3.1e-5,
    onboard_token_s=1.7e-4,
)


@dataclass(frozen=True)
class Engine:
    blocks: int
    host_blocks: int
    block_size: int
    profile: str
    max_batch: int
    overhead_s: float
    step_tokens: int

    def scheduler(self) -> Scheduler:
        timing = replace(TIMING, request_overhead_s=self.overhead_s, step_tokens=self.step_tokens)
        cache = BlockCache(self.blocks, HostTier(self.host_blocks) if self.host_blocks else None)
        profile = profile_named(self.profile, block_size=self.block_size)
        return Scheduler(cache, timing, profile, max_batch=self.max_batch)


@dataclass(frozen=True)
class Visit:
    """A call: when it comes, when it is given up, and where somebody looks at its answer."""

    prompt: tuple[int, ...]
    output: tuple[int, ...]
    arrives_s: float
    leaves_s: float | None
    awaited: tuple[int, ...]


engines = st.builds(
    Engine,
    blocks=st.integers(8, 60),
    host_blocks=st.sampled_from([0, 5, 100]),
    block_size=st.integers(1, 4),
    profile=st.sampled_from(["vllm", "prompt-only"]),
    max_batch=st.integers(1, 4),
    overhead_s=st.sampled_from([0.0, 0.0037, 0.11]),
    step_tokens=st.sampled_from([2, 7, 2048]),
)
moments = st.integers(0, 2000).map(lambda n: 0.00071 * n + 1e-7)


@st.composite
def visits(draw: st.DrawFn, world: World) -> list[Visit]:
    visits: list[Visit] = []
    for call in world.calls:
        prompt = call.prompt or (5,)
        output = (*call.output, *range(1_000, 1_000 + draw(st.sampled_from([1, 3, 20, 60]))))
        if draw(st.booleans()) and visits:  # the same again, or what goes on where an answer was by some time
            earlier = draw(st.sampled_from(visits))
            stream = earlier.prompt + earlier.output
            prompt = stream[: draw(st.integers(len(earlier.prompt), len(stream)))]
            output = stream[len(prompt) :] or (9,)
        arrives_s = draw(moments)
        leaves_s = arrives_s + draw(moments) if draw(st.integers(0, 4)) == 0 else None
        awaited = tuple(sorted(draw(st.sets(st.integers(1, len(output)), max_size=2))))
        visits.append(Visit(prompt, output, arrives_s, leaves_s, awaited))
    return visits


def state(scheduler: Scheduler, calls: Sequence[Generation]) -> tuple[Any, ...]:
    """Return all that can be seen of a scheduler from outside."""
    cache, keys = scheduler.cache, {int(key) for call in calls for key in scheduler._keys_of(call)}
    return (
        replace(scheduler.counts, ended=dict(scheduler.counts.ended)),
        [call.generated for call in calls],
        (len(scheduler.running), len(scheduler.waiting)),
        (scheduler.tokens_to_compute(), scheduler.blocks_in_use()),
        (cache.held, cache.cached, cache.evictions),
        {key for key in keys if key in cache},
        {key for key in keys if cache.host is not None and key in cache.host},
        [scheduler.found(call) for call in calls],
    )


def perform(engine: Engine, visits: Sequence[Visit], looks_s: Sequence[float], *, singly: bool) -> tuple[Any, ...]:
    """Let all visits come and go; return what became of them, what was seen on the way, and the stretches it took."""
    scheduler = engine.scheduler()
    calls = [
        Generation(
            np.array(visit.prompt, np.uint32),
            np.array(visit.output, np.uint32),
            awaited=None if singly else visit.awaited,
        )
        for visit in visits
    ]
    events: list[tuple[float, int, str]] = [(look_s, -1, "look") for look_s in looks_s]
    for rank, visit in enumerate(visits):
        if scheduler.blocks_needed(len(visit.prompt) + len(visit.output)) <= engine.blocks:
            events.append((visit.arrives_s, rank, "submit"))
            if visit.leaves_s is not None:
                events.append((visit.leaves_s, rank, "cancel"))
    heap: list[tuple[float, int, str]] = []
    for event in events:
        heappush(heap, event)
    seen, now_s, taken = [], 0.0, 0
    while True:
        stretch = scheduler.next_stretch(now_s)
        next_s = scheduler.next_ready_s() if stretch is None else stretch.end_s
        if heap and (next_s is None or heap[0][0] < next_s):
            now_s, rank, what = heappop(heap)
            if what == "submit":
                scheduler.submit(calls[rank], now_s)
            elif what == "cancel":
                scheduler.cancel(calls[rank], now_s)
            else:
                scheduler.catch_up(now_s)
                seen.append(state(scheduler, calls))
        elif next_s is None:
            break
        else:
            now_s = next_s
            if stretch is not None:
                taken += 1
                scheduler.complete()
    ends = [(call.token_times_s, call.admitted_s, call.cached_tokens, call.ending, call.finished) for call in calls]
    return ends, [*seen, state(scheduler, calls)], taken


@settings(max_examples=400)
@given(st.data(), engines, worlds(domains=1, chance=True), st.lists(moments, max_size=4))
def test_stretches_give_what_single_steps_give(
    data: st.DataObject, engine: Engine, world: World, looks_s: list[float]
) -> None:
    coming = data.draw(visits(world))

    ends, seen, taken = perform(engine, coming, looks_s, singly=False)
    ends_singly, seen_singly, taken_singly = perform(engine, coming, looks_s, singly=True)

    assert ends == ends_singly
    assert seen == seen_singly
    assert taken <= taken_singly


def test_a_long_answer_alone_takes_few_stretches() -> None:
    engine = Engine(200, 0, 16, "vllm", 4, overhead_s=0.0, step_tokens=2048)
    visit = Visit((5,) * 100, (7,) * 1000, 0.0, None, ())

    ends, _, taken = perform(engine, [visit], [], singly=False)

    assert len(ends[0][0]) == 1000
    assert taken == 3


@pytest.mark.parametrize(("later_s", "blocks"), [(0.0, 95), (0.2, 105)])
def test_blocks_that_two_calls_come_to_share_make_room_for_who_waits_at_once(later_s: float, blocks: int) -> None:
    engine = Engine(blocks, 0, 1, "token", 4, overhead_s=0.0037, step_tokens=2048)
    alike = [Visit((5,) * 10, tuple(range(40)), arrives_s, None, ()) for arrives_s in (0.0, later_s)]
    waiting = Visit((6,) * 20, (7,), 0.21, None, ())

    ends, _, taken = perform(engine, [*alike, waiting], [], singly=False)
    ends_singly, _, taken_singly = perform(engine, [*alike, waiting], [], singly=True)

    assert ends == ends_singly
    assert 0.25 < ends[2][1] < ends[0][0][-1]
    assert taken < taken_singly
