from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from typing import Any

from sdk_doubles import Spans

from rotoscope import trace_tool
from rotoscope.sdk.spans import counts


async def later(value: str) -> str:
    return value


def test_coroutine_that_a_plain_function_returned_is_warned_of_once_too(spans: Spans) -> None:
    before = counts.open
    tool: Callable[[], Any] = trace_tool(lambda: later("x"))

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        tool()
        gc.collect()

    assert [str(warning.message) for warning in warned] == ["coroutine 'later' was never awaited"]
    assert counts.open == before


def test_what_returns_a_coroutine_or_generator_lasts_as_long_as_that(spans: Spans) -> None:
    async def later() -> int:
        assert spans.names == []
        await asyncio.sleep(0)
        return 1

    def values() -> Generator[int, None, str]:
        yield 1
        return "end"

    async def drained(made: Any) -> list[int]:
        return [value async for value in made]

    async def more() -> AsyncIterator[int]:
        yield 1

    calling: Callable[[], Any] = trace_tool(name="calling")(lambda: later())
    partial = trace_tool(functools.partial(later))
    returning: Callable[[], Any] = trace_tool(name="returning")(lambda: values())
    returned = returning()
    assert asyncio.run(calling()) == 1
    assert spans.names == ["execute_tool calling"]
    assert inspect.isgenerator(returned)
    assert returned.__qualname__ == values.__qualname__
    assert list(returned) == [1]
    assert spans.names[1:] == ["execute_tool returning"]
    streaming: Callable[[], Any] = trace_tool(name="streaming")(lambda: more())
    assert asyncio.run(drained(streaming())) == [1]
    assert spans.names[2:] == ["execute_tool streaming"]
    spans.ended.clear()
    assert inspect.iscoroutinefunction(partial)


def test_generator_that_was_returned_and_never_begun_leaves_no_open_span(spans: Spans) -> None:
    before = counts.open

    dropped: Callable[[], Any] = trace_tool(name="dropped")(lambda: iter_of([1]))
    dropped()
    gc.collect()

    assert counts.open == before
    assert spans.names == ["execute_tool dropped"]


def test_what_work_does_as_it_is_left_is_within_it(spans: Spans) -> None:
    before = counts.open
    tidy: Callable[[], Any] = trace_tool(name="tidy")(lambda: None)

    def values() -> Iterator[int]:
        try:
            yield 1
        finally:
            tidy()

    async def more() -> AsyncIterator[int]:
        for value in values():
            yield value

    async def waits() -> None:
        for _ in values():
            await asyncio.sleep(0)

    async def leave() -> None:
        async for _ in trace_tool(name="streaming")(lambda: more())():
            break
        gc.collect()
        for _ in range(3):  # its loop closes it, in a task
            await asyncio.sleep(0)

    next(trace_tool(name="returning")(lambda: values())())
    asyncio.run(leave())
    trace_tool(name="calling")(lambda: waits())().send(None)
    gc.collect()

    outer = ["execute_tool returning", "execute_tool streaming", "execute_tool calling"]
    assert spans.names == [name for one in outer for name in ("execute_tool tidy", one)]
    assert counts.open == before


def iter_of(values: list[int]) -> Iterator[int]:
    yield from values


def test_awaitable_class_and_future_are_returned_as_they_are(spans: Spans) -> None:
    class Ready:
        def __await__(self) -> Generator[Any, Any, int]:
            yield
            return 1

    async def use() -> None:
        ready, future = Ready(), asyncio.get_running_loop().create_future()
        future.set_result(2)
        give: Callable[[Any], Awaitable[int]] = trace_tool(lambda value: value)
        assert give(ready) is ready
        assert give(future) is future

    asyncio.run(use())
