from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from rotoscope.replayer.simulator.modelled_time import ModelledClock, ModelledLoop, run_modelled


def test_who_sleeps_wakes_at_its_time_and_nobody_waits() -> None:
    async def nap(seconds: float) -> float:
        await asyncio.sleep(seconds)
        return asyncio.get_running_loop().time()

    async def naps() -> list[float]:
        return list(await asyncio.gather(nap(3600.0), nap(0.25), nap(86_400.0 * 30)))

    start = time.monotonic()

    assert run_modelled(naps()) == pytest.approx([3600.0, 0.25, 86_400.0 * 30])
    assert time.monotonic() - start < 60.0


def test_a_clock_tells_the_time_of_the_loop() -> None:
    async def work() -> tuple[float, float]:
        clock = ModelledClock()
        for moment_s in (10.0, 3.0):
            there = asyncio.Event()
            clock.call_at(moment_s, there.set)
            await there.wait()
        return clock.now(), asyncio.get_running_loop().time()

    assert run_modelled(work()) == (10.0, 10.0)


def test_time_can_be_made_to_pass() -> None:
    async def work() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ModelledLoop)
        loop.jump(2.5)
        return loop.time()

    assert run_modelled(work()) == 2.5


def test_a_timer_is_due_however_late_it_is() -> None:
    loop, turns = ModelledLoop(), []
    loop.jump(1e9)
    there: list[float] = []
    loop.call_at(loop.time(), lambda: there.append(loop.time()))

    def turn() -> None:
        turns.append(1)
        loop.call_soon(turn if len(turns) < 5 else loop.stop)

    loop.call_soon(turn)
    try:
        loop.run_forever()
    finally:
        loop.close()

    assert there == [1e9]


def test_tasks_stand_in_sets_as_in_the_last_run() -> None:
    async def work() -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(asyncio.sleep(1.0)) for _ in range(100)]
        await asyncio.wait(tasks)
        return tasks

    def order_in_a_set(tasks: list[asyncio.Task[None]]) -> list[int]:
        return [tasks.index(task) for task in {*tasks}]

    first = run_modelled(work())  # kept, so that the next ones are elsewhere in memory

    assert order_in_a_set(first) == order_in_a_set(run_modelled(work()))


def test_what_waits_for_nothing_is_told() -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="nothing will ever come"):
        run_modelled(work())


def test_a_signal_is_heard_in_the_midst_of_modelled_time() -> None:
    async def work() -> int:
        stopped = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
        os.kill(os.getpid(), signal.SIGTERM)
        turns = 0
        while not stopped.is_set():
            await asyncio.sleep(1.0)
            turns += 1
        return turns

    assert run_modelled(work()) < 200
