"""A run that goes on in the coroutine or generator that a plain function has returned: what is around it ends with that."""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

from rotoscope.sdk.opened import Opened, end, fail
from rotoscope.sdk.steps import async_steps_within, steps_within


def finish(opened: Opened | None, result: Any) -> Any:
    """End what is around a run, or let it go on with what the run has returned."""
    if opened is None or type(result) not in _GOING_ON:
        end(opened, None)
        return result
    opened.detach()
    return _going_on(result, opened)


class _Once:
    """What is around a run that goes on in what a function has returned, which may be dropped before it begins."""

    __slots__ = ("_has_begun", "_is_over", "_opened")

    def __init__(self, opened: Opened) -> None:
        self._opened, self._has_begun, self._is_over = opened, False, False

    def attach(self) -> None:
        self._has_begun = True
        self._opened.attach()

    def detach(self) -> None:
        self._opened.detach()

    def end(self, error: BaseException | None) -> None:
        if not self._is_over:
            self._is_over = True
            self._opened.end(error)

    def drop(self, work: Any) -> None:
        """End it where the work never began; who never awaits it is told so once, of what stands for it.

        Work that has begun is closed as Python does it, and what is around it ends with its `finally` parts.
        """
        if not (self._has_begun or self._is_over):
            self.end(None)
            if isinstance(work, Coroutine):
                work.close()


def _going_on(work: Any, opened: Opened) -> Any:
    """Return what stands for a coroutine or generator that a plain function has returned, with something around it."""
    once = _Once(opened)
    rest = _GOING_ON[type(work)](work, once)
    rest.__name__, rest.__qualname__ = work.__name__, work.__qualname__
    weakref.finalize(rest, once.drop, work).atexit = False
    return rest


async def _awaited(coroutine: Coroutine[Any, Any, Any], opened: Opened) -> Any:
    opened.attach()
    try:
        result = await coroutine
    except BaseException as error:
        fail(opened, error)
        raise
    end(opened, None)
    return result


_GOING_ON: dict[type, Callable[[Any, Opened], Any]] = {
    types.CoroutineType: _awaited,
    types.GeneratorType: steps_within,
    types.AsyncGeneratorType: async_steps_within,
}
