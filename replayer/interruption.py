"""Stop what runs at the first SIGINT or SIGTERM, in an orderly way; the second one ends the process as usual."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def until_interrupted(work: Coroutine[object, object, None]) -> bool:
    """Run `work` to its end and return False; on a signal cancel it, wait until it has cleaned up and return True."""
    interrupted = False

    def interrupt() -> None:
        nonlocal interrupted
        interrupted = True
        task.cancel()

    task = asyncio.ensure_future(work)
    with _on_first_signal(interrupt):
        try:
            await task
        except asyncio.CancelledError:
            if not interrupted:
                raise
    return interrupted


@contextmanager
def _on_first_signal(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` at the first signal; outside the main thread there are none."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    previous = {number: signal.getsignal(number) for number in _SIGNALS}

    def restore() -> None:
        for number, handler in previous.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)

    def first() -> None:
        restore()
        act()

    for number in _SIGNALS:
        loop.add_signal_handler(number, first)
    try:
        yield
    finally:
        restore()
