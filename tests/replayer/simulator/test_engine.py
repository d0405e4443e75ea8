from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress

import numpy as np
import pytest
from event_loops import in_jumping_loop

from rotoscope.replayer.simulator.block_cache import BlockCache
from rotoscope.replayer.simulator.engine import Engine
from rotoscope.replayer.simulator.scheduler import Generation, Scheduler
from rotoscope.replayer.simulator.timing import ScaledClock, Timing
from rotoscope.traces.analysis.profiles import profile_named
from rotoscope.traces.errors import RunFailed

TIMING = Timing(prefill_tokens_per_s=100.0, decode_step_s=((1, 0.1),), request_overhead_s=0.5)


@asynccontextmanager
async def running_engine(*, speed: float = 1.0, max_batch: int = 4) -> AsyncIterator[tuple[Engine, asyncio.Task[None]]]:
    scheduler = Scheduler(BlockCache(1000), TIMING, profile_named("token"), max_batch=max_batch)
    engine = Engine(scheduler, ScaledClock(speed, monotonic=asyncio.get_running_loop().time))
    task = asyncio.create_task(engine.run())
    try:
        yield engine, task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def make_generation(
    prompt_tokens: int = 100, output_tokens: int = 3, first: int = 0, *, awaited: tuple[int, ...] | None = None
) -> Generation:
    prompt = np.arange(first, first + prompt_tokens, dtype=np.uint32)
    return Generation(prompt, np.arange(output_tokens, dtype=np.uint32), awaited=awaited)


async def times_of(engine: Engine, *generations: Generation) -> list[tuple[float, int]]:
    """Return when tokens came, and how many there were by then."""
    times = []
    async with aclosing(engine.generate(generations)) as progress:
        async for _, _, end in progress:
            times.append((round(asyncio.get_running_loop().time(), 6), end))
    return times


@in_jumping_loop
async def test_tokens_come_when_their_steps_end() -> None:
    async with running_engine() as (engine, _):
        await asyncio.sleep(2.0)

        assert await times_of(engine, make_generation()) == [(3.5, 1), (3.6, 2), (3.7, 3)]


@in_jumping_loop
async def test_speed_shortens_all_of_it() -> None:
    async with running_engine(speed=10.0) as (engine, _):
        assert await times_of(engine, make_generation()) == [(0.15, 1), (0.16, 2), (0.17, 3)]


@in_jumping_loop
async def test_a_request_that_comes_during_a_step_joins_the_next() -> None:
    async with running_engine() as (engine, _):
        first = asyncio.create_task(times_of(engine, make_generation(output_tokens=12)))
        await asyncio.sleep(1.03)
        second = asyncio.create_task(times_of(engine, make_generation(10, 1, first=500)))

        # ready at 1.53, next step begins at 1.6 and computes 10 prompt tokens beside the one that decodes
        assert await second == [(1.8, 1)]
        assert (1.8, 3) in await first


@in_jumping_loop
async def test_a_request_that_comes_where_steps_are_taken_together_joins_the_next_all_the_same() -> None:
    async with running_engine() as (engine, _):
        first = asyncio.create_task(times_of(engine, make_generation(output_tokens=12, awaited=())))
        await asyncio.sleep(1.83)
        second = asyncio.create_task(times_of(engine, make_generation(10, 1, first=500)))

        # first token at 1.5; ready at 2.33, the step in progress then ends at 2.4
        assert await second == [(2.6, 1)]
        assert await first == [(1.5, 1), (2.7, 12)]


@in_jumping_loop
async def test_where_steps_are_taken_together_tokens_are_told_that_somebody_looks_at() -> None:
    async with running_engine() as (engine, _):
        generation = make_generation(output_tokens=50, awaited=(4, 20))

        assert await times_of(engine, generation) == [(1.5, 1), (1.8, 4), (3.4, 20), (6.4, 50)]
        assert generation.token_times_s == pytest.approx([1.5 + 0.1 * step for step in range(50)])


@in_jumping_loop
async def test_who_leaves_where_steps_are_taken_together_makes_room_at_the_end_of_the_step() -> None:
    async with running_engine(max_batch=1) as (engine, _):
        leaving = asyncio.create_task(times_of(engine, make_generation(output_tokens=500, awaited=())))
        waiting = asyncio.create_task(times_of(engine, make_generation(10, 1, first=900)))
        await asyncio.sleep(5.03)
        assert engine.at_this_moment().counts.generated_tokens == 36
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving

        assert await waiting == [(5.2, 1)]
        assert engine.scheduler.counts.generated_tokens == 37


@in_jumping_loop
async def test_who_leaves_is_gone_at_once() -> None:
    async with running_engine(max_batch=1) as (engine, _):
        leaving = asyncio.create_task(times_of(engine, make_generation(output_tokens=500)))
        await asyncio.sleep(5.0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving

        assert engine.scheduler.running == []
        assert engine.scheduler.cache.held == 0
        assert await times_of(engine, make_generation(10, 1, first=500)) == [(5.6, 1)]


@in_jumping_loop
async def test_several_outputs_of_one_request_progress_together() -> None:
    async with running_engine() as (engine, _):
        generations = make_generation(50, 2), make_generation(50, 4, first=500)

        assert [end for _, end in await times_of(engine, *generations)] == [1, 1, 2, 2, 3, 4]


@in_jumping_loop
async def test_an_engine_that_stops_fails_who_waits_and_who_comes() -> None:
    async with running_engine() as (engine, task):
        waiting = asyncio.create_task(times_of(engine, make_generation()))
        await asyncio.sleep(0.7)
        task.cancel()

        with pytest.raises(RunFailed, match="has stopped"):
            await waiting
        with pytest.raises(RunFailed, match="has stopped"):
            await times_of(engine, make_generation())
