"""Law: a decorated function does what it does undecorated, whoever drives it: values, exceptions, contexts, tracebacks."""

from __future__ import annotations

import traceback
import types
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sdk_doubles import BrokenRecording, HeardRecording, Spans, provided_by, recorded_by

from rotoscope.sdk.decorators import trace_agent, trace_tool

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""Programs that ignore GeneratorExit are told of it when they are collected, decorated or not."""

ERRORS = (ValueError, KeyError, StopIteration, StopAsyncIteration, GeneratorExit, KeyboardInterrupt, RuntimeError)
REACTIONS = ("again", "return", "yield", "other", "from", "go on")

Step = tuple[Any, ...]

steps = st.one_of(
    st.tuples(st.just("yield"), st.integers(0, 9)),
    st.tuples(st.just("guard"), st.integers(0, 9), st.sampled_from(REACTIONS)),
    st.tuples(st.just("raise"), st.sampled_from(ERRORS)),
    st.tuples(st.just("return"), st.integers(0, 9)),
)
programs = st.lists(steps, max_size=5)
actions = st.one_of(
    st.just(("next",)),
    st.tuples(st.just("send"), st.integers(0, 9)),
    st.tuples(st.just("throw"), st.sampled_from(ERRORS)),
    st.just(("close",)),
)
scripts = st.lists(actions, max_size=7)


def reacted(error: BaseException, reaction: str) -> str:
    """Return what to do after an exception, or raise what is to be raised."""
    if reaction == "other":
        raise LookupError("other")
    if reaction == "from":
        raise LookupError("from") from error
    if reaction == "again":
        raise error
    return reaction


def generator(program: list[Step], log: list[Any]) -> Generator[Any, Any, Any]:
    try:
        for step in program:
            match step:
                case ("yield", value):
                    log.append((yield value))
                case ("guard", value, reaction):
                    try:
                        log.append((yield value))
                    except BaseException as error:  # noqa: BLE001
                        log.append(told(error))
                        if reacted(error, reaction) == "return":
                            return "caught"
                        if reaction == "yield":
                            yield "caught"
                case ("raise", kind):
                    raise kind("raised")
                case ("return", value):
                    return value
    finally:
        log.append("over")
    return "end"


async def async_generator(program: list[Step], log: list[Any]) -> AsyncGenerator[Any, Any]:
    try:
        for step in program:
            match step:
                case ("yield", value):
                    await pause("before")
                    log.append((yield value))
                case ("guard", value, reaction):
                    try:
                        log.append((yield value))
                    except BaseException as error:  # noqa: BLE001
                        log.append(told(error))
                        if reacted(error, reaction) == "return":
                            return
                        if reaction == "yield":
                            yield "caught"
                case ("raise", kind):
                    raise kind("raised")
                case ("return", _):
                    return
    finally:
        await pause("over")
        log.append("over")


@types.coroutine
def pause(value: Any) -> Generator[Any, Any, Any]:
    return (yield value)


async def coroutine(program: list[Step], log: list[Any]) -> Any:
    for step in program:
        match step:
            case ("yield", value):
                log.append(await pause(value))
            case ("guard", value, reaction):
                try:
                    log.append(await pause(value))
                except BaseException as error:
                    log.append(told(error))
                    if reacted(error, reaction) == "return":
                        return "caught"
                    if isinstance(error, GeneratorExit):
                        raise
            case ("raise", kind):
                raise kind("raised")
            case ("return", value):
                return value
    return "end"


def told(error: BaseException | None) -> Any:
    """Return all that can be seen of an exception."""
    if error is None:
        return None
    frames = [(frame.name, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    inside = [(name, 0 if name in NAMES and not is_begun(line) else line) for name, line in frames]
    return type(error), error.args, inside, told(error.__cause__), told(error.__context__)


NAMES = ("generator", "async_generator", "coroutine")


def is_begun(line: int | None) -> bool:
    """Return whether a line is of the code of a function: what is thrown in before it runs is raised in its first line."""
    lines = [function.__code__.co_firstlineno for function in (generator, async_generator, coroutine)]
    return line is not None and line > 20 and line not in lines


def outcome(act: Callable[[], Any]) -> Any:
    try:
        return "value", act()
    except BaseException as error:  # noqa: BLE001
        return "raised", told(error)


def played(made: Any, script: list[Step]) -> list[Any]:
    """Drive a generator or coroutine and return what came of each action, and of closing it."""
    seen: list[Any] = []
    for action in [*script, ("close",), ("close",)]:
        match action:
            case ("next",):
                seen.append(outcome(lambda: made.send(None)))
            case ("send", value):
                seen.append(outcome(lambda value=value: made.send(value)))  # type: ignore[misc]
            case ("throw", kind):
                seen.append(outcome(lambda kind=kind: made.throw(kind("thrown"))))  # type: ignore[misc]
            case _:
                seen.append(outcome(made.close))
    return seen


def awaited(awaitable: Any) -> Any:
    """Run an awaitable to its end, without a loop."""
    iterator = awaitable.__await__()
    try:
        while True:
            iterator.send(None)
    except StopIteration as end:
        return end.value


def played_async(made: Any, script: list[Step]) -> list[Any]:
    seen: list[Any] = []
    for action in [*script, ("close",), ("close",)]:
        match action:
            case ("next",):
                seen.append(outcome(lambda: awaited(made.__anext__())))
            case ("send", value):
                seen.append(outcome(lambda value=value: awaited(made.asend(value))))  # type: ignore[misc]
            case ("throw", kind):
                seen.append(outcome(lambda kind=kind: awaited(made.athrow(kind("thrown")))))  # type: ignore[misc]
            case _:
                seen.append(outcome(lambda: awaited(made.aclose())))
    return seen


@pytest.fixture(params=["off", "on", "broken", "spans"], autouse=True, scope="module")
def how(request: pytest.FixtureRequest) -> Any:
    with ExitStack() as stack:
        if request.param in ("on", "broken"):
            stack.enter_context(recorded_by(HeardRecording() if request.param == "on" else BrokenRecording()))
        if request.param == "spans":
            stack.enter_context(provided_by(Spans().provider))
        yield


@pytest.mark.parametrize("decorate", [trace_tool, trace_agent])
@settings(max_examples=40, deadline=None)
@given(program=programs, script=scripts)
def test_generator_does_the_same(decorate: Any, program: list[Step], script: list[Step]) -> None:
    plain_log: list[Any] = []
    traced_log: list[Any] = []

    plain = played(generator(program, plain_log), script)
    traced = played(decorate(generator)(program, traced_log), script)

    assert traced == plain
    assert traced_log == plain_log


@settings(max_examples=50, deadline=None)
@given(program=programs, script=scripts)
def test_async_generator_does_the_same(program: list[Step], script: list[Step]) -> None:
    plain_log: list[Any] = []
    traced_log: list[Any] = []

    plain = played_async(async_generator(program, plain_log), script)
    traced = played_async(trace_tool(async_generator)(program, traced_log), script)

    assert traced == plain
    assert traced_log == plain_log


@settings(max_examples=50, deadline=None)
@given(program=programs, script=scripts.filter(lambda script: ("throw", GeneratorExit) not in script))
def test_coroutine_does_the_same(program: list[Step], script: list[Step]) -> None:
    """But for what `await` hands on of being closed: not a value, from Python 3.13 on, and not that it is ignored."""
    plain_log: list[Any] = []
    traced_log: list[Any] = []

    plain = played(coroutine(program, plain_log), script)
    traced = played(trace_tool(coroutine)(program, traced_log), script)

    assert without_close_values(traced) == without_close_values(plain)
    assert traced_log == plain_log


@settings(max_examples=30, deadline=None)
@given(program=programs, script=scripts.map(lambda script: [("next",), *script]))
def test_what_a_plain_function_returns_does_the_same(program: list[Step], script: list[Step]) -> None:
    """But for the name of the frame where something is thrown in before it has begun."""
    plain_log: list[Any] = []
    traced_log: list[Any] = []
    returning: Callable[[], Any] = trace_tool(lambda: generator(program, traced_log))

    plain = played(generator(program, plain_log), script)
    traced = played(returning(), script)

    assert traced == plain
    assert traced_log == plain_log


def without_close_values(seen: list[Any]) -> list[Any]:
    return [("value", None) if kind == "value" and value == "caught" else (kind, value) for kind, value in seen]
