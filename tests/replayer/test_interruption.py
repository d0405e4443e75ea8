from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator

import pytest
from event_loops import in_event_loop

from rotoscope.replayer.interruption import signals_held, signals_raise, until_interrupted


@in_event_loop
async def test_work_that_ends_was_not_interrupted() -> None:
    async def work() -> None:
        await asyncio.sleep(0)

    assert await until_interrupted(work()) is False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@in_event_loop
async def test_a_signal_cancels_the_work_and_waits_for_its_cleaning_up(number: signal.Signals) -> None:
    cleaned = False

    async def work() -> None:
        nonlocal cleaned
        os.kill(os.getpid(), number)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned = True

    assert await until_interrupted(work()) is True
    assert cleaned


@in_event_loop
async def test_a_signal_that_comes_twice_interrupts_once() -> None:
    loop = asyncio.get_running_loop()

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            heard = loop.create_future()
            loop.call_soon(os.kill, os.getpid(), signal.SIGTERM)
            loop.call_soon(loop.call_soon, heard.set_result, None)
            await heard

    assert await until_interrupted(work(), again_after_s=3600.0) is True


@in_event_loop
async def test_handlers_are_as_before_afterwards_and_soon_after_the_first_signal() -> None:
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGTERM)
    within: list[object] = []

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            later = loop.create_future()
            loop.call_later(0.0, later.set_result, None)
            await later
            within.append(signal.getsignal(signal.SIGTERM))

    await until_interrupted(work(), again_after_s=0.0)

    assert within == [before]
    assert signal.getsignal(signal.SIGTERM) == before


@in_event_loop
async def test_a_cancellation_from_outside_is_passed_on() -> None:
    async def work() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(until_interrupted(work()))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


@in_event_loop
async def test_an_error_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        await until_interrupted(work())


def test_outside_the_main_thread_there_are_no_signals() -> None:
    outcome: list[bool] = []

    async def work() -> None:
        await asyncio.sleep(0)

    thread = threading.Thread(target=lambda: outcome.append(asyncio.run(until_interrupted(work()))))
    thread.start()
    thread.join()

    assert outcome == [False]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Whoever runs the tests in the background ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.usefixtures("interruptible")
def test_what_ends_a_process_raises_and_blocks_are_left(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    done: list[str] = []

    def work() -> None:
        with signals_raise():
            try:
                signal.raise_signal(number)
            finally:
                done.append("cleaned")

    with pytest.raises(KeyboardInterrupt):
        work()

    assert done == ["cleaned"]
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.usefixtures("interruptible")
def test_signals_wait_for_the_end_of_what_holds_them(number: signal.Signals) -> None:
    done: list[str] = []

    def work() -> None:
        with signals_raise():
            with signals_held():
                signal.raise_signal(number)
                done.append("whole")
            done.append("more")

    with pytest.raises(KeyboardInterrupt):
        work()

    assert done == ["whole"]


def test_a_signal_that_is_ignored_stays_so() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async def work() -> None:
        signal.raise_signal(signal.SIGHUP)
        for _ in range(5):
            await asyncio.sleep(0)

    try:
        with signals_raise(), signals_held():
            signal.raise_signal(signal.SIGHUP)
        assert not asyncio.run(until_interrupted(work()))
    finally:
        signal.signal(signal.SIGHUP, before)


def test_outside_the_main_thread_nothing_is_changed() -> None:
    before = signal.getsignal(signal.SIGTERM)
    within: list[object] = []

    def look() -> None:
        with signals_raise(), signals_held():
            within.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()

    assert within == [before]
