"""Put something around every run of a function, whatever kind of function it is, and change nothing that it does.

A function, coroutine function, generator function or async generator function stays what it is for `inspect` and for type
checkers, takes its arguments when it is called, and hands on whatever is sent or thrown into it. What is put around it is
attached to the context only while its own code runs: never across a `yield`, as the code that takes a generator's values
is not the agent's, and may end it in another context. Tracebacks lead to the function directly: the frames between are
taken out of them. No argument and no result is looked at, but for whether a plain function returns a coroutine or a
generator, whose code is the function's work: then what is around it ends with that.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, TypeVar, cast

from rotoscope.sdk.going_on import finish
from rotoscope.sdk.likeness import made_like
from rotoscope.sdk.opened import Opener, begin, end, fail, hide_frames
from rotoscope.sdk.recordings import is_on
from rotoscope.sdk.standing import standing_for
from rotoscope.sdk.steps import async_steps_like, steps_like

F = TypeVar("F", bound=Callable[..., Any])


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
        return async_steps_like(function, opener)
    if flags & inspect.CO_COROUTINE:
        names = {"r_begin": functools.partial(begin, opener), "r_is_on": is_on, "r_fail": fail, "r_end": end}
        return made_like(function, _COROUTINE, names)
    if flags & inspect.CO_GENERATOR:
        made = steps_like(function, opener)
        return types.coroutine(made) if flags & inspect.CO_ITERABLE_COROUTINE else made
    return _plain(function, opener)


def _plain(function: Callable[..., Any], opener: Opener) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if not is_on():
            try:
                return function(*args, **kwargs)
            except BaseException as error:
                hide_frames(error)
                raise
        opened = begin(opener)
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            fail(opened, error)
            raise
        return finish(opened, result)

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
