"""Law: an agent is recorded alike by a gateway alone, by a gateway that it tells what it does, and without any gateway.

Branches go on one after another here: what is estimated of a prefix depends on which of several like calls came first.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from captured_simulator import StridingClock
from event_loops import GUARD_S
from same_runs import calls_and_prefixes
from sdk_worlds import in_a_thread, recorded_alone, traces_in

from examples.chat import Model
from examples.scripted_model import answer
from rotoscope import instrument
from rotoscope.proxy.standing import Standing, standing
from rotoscope.proxy.upstream import upstream_given
from rotoscope.recorder.campaigns import Campaign
from rotoscope.replayer.simulator.model import ScriptedModel
from rotoscope.replayer.simulator.server import SimulatorOptions, running_simulator
from rotoscope.sdk import recordings
from rotoscope.sdk.transports.patching import listen
from rotoscope.traces import Call, Embedding, ParallelStart, ToolCall, Trace

PATTERNS = {
    "react": ("--seed", "2", "--no-stream", "--max-steps", "8"),
    "deep_research": ("--seed", "2", "--no-stream"),
    "iterative_research": ("--seed", "2", "--rounds", "3", "--no-stream"),
    "tree_of_thought": ("--seed", "2", "--depth", "1", "--no-stream"),
    "agentic_rag": ("--task", "2", "--seed", "2"),
}


class Ways(NamedTuple):
    """The same run, recorded in three ways."""

    gateway: Trace
    both: Trace
    alone: Trace


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rotoscope.replayer.simulator.server.clock_of_speed", lambda speed: StridingClock())
        with in_a_thread(running_simulator(SimulatorOptions(port=0, speed=0), ScriptedModel(answer))) as origin:
            yield origin


@pytest.fixture(scope="module", params=PATTERNS)
def ways(request: pytest.FixtureRequest, model: str, tmp_path_factory: pytest.TempPathFactory) -> Ways:
    folder = tmp_path_factory.mktemp(request.param)

    def run(origin: str) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OPENAI_BASE_URL", f"{origin}/v1")
            patch.setenv("OPENAI_API_KEY", "none")
            turns = Turns()
            patch.setattr(Model, "ask", turns.taken_by(Model.ask))
            patch.setattr(asyncio, "to_thread", turns.taken_by(asyncio.to_thread))
            agent = importlib.import_module(f"examples.{request.param}.agent")
            assert agent.main(PATTERNS[request.param]) == ("--max-steps" in PATTERNS[request.param])

    return Ways(
        by_a_gateway(run, model, folder / "gateway"),
        by_both(run, model, folder / "both"),
        without_a_gateway(run, model, folder / "alone"),
    )


class Turns:
    """Whoever waits for a model or a thread waits for its turn too, so that the order is the one in which they came."""

    def __init__(self) -> None:
        self.free = asyncio.Lock()
        self.task: asyncio.Task[Any] | None = None

    def taken_by(self, work: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        """Return the same work, begun when all that was begun before has ended."""

        async def in_turn(*args: Any, **kwargs: Any) -> Any:
            if self.task is asyncio.current_task():  # the client that asks takes a thread of its own
                return await work(*args, **kwargs)
            async with self.free:
                self.task = asyncio.current_task()
                try:
                    return await work(*args, **kwargs)
                finally:
                    self.task = None

        return in_turn


def by_a_gateway(run: Callable[[str], None], model: str, folder: Path) -> Trace:
    with gateway(model, folder) as origin:
        run(origin)
    return only_trace(folder)


def by_both(run: Callable[[str], None], model: str, folder: Path) -> Trace:
    with gateway(model, folder) as origin:
        instrument(gateway=f"{origin}/v1")
        recording = recordings.current_recording()
        assert recording is not None
        try:
            run(origin)
            recording.flush(GUARD_S)
        finally:
            listen(None)
            recordings.record_by(None)
    return only_trace(folder)


def without_a_gateway(run: Callable[[str], None], model: str, folder: Path) -> Trace:
    with recorded_alone(folder):
        run(model)
    return only_trace(folder)


@contextlib.contextmanager
def gateway(model: str, folder: Path) -> Iterator[str]:
    """Run a gateway in a thread; when the block ends its traces are written."""
    how = Standing(upstream_given(model), folder, Campaign())

    @contextlib.asynccontextmanager
    async def stands() -> AsyncIterator[str]:
        async with standing(how, finished=lambda finished, name: None) as stood:
            yield stood.gateway.origin

    recordings.record_by(None)
    with in_a_thread(stands()) as origin:
        yield origin


def only_trace(folder: Path) -> Trace:
    [trace] = traces_in(folder)
    return trace


def test_calls_prefixes_and_tokens_are_the_same_in_all_three(ways: Ways) -> None:
    found = calls_and_prefixes(ways.gateway)

    assert found.total() >= 3
    assert calls_and_prefixes(ways.both) == found
    assert calls_and_prefixes(ways.alone) == found


def test_tools_are_the_same_and_timed_by_the_agent_where_it_tells_of_them(ways: Ways) -> None:
    told = tools(ways.both)

    assert {tool.time_source for tool in told} <= {"sdk"}
    assert {tool.time_source for tool in tools(ways.gateway)} <= {"gap"}
    assert Counter(names(tools(ways.alone))) == Counter(names(told))


def test_branches_are_those_that_the_agent_began_where_it_tells_of_them(ways: Ways) -> None:
    assert shape(ways.both) == shape(ways.alone)
    assert {start.evidence for start in regions(ways.both)} <= {"own"}
    assert "own" not in {start.evidence for start in regions(ways.gateway)}


def tools(trace: Trace) -> list[ToolCall]:
    return [event for event in trace.events if isinstance(event, ToolCall)]


def names(called: list[ToolCall]) -> list[tuple[str, str | None]]:
    return [(tool.tool_name, tool.time_source) for tool in called]


def regions(trace: Trace) -> list[ParallelStart]:
    return [event for event in trace.events if isinstance(event, ParallelStart)]


def shape(trace: Trace) -> list[tuple[int, int]]:
    """Return the number of branches of each region and how many calls they make together, in the order they begin."""
    calls = Counter(event.branch[0] for event in trace.events if isinstance(event, Call | Embedding) and event.branch)
    return [(start.num_branches, calls[start.region]) for start in regions(trace)]
