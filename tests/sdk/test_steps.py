from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import weakref
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from typing import Any

import pytest
from sdk_doubles import Spans

from rotoscope import trace_agent, trace_tool


@pytest.mark.usefixtures("either")
def test_arguments_are_not_kept_longer_than_the_function_keeps_them() -> None:
    class Big:
        pass

    kept: list[weakref.ref[Big]] = []

    @trace_tool
    def streamed(big: Big) -> Iterator[bool]:
        kept.append(weakref.ref(big))
        del big
        yield kept[0]() is None

    is_gone = next(streamed(Big()))
    assert is_gone


class Thrown(Exception):
    """An exception that may be referred to weakly."""


@pytest.mark.usefixtures("either")
def test_exception_that_was_thrown_in_is_not_kept() -> None:
    @trace_tool
    def forgiving() -> Iterator[int]:
        for number in range(2):
            with contextlib.suppress(Thrown):
                yield number

    def thrown(made: Any) -> weakref.ref[Thrown]:
        error = Thrown()
        assert made.throw(error) == 1
        return weakref.ref(error)

    made = forgiving()
    next(made)
    gc.disable()
    try:
        error = thrown(made)
        if sys.version_info < (3, 13):  # which itself keeps it until the next step, undecorated too
            assert error() is None
    finally:
        gc.enable()


def test_left_async_generator_is_closed_by_the_loop_once(spans: Spans) -> None:
    closed: list[str] = []

    @trace_agent
    async def streamed() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await asyncio.sleep(0)
            closed.append("closed")

    async def leave() -> None:
        problems: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        left = streamed()
        assert await anext(left) == 1
        await asyncio.get_running_loop().shutdown_asyncgens()
        assert closed == ["closed"]
        assert problems == []

    asyncio.run(leave())

    assert spans.names == [f"invoke_agent {streamed.__qualname__}"]


def test_caller_s_context_variables_are_as_an_undecorated_generator_leaves_them(spans: Spans) -> None:
    said: ContextVar[str] = ContextVar("said", default="nothing")

    @trace_tool
    def saying() -> Iterator[str]:
        said.set("something")
        yield said.get()
        yield said.get()

    steps = saying()
    assert next(steps) == "something"
    assert said.get() == "something"
    said.set("else")
    assert next(steps) == "else"
