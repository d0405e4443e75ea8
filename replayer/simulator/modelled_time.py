"""Modelled time as the time of an event loop: nothing is waited for, time jumps to where the next timer is.

All that asyncio offers works in it: sleeping, timeouts, tasks. What happens outside this process does not: such a loop
has no sockets. Signals are heard.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from itertools import count
from math import ulp
from typing import Any, TypeVar

Result = TypeVar("Result")

_LOOK_EVERY = 64
"""Turns of the loop between two looks at whether a signal has come: a look is a system call."""
_DUE_S = 1e-9
"""A timer so far ahead is due: asyncio's own measure where clocks count nanoseconds."""


def run_modelled(work: Coroutine[Any, Any, Result]) -> Result:
    """Run to its end, in no time, what waits for modelled time only; raise RuntimeError where it waits for anything else."""
    with asyncio.Runner(loop_factory=ModelledLoop) as runner:
        return runner.run(work)


class ModelledLoop(asyncio.SelectorEventLoop):
    """An event loop that begins at 0 s and whose time is where its next timer is."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        numbers = count()
        self.set_task_factory(lambda loop, work, **given: _Task(work, loop=loop, number=next(numbers), **given))

    def time(self) -> float:
        """Return modelled seconds."""
        return self._jumping.now_s

    @property
    def _clock_resolution(self) -> float:
        """Return how far ahead a timer is due. After half a year a nanosecond more is no other number: none would ever be."""
        return max(_DUE_S, ulp(self.time()))

    @_clock_resolution.setter
    def _clock_resolution(self, seconds: float) -> None:
        """Leave out what asyncio sets: the resolution of the machine's clock."""

    def jump(self, seconds: float) -> None:
        """Let time pass as if something held the loop up."""
        self._jumping.now_s += seconds


class ModelledClock:
    """The time of the modelled loop that is running, which all engines in it share."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time
        self._call_at = loop.call_at

    def call_at(self, moment_s: float, act: Callable[[], None]) -> asyncio.Handle:
        """Let `act` be called at a moment."""
        return self._call_at(moment_s, act)


class _Task(asyncio.Task[Any]):
    """A task that stands in a set where it stood in the last run: groups cancel theirs in the order of a set."""

    def __init__(self, work: Coroutine[Any, Any, Any], *, number: int, **given: Any) -> None:
        self._number = number  # first: it is in a set before it is made
        super().__init__(work, **given)

    def __hash__(self) -> int:
        return self._number


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self._turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what has come from outside, if anything; else let so many seconds pass."""
        self._turns += 1
        if timeout is None or self._turns % _LOOK_EVERY == 0:
            events = super().select(0)
            if events:
                return events
        if timeout is None:
            raise RuntimeError("everything waits and nothing will ever come")
        if timeout > 0:
            self.now_s += timeout
        return []
