"""What the decorators tell, and that they change nothing."""

from __future__ import annotations

import asyncio
import inspect
import traceback
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sdk_doubles import HeardRecording, recorded_by

from rotoscope import current_run, parallel, trace_agent, trace_tool, wait
from rotoscope.recorder.marks import BranchMark, JoinMark, ToolMark, WaitMark
from rotoscope.sdk import recordings


@pytest.fixture
def heard() -> Iterator[HeardRecording]:
    recording = HeardRecording()
    with recorded_by(recording):
        yield recording


@trace_tool
def add(a: int, b: int) -> int:
    return a + b


def test_tool_of_an_agent_is_told_by_the_last_part_of_its_name(heard: HeardRecording) -> None:
    class Shell:
        @trace_tool
        def run(self) -> str:
            return "done"

    @trace_agent
    def agent() -> str:
        return Shell().run()

    assert agent() == "done"
    [run] = heard.runs
    [mark] = run.marks
    assert isinstance(mark, ToolMark)
    assert mark.name == "run"
    assert run.ended == 1


def test_agents_inside_another_begin_a_region_each_and_are_joined(heard: HeardRecording) -> None:
    @trace_agent
    def inner() -> None:
        add(1, 2)

    @trace_agent
    def outer() -> None:
        inner()
        inner()

    outer()

    [run] = heard.runs
    first, tool, joined, second, _, _ = run.marks
    assert isinstance(first, BranchMark)
    assert isinstance(tool, ToolMark)
    assert isinstance(joined, JoinMark)
    assert isinstance(second, BranchMark)
    assert tool.thread == first.thread
    assert joined.region == first.region != second.region
    assert first.parent == second.parent


def test_first_agent_of_a_branch_has_no_line_of_its_own(heard: HeardRecording) -> None:
    @trace_agent
    def worker() -> None:
        add(1, 2)

    @trace_agent
    def outer() -> None:
        with parallel("fan") as fan, fan.branch():
            worker()
            worker()

    outer()

    begun = [mark for mark in heard.runs[0].marks if isinstance(mark, BranchMark)]
    assert [mark.parent for mark in begun] == [begun[0].parent, begun[0].thread]


def test_branches_in_threads_and_tasks_have_their_region_in_common(heard: HeardRecording) -> None:
    @trace_agent
    async def outer() -> None:
        with parallel("fan") as fan:

            def in_thread(number: int) -> int:
                with fan.branch():
                    return add(number, 0)

            async def in_task(number: int) -> int:
                async with fan.branch():
                    return add(number, 0)

            with ThreadPoolExecutor() as pool:
                assert list(pool.map(in_thread, range(3))) == [0, 1, 2]
            assert await asyncio.gather(*map(in_task, range(3))) == [0, 1, 2]

    asyncio.run(outer())

    marks = heard.runs[0].marks
    begun = [mark for mark in marks if isinstance(mark, BranchMark)]
    tools = [mark for mark in marks if isinstance(mark, ToolMark)]
    assert len(begun) == 6
    assert len({(mark.parent, mark.region) for mark in begun}) == 1
    assert {mark.thread for mark in tools} == {mark.thread for mark in begun}
    assert isinstance(marks[-1], JoinMark)


def test_wait_for_a_person_is_told(heard: HeardRecording) -> None:
    @trace_agent
    def agent() -> None:
        with wait("human"):
            pass

    agent()

    [mark] = heard.runs[0].marks
    assert isinstance(mark, WaitMark)
    assert mark.kind == "human"


def test_wrapped_function_stands_in_the_run_in_any_thread(heard: HeardRecording) -> None:
    @trace_agent
    def agent() -> None:
        run = current_run()
        assert run is not None
        with ThreadPoolExecutor() as pool:
            pool.submit(run.wrap(add), 1, 2).result()

    agent()

    assert len(heard.runs) == 1
    assert len(heard.runs[0].marks) == 1
    assert current_run() is None


def plain(x: int) -> int:
    if x < 0:
        raise ValueError("negative")
    return x


async def coroutine(x: int) -> int:
    return plain(x)


def generator(x: int) -> Generator[int, int, int]:
    sent = yield plain(x)
    return sent


async def async_generator(x: int) -> AsyncGenerator[int, int]:
    sent = yield plain(x)
    yield sent


@pytest.mark.parametrize("function", [plain, coroutine, generator, async_generator])
def test_function_stays_of_its_kind_with_its_signature(function: Any) -> None:
    decorated = trace_tool(function)

    for kind in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction):
        assert kind(decorated) == kind(function)
    assert inspect.signature(decorated) == inspect.signature(function)
    assert decorated.__name__ == function.__name__


@pytest.mark.parametrize("is_on", [False, True])
def test_generators_take_what_is_sent_and_return_what_they_return(is_on: bool, heard: HeardRecording) -> None:
    if not is_on:
        recordings.record_by(None)

    def taken() -> Generator[int, int, int]:
        return (yield from trace_agent(generator)(3))

    one = taken()
    assert next(one) == 3
    with pytest.raises(StopIteration) as end:
        one.send(5)
    assert end.value.value == 5

    async def use() -> None:
        other = trace_agent(async_generator)(3)
        assert await anext(other) == 3
        assert await other.asend(5) == 5
        await other.aclose()

    asyncio.run(use())
    assert [run.ended for run in heard.runs] == ([1, 1] if is_on else [])


@pytest.mark.parametrize("is_on", [False, True])
@pytest.mark.parametrize("function", [plain, coroutine, generator, async_generator])
def test_tracebacks_lead_to_the_function_directly(function: Any, is_on: bool, heard: HeardRecording) -> None:
    if not is_on:
        recordings.record_by(None)

    def lines_of(function: Any) -> list[str]:
        async def drained(x: AsyncIterator[int]) -> list[int]:
            return [y async for y in x]

        try:
            if inspect.isasyncgenfunction(function):
                asyncio.run(drained(function(-1)))
            elif inspect.iscoroutinefunction(function):
                asyncio.run(function(-1))
            elif inspect.isgeneratorfunction(function):
                list(function(-1))
            else:
                function(-1)
        except ValueError as error:
            return [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        raise AssertionError("nothing was raised")

    assert lines_of(trace_tool(function)) == lines_of(function)


def test_agent_that_is_a_generator_keeps_its_scope_between_steps_and_leaves_none_to_its_caller(
    heard: HeardRecording,
) -> None:
    @trace_agent
    def agent() -> Iterator[int]:
        with parallel("fan") as fan, fan.branch():
            yield add(1, 0)
            yield add(2, 0)
        yield add(3, 0)

    for _ in agent():
        assert current_run() is None

    tools = [mark.thread for mark in heard.runs[0].marks if isinstance(mark, ToolMark)]
    assert tools[0] == tools[1] != tools[2]


def test_class_is_traced_by_its_run_method_or_the_one_that_is_named(heard: HeardRecording) -> None:
    @trace_agent
    class Runs:
        def run(self) -> int:
            return add(1, 2)

    @trace_agent(method="go")
    class Goes:
        def go(self) -> int:
            return add(1, 2)

    assert (Runs().run(), Goes().go()) == (3, 3)
    assert len(heard.runs) == 2
    with pytest.raises(TypeError, match="defines no __call__, run"):
        trace_agent(type("Nothing", (), {}))
