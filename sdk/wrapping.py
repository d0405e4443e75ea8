"""Put something around every run of a function, whatever kind of function it is, and change nothing that it does.

A function, coroutine function, generator or async generator stays what it is for `inspect` and for type checkers. What
is put around it is attached to the context only while its own code runs: never across a `yield`, as the code that takes
a generator's values is not the agent's, and may end it in another context. Tracebacks lead to the function directly:
the frames of this module are taken out of them. No argument and no result is looked at.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, Protocol, TypeVar, cast

from rotoscope.sdk.recordings import is_on

F = TypeVar("F", bound=Callable[..., Any])


class Opened(Protocol):
    """What is around one run of a function. None of this raises."""

    def attach(self) -> None:
        """Let what the function does now stand below it."""

    def detach(self) -> None:
        """End that, in the context in which it began."""

    def end(self, error: BaseException | None) -> None:
        """End it for good; `error` is what the function raised."""


Opener = Callable[[], Opened]
"""Begins what is around a run, when anybody wants to know of it. Never raises."""


def wrapped(function: F, opener: Opener) -> F:
    """Return the function with something around each of its runs."""
    if inspect.isasyncgenfunction(function):
        wrapper = _async_generator(function, opener)
    elif inspect.iscoroutinefunction(function):
        wrapper = _coroutine(function, opener)
    elif inspect.isgeneratorfunction(function):
        wrapper = _generator(function, opener)
    else:
        wrapper = _plain(function, opener)
    return cast(F, functools.wraps(function)(wrapper))


def _plain(function: Callable[..., Any], opener: Opener) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if not is_on():
            try:
                return function(*args, **kwargs)
            except BaseException as error:
                _hide_frame(error)
                raise
        opened = opener()
        opened.attach()
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            _hide_frame(error)
            opened.detach()
            opened.end(error)
            raise
        opened.detach()
        opened.end(None)
        return result

    return call


def _coroutine(function: Callable[..., Any], opener: Opener) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        if not is_on():
            try:
                return await function(*args, **kwargs)
            except BaseException as error:
                _hide_frame(error)
                raise
        opened = opener()
        opened.attach()
        try:
            result = await function(*args, **kwargs)
        except BaseException as error:
            _hide_frame(error)
            opened.detach()
            opened.end(error)
            raise
        opened.detach()
        opened.end(None)
        return result

    return call


def _generator(function: Callable[..., Any], opener: Opener) -> Callable[..., Any]:
    def generate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        if not is_on():
            try:
                return (yield from generator)
            except BaseException as error:
                _hide_frame(error)
                raise
        opened = opener()
        step: Callable[[], Any] = generator.__next__
        try:
            while True:
                value = _stepped(opened, step)
                try:
                    sent = yield value
                except GeneratorExit:
                    _stepped(opened, generator.close)
                    raise
                except BaseException as error:  # noqa: BLE001 - the generator shall see it, whatever it is
                    step = functools.partial(generator.throw, error)
                else:
                    step = generator.__next__ if sent is None else functools.partial(generator.send, sent)
        except StopIteration as end:
            opened.end(None)
            return end.value
        except GeneratorExit:
            opened.end(None)
            raise
        except BaseException as error:
            _hide_frame(error, 2)
            opened.end(error)
            raise

    return generate


def _stepped(opened: Opened, step: Callable[[], Any]) -> Any:
    """Let a generator run up to its next value."""
    opened.attach()
    try:
        return step()
    finally:
        opened.detach()


def _async_generator(function: Callable[..., Any], opener: Opener) -> Callable[..., Any]:
    async def generate(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        generator = function(*args, **kwargs)
        opened = opener() if is_on() else None
        step: Callable[[], Any] = generator.__anext__
        try:
            while True:
                value = await _async_stepped(opened, step)
                try:
                    sent = yield value
                except GeneratorExit:
                    await _async_stepped(opened, generator.aclose)
                    raise
                except BaseException as error:  # noqa: BLE001 - the generator shall see it, whatever it is
                    step = functools.partial(generator.athrow, error)
                else:
                    step = generator.__anext__ if sent is None else functools.partial(generator.asend, sent)
        except StopAsyncIteration:
            _end(opened, None)
        except GeneratorExit:
            _end(opened, None)
            raise
        except BaseException as error:
            _hide_frame(error, 2)
            _end(opened, error)
            raise

    return generate


async def _async_stepped(opened: Opened | None, step: Callable[[], Any]) -> Any:
    if opened is None:
        return await step()
    opened.attach()
    try:
        return await step()
    finally:
        opened.detach()


def _end(opened: Opened | None, error: BaseException | None) -> None:
    if opened is not None:
        opened.end(error)


def _hide_frame(error: BaseException, frames: int = 1) -> None:
    """Take the frames of this module out of a traceback that has just come through them."""
    traceback = error.__traceback__
    for _ in range(frames):
        if traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
            traceback = traceback.tb_next
    error.__traceback__ = traceback
