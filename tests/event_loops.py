"""Event loops for tests: one under a guard, and one whose time jumps to the next timer."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
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
