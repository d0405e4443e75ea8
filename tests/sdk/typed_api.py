"""What type checkers see of the decorators and blocks; read by mypy and by pyright, and run by neither.

What is decorated keeps its type to the letter. Each `type: ignore` stands where something is wrong, and is itself an
error for both checkers where nothing is.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Any, ParamSpec, Protocol, TypeVar, assert_type

from rotoscope import current_run, instrument, parallel, trace_agent, trace_tool, wait
from rotoscope.sdk.here import CurrentRun
from rotoscope.sdk.regions import Branch, Parallel, Waiting

P = ParamSpec("P")
T = TypeVar("T")


@trace_tool
def bare(query: str, *, most: int = 3) -> list[str]:
    return [query] * most


@trace_tool()
def called(query: str) -> str:
    return query


@trace_agent(name="named")
def named(query: str, /) -> str:
    return query


@trace_agent
async def coroutine(task: str) -> int:
    return len(task)


@trace_tool(name="files.read")
def generator(most: int) -> Generator[int, str, bool]:
    yield most
    return True


@trace_agent(name="streaming")
async def async_generator(most: int) -> AsyncGenerator[int, str]:
    yield most


@trace_tool
async def async_iterator(most: int) -> AsyncIterator[int]:
    yield most


@trace_tool
def generic(value: T) -> list[T]:
    return [value]


@trace_tool
def handing_on(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return function(*args, **kwargs)


@trace_agent
class Agent:
    def __init__(self, name: str) -> None:
        self.name = name

    async def run(self, task: str) -> str:
        return task


@trace_agent(method="go")
@dataclass
class Worker:
    number: int

    def go(self) -> int:
        return self.number

    @trace_tool
    def method(self, query: str) -> str:
        return query

    @trace_tool
    @staticmethod
    def static(query: str) -> str:
        return query

    @trace_tool
    @classmethod
    def class_method(cls, number: int) -> Worker:
        return cls(number)

    @staticmethod
    @trace_tool
    def inner_static(query: str) -> str:
        return query

    @classmethod
    @trace_tool
    def inner_class_method(cls, number: int) -> Worker:
        return cls(number)

    @property
    @trace_tool
    def read(self) -> int:
        return self.number


class Caller:
    limit = 3

    def __call__(self, query: str) -> str:
        return query


class Tool(Protocol):
    def __call__(self, query: str) -> str: ...


async def right_uses() -> None:
    assert_type(bare("x", most=1), list[str])
    assert_type(called("x"), str)
    assert_type(named("x"), str)
    started: Coroutine[Any, Any, int] = coroutine("x")
    started.close()
    assert_type(await coroutine(task="x"), int)
    assert_type(generator(1), Generator[int, str, bool])
    assert_type(async_generator(1), AsyncGenerator[int, str])
    async for number in async_iterator(1):
        assert_type(number, int)
    assert_type(generic(1), list[int])
    assert_type(handing_on(len, "x"), int)

    assert_type(Agent("x"), Agent)
    assert_type(await Agent("x").run("x"), str)
    worker = Worker(1)
    assert_type(worker, Worker)
    assert_type(worker.go(), int)
    assert_type(worker.method("x"), str)
    assert_type(worker.static("x"), str)
    assert_type(Worker.static("x"), str)
    assert_type(worker.inner_static("x"), str)
    assert_type(Worker.class_method(1), Worker)
    assert_type(worker.class_method(1), Worker)
    assert_type(Worker.inner_class_method(1), Worker)
    assert_type(worker.read, int)

    assert_type(trace_tool(Caller()), Caller)
    assert_type(trace_tool(Caller()).limit, int)
    assert_type(trace_tool(functools.partial(bare, most=1))("x"), list[str])
    assert_type(trace_tool(len)("x"), int)
    tools: list[Tool] = [called, trace_tool(called), trace_tool(name="again")(called)]
    assert_type(tools[0](query="x"), str)


async def right_blocks() -> None:
    with parallel("research") as fan:
        assert_type(fan, Parallel)
        with fan.branch("one") as branch:
            assert_type(branch, Branch)
        async with fan.branch():
            pass
    async with parallel() as fan:
        assert_type(fan, Parallel)
    with wait("human") as waiting:
        assert_type(waiting, Waiting)
    async with wait():
        pass
    plain: AbstractContextManager[Parallel] = parallel()
    other: AbstractAsyncContextManager[Waiting] = wait("think")
    run = current_run()
    assert_type(run, CurrentRun | None)
    if run is not None:
        assert_type(run.headers(), dict[str, str])
        assert_type(run.wrap(bare)("x", most=1), list[str])
        assert_type(await asyncio.to_thread(run.wrap(called), "x"), str)
    assert_type(instrument(folder="results"), None)
    del plain, other


async def wrong_uses() -> None:
    bare(1)  # type: ignore
    bare("x", 1)  # type: ignore
    bare("x", least=1)  # type: ignore
    named(query="x")  # type: ignore
    await coroutine()  # type: ignore
    generator("x")  # type: ignore
    Agent()  # type: ignore
    await Agent("x").run(1)  # type: ignore
    Worker(1).method(1)  # type: ignore
    Worker.static(1)  # type: ignore
    trace_tool(3)  # type: ignore
    trace_tool("name")  # type: ignore
    trace_tool(bare, name="bare")  # type: ignore
    trace_agent(title="agent")  # type: ignore
    trace_agent(name=3)  # type: ignore
    trace_tool(name="x")(3)  # type: ignore
    wait("nobody")  # type: ignore
    parallel(3)  # type: ignore
    parallel().branch(3)  # type: ignore
    instrument(3)  # type: ignore
    for _ in async_iterator(1):  # type: ignore
        pass


def right_returns(steps: Iterator[int]) -> Iterator[int]:
    @trace_tool
    def inner() -> Iterator[int]:
        return steps

    return inner()
