"""Event loops for tests: one under a guard, and one whose time jumps to the next timer."""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

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
        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


def jump(seconds: float) -> None:
    """Let time pass in a jumping loop that does nothing else meanwhile, as if something held it up."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    loop.jump(seconds)


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is where its next timer is."""

    def __init__(self) -> None:
        self._selecting = _JumpingSelector()
        super().__init__(self._selecting)

    def time(self) -> float:
        return self._selecting.now

    def jump(self, seconds: float) -> None:
        self._selecting.now += seconds


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if not events:
            if timeout is None:
                raise AssertionError("everything waits and nothing will ever come")
            self.now += max(timeout, 0.0)
        return events
