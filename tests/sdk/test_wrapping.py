from __future__ import annotations

import abc
import asyncio
import contextlib
import functools
import gc
import importlib.util
import inspect
import pickle
import sys
import types
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest
from sdk_doubles import HeardRecording, Spans, id_of, provided_by, recorded_by

from rotoscope import trace_agent, trace_tool
from rotoscope.recorder.marks import ToolMark


@trace_tool
async def fetched(key: str) -> str:
    return key


@trace_tool
def counted(most: int) -> Iterator[int]:
    yield from range(most)


@trace_tool
def added(a: int, b: int = 1) -> int:
    return a + b


@trace_agent
class Worker:
    """Works."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def run(self) -> int:
        return self.number

    def __getstate__(self) -> int:
        return self.number

    def __setstate__(self, number: int) -> None:
        self.number = number


@pytest.mark.usefixtures("either")
@pytest.mark.parametrize("function", [fetched, counted, added])
def test_wrong_arguments_are_refused_by_the_call_itself(function: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=rf"{function.__name__}\(\) got an unexpected keyword argument 'wrong'"):
        function(wrong=1)


@pytest.mark.usefixtures("either")
def test_coroutine_that_is_never_awaited_is_warned_of_once_by_its_name() -> None:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        _ = fetched("x")
        del _
        gc.collect()

    assert [str(warning.message) for warning in warned] == ["coroutine 'fetched' was never awaited"]


def test_partial_method_builtin_and_callable_object_stay_what_they_are(spans: Spans) -> None:
    class Search:
        limit = 3

        def __call__(self, query: str) -> str:
            return query

        def run(self, query: str) -> str:
            return query

    search = Search()
    partial, bound, length, tool = (
        trace_tool(functools.partial(added.__wrapped__, 1)),  # type: ignore[attr-defined]
        trace_tool(search.run),
        trace_tool(len),
        trace_tool(search),
    )

    assert (partial(2), bound("a"), length([1]), tool("b")) == (3, "a", 1, "b")
    assert type(partial) is functools.partial
    assert bound.__self__ is search  # type: ignore[attr-defined]
    assert tool.limit == 3
    assert spans.names == [
        "execute_tool added",
        "execute_tool run",
        "execute_tool len",
        "execute_tool Search",
    ]


def test_what_cannot_be_called_is_refused_where_it_is_decorated() -> None:
    with pytest.raises(TypeError, match="a property cannot be called: decorate the function in it"):
        trace_tool(property(lambda self: 1))  # type: ignore[call-overload]


def test_property_abstract_class_static_and_dataclass_methods_work_as_before(spans: Spans) -> None:
    class Base(abc.ABC):
        @trace_tool
        @abc.abstractmethod
        def first(self) -> int:
            return 1

        @property
        @trace_tool
        def second(self) -> int:
            return 2

        @trace_tool
        @classmethod
        def third(cls) -> type:
            return cls

        @staticmethod
        @trace_tool
        def fourth() -> int:
            return 4

    @dataclass
    class Derived(Base):
        factor: int = 2

        @trace_tool
        def first(self) -> int:
            return super().first() * self.factor

    with pytest.raises(TypeError, match="abstract"):
        Base()  # type: ignore[abstract]
    derived = Derived(3)
    assert (derived.first(), derived.second, Derived.third(), Derived.fourth()) == (3, 2, Derived, 4)
    assert len(spans.ended) == 5


def test_class_with_slots_and_functions_are_pickled_by_their_names() -> None:
    worker: Worker = pickle.loads(pickle.dumps(Worker(3)))

    assert worker.run() == 3
    assert pickle.loads(pickle.dumps(added)) is added
    assert pickle.loads(pickle.dumps(worker.run))() == 3


def test_method_that_is_inherited_can_be_named() -> None:
    class Parent:
        def go(self) -> int:
            return 1

    child: Any = trace_agent(method="go")(type("Child", (Parent,), {}))

    spans = Spans()
    with provided_by(spans.provider):
        assert (child().go(), Parent().go()) == (1, 1)
    assert spans.names == ["invoke_agent Child"]


def test_generator_based_coroutine_can_be_awaited(spans: Spans) -> None:
    @trace_tool
    @types.coroutine
    def old() -> Generator[Any, Any, int]:
        yield
        return 5

    async def use() -> int:
        return await old()

    assert asyncio.run(use()) == 5
    assert len(spans.ended) == 1


@pytest.mark.usefixtures("either")
def test_recursion_costs_one_frame_a_call() -> None:
    @trace_tool
    def deep(depth: int) -> int:
        return len(inspect.stack(0)) if depth == 0 else deep(depth - 1)

    assert deep(20) - deep(10) == 20


def test_recursion_without_an_end_is_refused_as_ever(spans: Spans) -> None:
    @trace_agent
    def endless() -> None:
        endless()

    with pytest.raises(RecursionError):
        endless()

    assert added(1) == 2
    assert spans.parent_of("execute_tool added") == ""


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError(), StopIteration(4)])
def test_exceptions_that_are_no_errors_pass_as_they_are(error: BaseException, spans: Spans) -> None:
    @trace_tool
    def raising() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        raising()

    assert raised.value is error
    assert spans.ended[0].attributes is not None
    assert spans.ended[0].attributes["error.type"] == type(error).__name__


def test_cancelled_coroutine_is_cancelled_and_its_span_ends(spans: Spans) -> None:
    @trace_tool
    async def waiting() -> None:
        await asyncio.Event().wait()

    async def cancel() -> None:
        task = asyncio.create_task(waiting())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())

    assert spans.names == ["execute_tool waiting"]


def test_debugger_sees_the_function_s_own_lines(spans: Spans) -> None:
    lines: list[int] = []

    def tracing(frame: types.FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename == __file__ and event == "line":
            lines.append(frame.f_lineno)
        return tracing

    def traced(function: Callable[[int], Any]) -> list[int]:
        lines.clear()
        before = sys.gettrace()
        sys.settrace(tracing)
        try:
            list(function(2))
        finally:
            sys.settrace(before)
        return list(lines)

    original: Any = counted.__wrapped__  # type: ignore[attr-defined]
    assert traced(counted) == traced(original)


def test_tool_is_timed_by_its_own_run_whatever_kind_it_is() -> None:
    recording = HeardRecording()
    original: Any = fetched.__wrapped__  # type: ignore[attr-defined]
    plain: Callable[[], Any] = trace_tool(name="plain.lambda")(lambda: original("x"))

    @trace_agent
    async def agent() -> None:
        added(1)
        await fetched("x")
        list(counted(2))
        await plain()

    with recorded_by(recording):
        asyncio.run(agent())

    [run] = recording.runs
    assert [mark.name for mark in run.marks if isinstance(mark, ToolMark)] == ["added", "fetched", "counted", "lambda"]


def test_coroutine_is_a_coroutine() -> None:
    made = fetched("x")
    assert isinstance(made, Coroutine)
    assert inspect.iscoroutine(made)
    made.close()


BACKENDS = [name for name in ("asyncio", "trio") if importlib.util.find_spec(name)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_other_schedulers_run_decorated_functions_as_their_own(backend: str, spans: Spans) -> None:
    anyio = pytest.importorskip("anyio")

    @trace_agent(name="agent")
    async def agent() -> list[int]:
        seen: list[int] = []

        async def one(number: int) -> None:
            await anyio.lowlevel.checkpoint()
            seen.append(added(number))
            assert await anyio.to_thread.run_sync(added, number) == number + 1

        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(one, number)
        return sorted(seen)

    @trace_agent(name="stream")
    async def stream() -> AsyncIterator[int]:
        for number in range(3):
            await anyio.lowlevel.checkpoint()
            yield number

    async def use() -> list[int]:
        with anyio.CancelScope() as scope:
            async with contextlib.aclosing(cast("AsyncGenerator[int, None]", stream())) as left:
                async for _ in left:
                    scope.cancel()
        return await agent()

    assert anyio.run(use, backend=backend) == [1, 2, 3]
    assert spans.names[0] == "invoke_agent stream"
    agent_span = spans.named("invoke_agent agent")
    tools = [span for span in spans.ended if span.name == "execute_tool added"]
    assert [span.parent and span.parent.span_id for span in tools] == [id_of(agent_span)] * 6
