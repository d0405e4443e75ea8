"""Generators and async generators with something around every step that they run, and around nothing between steps."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Generator
from functools import partial
from types import FunctionType
from typing import Any, cast

from rotoscope.sdk.likeness import made_like
from rotoscope.sdk.opened import Opened, Opener, begin_apart, end, hide_frames


def steps_like(function: FunctionType, opener: Opener) -> FunctionType:
    """Return a generator function like this one, whose steps have something around them."""
    return _made(function, _GENERATOR, partial(_begin, opener))


def async_steps_like(function: FunctionType, opener: Opener) -> FunctionType:
    """Return the same for an async generator function."""
    return _made(function, _ASYNC_GENERATOR, partial(_begin_async, opener))


def _made(function: FunctionType, template: str, begin: Callable[[Any], Any]) -> FunctionType:
    return made_like(function, template, {"r_hide_frames": hide_frames, "r_begin": begin})


_GENERATOR = """
def call($parameters):
    r_steps = r_begin(r_function($arguments))
    $forget
    r_step, r_value = r_steps.send, None
    while True:
        try:
            r_value = r_step(r_value)
        except StopIteration as r_last:
            r_value = None
            return r_last.value
        except BaseException as r_error:
            r_value = None
            r_hide_frames(r_error)
            raise
        try:
            r_value = yield r_value
            r_step = r_steps.send
        except BaseException as r_error:
            r_hide_frames(r_error)
            r_step, r_value = r_steps.throw, r_error
"""
"""An exception is handed on outside of its `except`, so that it is not the context of what comes of it, and is not kept
when it has been. `yield from` would close what it should hand a GeneratorExit on to."""

_ASYNC_GENERATOR = """
async def call($parameters):
    r_steps = r_begin(r_function($arguments))
    $forget
    r_step, r_value = r_steps.first, None
    while True:
        try:
            r_value = await r_step(r_value)
        except StopAsyncIteration:
            r_value = None
            return
        except BaseException as r_error:
            r_value = None
            r_hide_frames(r_error)
            raise
        try:
            r_value = yield r_value
            r_step = r_steps.asend
        except BaseException as r_error:
            r_hide_frames(r_error)
            r_step, r_value = r_steps.athrow, r_error
"""


class _Steps:
    """A generator that is inside of something whenever it runs."""

    __slots__ = ("_generator", "_opened")

    def __init__(self, generator: Generator[Any, Any, Any], opened: Opened) -> None:
        self._generator, self._opened = generator, opened

    def send(self, value: Any) -> Any:
        return self._go(self._generator.send, [value])

    def throw(self, error: BaseException) -> Any:
        held = [error]
        del error
        return self._go(self._generator.throw, held)

    def _go(self, step: Callable[[Any], Any], held: list[Any]) -> Any:
        """Let it run to its next value; no frame keeps what is `held`, as its traceback would keep the frame."""
        self._opened.attach()
        try:
            result = step(held.pop())
        except (StopIteration, GeneratorExit):
            end(self._opened, None)
            raise
        except BaseException as error:
            end(self._opened, error)
            raise
        self._opened.detach()
        return result


def _begin(opener: Opener, generator: Generator[Any, Any, Any]) -> Generator[Any, Any, Any] | _Steps:
    opened = begin_apart(opener)
    return generator if opened is None else _Steps(generator, opened)


class _AsyncSteps:
    """An async generator as such, told by no hooks of the loop: who closes generators that are left shall close ours."""

    __slots__ = ("_generator", "asend", "athrow")

    def __init__(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generator = generator
        self.asend: Callable[[Any], Any] = generator.asend
        self.athrow: Callable[[Any], Any] = generator.athrow

    def first(self, value: Any) -> Any:
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(None, None)
        try:
            return self.asend(value)
        finally:
            sys.set_asyncgen_hooks(*hooks)


class _OpenedAsyncSteps:
    """An async generator that is inside of something whenever it runs."""

    __slots__ = ("_opened", "_plain")

    def __init__(self, plain: _AsyncSteps, opened: Opened) -> None:
        self._plain, self._opened = plain, opened

    def first(self, value: Any) -> Any:
        return self._go(self._plain.first, [value])

    def asend(self, value: Any) -> Any:
        return self._go(self._plain.asend, [value])

    def athrow(self, error: BaseException) -> Any:
        held = [error]
        del error
        return self._go(self._plain.athrow, held)

    async def _go(self, step: Callable[[Any], Any], held: list[Any]) -> Any:
        self._opened.attach()
        try:
            result = await step(held.pop())
        except (StopAsyncIteration, GeneratorExit):
            end(self._opened, None)
            raise
        except BaseException as error:
            end(self._opened, error)
            raise
        self._opened.detach()
        return result


def _begin_async(opener: Opener, generator: AsyncGenerator[Any, Any]) -> _AsyncSteps | _OpenedAsyncSteps:
    opened, plain = begin_apart(opener), _AsyncSteps(generator)
    return plain if opened is None else _OpenedAsyncSteps(plain, opened)


def _within(template: str, begin: Callable[[Any, Opened], Any]) -> Callable[[Any, Opened], Any]:
    """Return what goes on with a generator by a template."""

    def both(work: Any, opened: Opened) -> Any:
        return begin(work, opened)

    return _made(cast(FunctionType, both), template, lambda steps: steps)


steps_within = _within(_GENERATOR, _Steps)
"""Return a generator that goes on with the one given, its steps inside of what is open."""
async_steps_within = _within(_ASYNC_GENERATOR, lambda work, opened: _OpenedAsyncSteps(_AsyncSteps(work), opened))
"""Return the same for an async generator."""
