"""Event loops for tests: one under a guard, and those whose time jumps to the next timer, also with sockets."""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, ParamSpec

from rotoscope.replayer.simulator.modelled_time import ModelledLoop, run_modelled

Arguments = ParamSpec("Arguments")

GUARD_S = 240.0
"""What hangs fails; no test takes nearly as long, on a loaded machine either."""


def in_event_loop(test: Callable[Arguments, Coroutine[Any, Any, None]]) -> Callable[Arguments, None]:
    """Run an async test to its end in an event loop of its own; fail if it hangs."""

    @functools.wraps(test)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        async def guarded() -> None:
            async with asyncio.timeout(GUARD_S):
                await test(*args, **kwargs)

        asyncio.run(guarded())

    return run


def in_jumping_loop(test: Callable[Arguments, Coroutine[Any, Any, None]]) -> Callable[Arguments, None]:
    """Run an async test in a loop that starts at 0 s and never waits: where nothing else is left, time jumps.

    Fails when nothing is left at all. For tests without sockets.
    """

    @functools.wraps(test)
    def run(*args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        run_modelled(test(*args, **kwargs))

    return run


def jump(seconds: float) -> None:
    """Let time pass in a jumping loop that does nothing else meanwhile, as if something held it up."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ModelledLoop)
    loop.jump(seconds)


class BriefLoop(asyncio.SelectorEventLoop):
    """An event loop for tests with sockets of this process whose time jumps where nothing arrives for a moment.

    Timers fire `late_s` later than they should, as on a machine that is too busy.
    """

    def __init__(self, late_s: float = 0.0) -> None:
        self._selecting = _BriefSelector()
        self._late_s = late_s
        super().__init__(self._selecting)

    def time(self) -> float:
        return self._selecting.now_s

    def call_at(  # type: ignore[override] # with a type of its own for the arguments, which pass through
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return super().call_at(when + self._late_s, callback, *args, context=context)


class _BriefSelector(selectors.DefaultSelector):
    MOMENT_S = 0.001
    TURN_S = 1e-6
    """Of modelled time for each turn of the loop, so that what comes after something else is later."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now_s += self.TURN_S
        if timeout is None:
            return super().select()
        events = super().select(min(timeout, self.MOMENT_S))
        if not events:
            self.now_s += max(timeout, 0.0)
        return events
