"""Stop what runs at the first SIGINT, SIGTERM or SIGHUP, in an orderly way; a later one ends the process as usual."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager

AGAIN_AFTER_S = 0.5
"""What comes sooner is the same interruption: `timeout` of coreutils sends its signal twice, to the process and its group."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def until_interrupted(work: Coroutine[object, object, None], *, again_after_s: float = AGAIN_AFTER_S) -> bool:
    """Run `work` to its end and return False; on a signal cancel it, wait until it has cleaned up and return True.

    Another signal ends the process as usual once `again_after_s` seconds have passed since the first.
    """
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        interrupted = True
        task.cancel()

    task = asyncio.ensure_future(work)
    with _on_first_signal(interrupt, again_after_s):
        try:
            await task
        except asyncio.CancelledError:
            if not interrupted:
                raise
    return interrupted


@contextmanager
def _on_first_signal(act: Callable[[], None], again_after_s: float) -> Iterator[None]:
    """Call `act` at the first signal; outside the main thread there are none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    previous = {number: signal.getsignal(number) for number in _SIGNALS}
    if previous[signal.SIGHUP] is signal.SIG_IGN:  # nohup
        del previous[signal.SIGHUP]

    def restore() -> None:
        for number, handler in previous.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)

    timer: asyncio.TimerHandle | None = None

    def heard() -> None:
        nonlocal timer
        if timer is None:
            timer = loop.call_later(again_after_s, restore)
            act()

    for number in previous:
        loop.add_signal_handler(number, heard)
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()
        restore()


@contextmanager
def signals_raise() -> Iterator[None]:
    """Let what ends a process raise KeyboardInterrupt, as Ctrl-C does, so that blocks are left and stop what they started.

    A signal that is ignored stays so (`nohup`); outside the main thread there are none.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    for number, handler in previous.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextmanager
def signals_held() -> Iterator[None]:
    """Let what ends a process wait until the block is left, in whose midst nobody could clean up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    previous = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in previous.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, lambda number, frame: heard.append(number))
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    for one in heard:
        signal.raise_signal(one)
