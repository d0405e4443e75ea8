"""Put something around every run of a function, whatever kind of function it is, and change nothing that it does.

A function, coroutine function, generator function or async generator function stays what it is for `inspect` and for type
checkers, takes its arguments when it is called, and hands on whatever is sent or thrown into it. What is put around it is
attached to the context only while its own code runs: never across a `yield`, as the code that takes a generator's values
is not the agent's, and may end it in another context. Tracebacks lead to the function directly: the frames of this module
are taken out of them. No argument and no result is looked at, but for whether a plain function returns a coroutine or a
generator, whose code is the function's work: then what is around it ends with that.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from types import FunctionType, MethodType
from typing import Any, Protocol, TypeVar, cast

from rotoscope.sdk import likeness
from rotoscope.sdk.recordings import is_on
from rotoscope.sdk.spans import counts
from rotoscope.sdk.standing import standing_for

F = TypeVar("F", bound=Callable[..., Any])


class Opened(Protocol):
    """What is around one run of a function."""

    def attach(self) -> None:
        """Let what the function does now stand below it."""

    def detach(self) -> None:
        """End that, in the context in which it began."""

    def end(self, error: BaseException | None) -> None:
        """End it for good; `error` is what the function raised."""


Opener = Callable[[], Opened]
"""Begins what is around a run, when anybody wants to know of it."""


def wrapped(target: F, opener: Opener) -> F:
    """Return a callable with something around each of its runs. Raises TypeError for what cannot be called."""
    return cast(F, _wrapped(target, opener))


def _wrapped(target: Any, opener: Opener) -> Any:
    if isinstance(target, FunctionType):
        return functools.wraps(target)(_function(target, opener))
    if isinstance(target, MethodType):
        return MethodType(_wrapped(target.__func__, opener), target.__self__)
    if type(target) is functools.partial:
        partial = functools.partial(_wrapped(target.func, opener), *target.args, **target.keywords)
        vars(partial).update(vars(target))
        return partial
    if not callable(target):
        raise TypeError(f"a {type(target).__name__} cannot be called: decorate the function in it")
    return standing_for(target, _plain(target, opener), functools.partial(_wrapped, opener=opener))


def _function(function: FunctionType, opener: Opener) -> Callable[..., Any]:
    flags = function.__code__.co_flags
    if flags & inspect.CO_ASYNC_GENERATOR:
        begin = functools.partial(_async_steps, opener)
        return likeness.made_like(function, _ASYNC_GENERATOR, {**_NAMES, "r_begin": begin})
    if flags & inspect.CO_COROUTINE:
        return likeness.made_like(function, _COROUTINE, {**_NAMES, "r_begin": functools.partial(_begin, opener)})
    if flags & inspect.CO_GENERATOR:
        made = likeness.made_like(function, _GENERATOR, {**_NAMES, "r_begin": functools.partial(_steps, opener)})
        return types.coroutine(made) if flags & inspect.CO_ITERABLE_COROUTINE else made
    return _plain(function, opener)


def _plain(function: Callable[..., Any], opener: Opener) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if not is_on():
            try:
                return function(*args, **kwargs)
            except BaseException as error:
                _hide_frames(error)
                raise
        opened = _begin(opener)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            _fail(opened, error)
            raise
        return _finish(opened, result)

    return call


_COROUTINE = """
async def call($parameters):
    r_coroutine = r_function($arguments)
    $forget
    r_opened = r_begin() if r_is_on() else None
    try:
        r_result = await r_coroutine
    except BaseException as r_error:
        r_fail(r_opened, r_error)
        raise
    if r_opened is not None:
        r_end(r_opened, None)
    return r_result
"""

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


def _begin(opener: Opener) -> Opened | None:
    """Begin what is around a run; None where nobody wants to know, or it cannot be begun."""
    opened = _open(opener)
    if opened is not None:
        try:
            opened.attach()
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            counts.fail(error)
    return opened


def _open(opener: Opener) -> Opened | None:
    if not is_on():
        return None
    try:
        return opener()
    except Exception as error:  # noqa: BLE001 - the agent must not be hurt
        counts.fail(error)
        return None


def _end(opened: Opened | None, error: BaseException | None) -> None:
    """End what is around a run."""
    if opened is None:
        return
    try:
        opened.detach()
    except Exception as failure:  # noqa: BLE001 - the agent must not be hurt
        counts.fail(failure)
    try:
        opened.end(error)
    except Exception as failure:  # noqa: BLE001 - the agent must not be hurt
        counts.fail(failure)


def _fail(opened: Opened | None, error: BaseException) -> None:
    _hide_frames(error)
    _end(opened, error)


def _finish(opened: Opened | None, result: Any) -> Any:
    """End what is around a run, or let it go on with what the run has returned."""
    if opened is None or type(result) not in _GOING_ON:
        _end(opened, None)
        return result
    opened.detach()
    return _going_on(result, opened)


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
            _end(self._opened, None)
            raise
        except BaseException as error:
            _end(self._opened, error)
            raise
        self._opened.detach()
        return result


def _steps(opener: Opener, generator: Generator[Any, Any, Any]) -> Generator[Any, Any, Any] | _Steps:
    opened = _open(opener)
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
            _end(self._opened, None)
            raise
        except BaseException as error:
            _end(self._opened, error)
            raise
        self._opened.detach()
        return result


def _async_steps(opener: Opener, generator: AsyncGenerator[Any, Any]) -> _AsyncSteps | _OpenedAsyncSteps:
    opened, plain = _open(opener), _AsyncSteps(generator)
    return plain if opened is None else _OpenedAsyncSteps(plain, opened)


class _Once:
    """What is around a run that goes on in what a function has returned, which may be dropped before it begins."""

    __slots__ = ("_is_over", "_opened")

    def __init__(self, opened: Opened) -> None:
        self._opened, self._is_over = opened, False

    def attach(self) -> None:
        self._opened.attach()

    def detach(self) -> None:
        self._opened.detach()

    def end(self, error: BaseException | None) -> None:
        if not self._is_over:
            self._is_over = True
            self._opened.end(error)

    def drop(self, work: Any) -> None:
        """End it where nothing has; who never awaits the work is told so once, of what stands for it."""
        if not self._is_over:
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
        _fail(opened, error)
        raise
    _end(opened, None)
    return result


_OURS = frozenset({__file__, likeness.FILE})


def _hide_frames(error: BaseException) -> None:
    """Take the frames of this module out of a traceback that has just come through them."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename in _OURS:
        traceback = traceback.tb_next
    error.__traceback__ = traceback


_NAMES = {"r_fail": _fail, "r_end": _end, "r_hide_frames": _hide_frames, "r_is_on": is_on}


def _over(template: str, begin: Callable[[Any, Opened], Any]) -> Callable[[Any, Opened], Any]:
    """Return what goes on with a generator by a template."""

    def both(work: Any, opened: Opened) -> Any:
        return begin(work, opened)

    return likeness.made_like(cast(FunctionType, both), template, {**_NAMES, "r_begin": lambda steps: steps})


_GOING_ON: dict[type, Callable[[Any, Opened], Any]] = {
    types.CoroutineType: _awaited,
    types.GeneratorType: _over(_GENERATOR, _Steps),
    types.AsyncGeneratorType: _over(_ASYNC_GENERATOR, lambda work, once: _OpenedAsyncSteps(_AsyncSteps(work), once)),
}
