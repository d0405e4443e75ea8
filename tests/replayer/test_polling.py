from __future__ import annotations

import asyncio
import logging

import pytest
from event_loops import in_jumping_loop

from rotoscope.replayer.clock import LoopClock
from rotoscope.replayer.polling import interval_s, looking, sparse_interval_s


async def looks_within(seconds: float, *, takes_s: float = 0.0) -> list[float]:
    """Return when looks began in so many seconds, each of which takes some."""
    begun: list[float] = []
    clock = LoopClock()

    async def look() -> None:
        begun.append(clock.now())
        await clock.sleep(takes_s)

    async with looking(look, elapsed_s=clock.now, clock=clock):
        await clock.sleep(seconds)
    return begun


@in_jumping_loop
async def test_each_look_stands_in_the_middle_of_its_second() -> None:
    assert await looks_within(4.0) == [0.5, 1.5, 2.5, 3.5]


@in_jumping_loop
async def test_a_short_look_puts_off_no_other() -> None:
    assert await looks_within(4.0, takes_s=0.125) == [0.5, 1.5, 2.5, 3.5]


@in_jumping_loop
async def test_a_long_look_is_followed_by_four_times_as_long_a_pause() -> None:
    assert await looks_within(12.0, takes_s=1.0) == [0.5, 5.5, 10.5]


@in_jumping_loop
async def test_nothing_is_looked_at_after_the_end() -> None:
    begun = await looks_within(2.0)
    await asyncio.sleep(10.0)

    assert len(begun) == 2


@in_jumping_loop
async def test_an_error_of_a_look_ends_the_looking_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    clock = LoopClock()

    async def look() -> None:
        raise ValueError("what is looked at is broken")

    with caplog.at_level(logging.ERROR):
        async with looking(look, elapsed_s=clock.now, clock=clock):
            await clock.sleep(5.0)

    assert clock.now() == 5.0
    assert len(caplog.records) == 1


def test_looks_of_a_long_run_are_fewer() -> None:
    assert (interval_s(0.0), interval_s(10_000.0), interval_s(36_000.0)) == (1.0, 1.0, 3.6)


def test_where_looks_cost_as_much_as_the_run_they_are_rarer_but_leave_no_gap() -> None:
    assert [sparse_interval_s(at_s) for at_s in (0.0, 400.0, 1_000.0, 4_000.0, 20_000.0)] == [1.0, 1.0, 2.5, 5.0, 10.0]
