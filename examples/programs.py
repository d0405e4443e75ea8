"""Programs that leave nothing behind: a signal to end is an interruption, and is handed on to a command that they run."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import ParamSpec

from rotoscope.proxy.child import FORWARDED, Child

P = ParamSpec("P")


def interruptible(main: Callable[P, int]) -> Callable[P, int]:
    """Let SIGTERM and SIGHUP end a program as Ctrl-C does, with its `finally` parts done; it returns 128 and the signal.

    Outside of the main thread there are no signals.
    """

    @wraps(main)
    def run(*args: P.args, **kwargs: P.kwargs) -> int:
        if threading.current_thread() is not threading.main_thread():
            return main(*args, **kwargs)
        status = 128 + signal.SIGINT

        def end(number: int, frame: FrameType | None) -> None:
            nonlocal status
            status = 128 + number
            if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):  # as in the background of a script
                raise KeyboardInterrupt
            signal.raise_signal(signal.SIGINT)  # asyncio knows what to do then

        with signals_kept():
            for number in (signal.SIGTERM, signal.SIGHUP):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    signal.signal(number, end)
            try:
                return main(*args, **kwargs)
            except KeyboardInterrupt:
                print("interrupted", file=sys.stderr)
                return status

    return run


def run_command(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command and return its exit status, 128 and the signal where one ended it.

    Signals to end are the command's as long as it runs. Raises UnusableInput when it cannot be started.
    """
    with signals_kept():
        return asyncio.run(_run(command, environment))


async def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    child = Child()
    with child.signals_forwarded():
        await child.start(command, environment)
        return await child.wait()


@contextmanager
def signals_kept() -> Iterator[None]:
    """Have signals handled after the block as before it."""
    before = {number: handler for number in FORWARDED if (handler := signal.getsignal(number)) is not None}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
