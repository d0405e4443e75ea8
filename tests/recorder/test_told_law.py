"""A run of an agent that tells of itself, replayed with the durations that its calls had: every call starts when it did."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from hypothesis import example, given, settings
from hypothesis import strategies as st
from recorded_times import starts_ms
from told_agents import ToldAgent

from rotoscope.recorder.marks import WaitMark
from rotoscope.traces import ParallelEnd, ParallelStart, ToolCall, Trace, Wait

TICK_S = 0.25
MOST_DEPTH = 3
MOST_STEPS = 5


@dataclass
class Telling:
    """An agent with branches below branches, in a time of its own; what happens is told in the order of time."""

    seed: int
    agent: ToldAgent = field(default_factory=ToldAgent)
    plan: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    tools: int = 0
    regions: int = 0
    threads: int = 0
    calls: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def play(self) -> Trace:
        self.line("root", "", 0.0, 0)
        if not self.calls:
            self.call("root", "", 1000.0)
        for _, then in sorted(self.plan, key=lambda x: x[0]):
            then()
        return self.agent.close()

    def at(self, when: float, then: Callable[[], None]) -> None:
        self.plan.append((when, then))

    def ticks(self, most: int) -> float:
        return self.random.randint(0, most) * TICK_S

    def line(self, thread: str, parent: str, now: float, depth: int) -> float:
        """Let a line do some things one after another; return when it has ended."""
        for _ in range(self.random.randint(0 if depth else 2, MOST_STEPS)):
            now += self.ticks(4)
            step = self.random.choice(("call", "call", "tools", "wait", "fork", "fork"))
            if step == "call":
                now = self.call(thread, parent, now)
            elif step == "tools":
                now = max(self.tool(thread, now) for _ in range(self.random.randint(1, 3)))
            elif step == "wait":
                now = self.wait(thread, now)
            elif depth < MOST_DEPTH:
                now = self.fork(thread, now, depth)
        return now

    def call(self, thread: str, parent: str, now: float) -> float:
        self.calls += 1
        end, sent = now + TICK_S + self.ticks(8), []
        self.at(now, lambda: sent.append(self.agent.ask(thread, now, parent=parent)))
        self.at(end, lambda: self.agent.answer(thread, sent[0], end))
        return end

    def tool(self, thread: str, now: float) -> float:
        self.tools += 1
        end = now + TICK_S + self.ticks(8)
        self.at(end, partial(self.agent.tool, thread, f"tool {self.random.randrange(3)}", now, end))
        return end

    def wait(self, thread: str, now: float) -> float:
        end = now + TICK_S + self.ticks(8)
        self.at(end, lambda: self.agent.tell(WaitMark("human", thread, 100 + now, 100 + end)))
        return end

    def fork(self, thread: str, now: float, depth: int) -> float:
        self.regions += 1
        region, ends = f"r{self.regions}", [now]
        for _ in range(self.random.randint(1, 3)):
            self.threads += 1
            name = f"t{self.threads}"
            self.at(now, partial(self.agent.fork, thread, region, now, name))
            ends.append(self.line(name, thread, now, depth + 1))
        end = max(ends)
        self.at(end, partial(self.agent.join, region, end))
        return end


@settings(max_examples=40)
@given(seed=st.integers(0, 1_000_000))
def test_every_call_of_a_told_run_starts_in_a_replay_when_it_did(seed: int) -> None:
    trace = Telling(seed).play()
    starts = starts_ms(trace)

    assert {x.call: x.at_ms for x in trace.calls() if abs(starts[x.call] - (x.at_ms or 0.0)) > 1e-3} == {}


@settings(max_examples=40)
@given(seed=st.integers(0, 1_000_000))
def test_every_tool_that_was_told_is_there_and_every_region_of_calls_is_joined(seed: int) -> None:
    telling = Telling(seed)
    trace = telling.play()
    starts = {x.region for x in trace.events if isinstance(x, ParallelStart)}

    assert sum(isinstance(x, ToolCall) for x in trace.events) == telling.tools
    assert starts == {x.region for x in trace.events if isinstance(x, ParallelEnd)}


@dataclass
class Headerless(Telling):
    """The same on a client without our headers: its branches make calls, and run what those ask for."""

    agent: ToldAgent = field(default_factory=lambda: ToldAgent(has_headers=False))
    waits: list[float] = field(default_factory=list)
    """When each was over, in milliseconds."""
    results: dict[str, int] = field(default_factory=dict)

    def line(self, thread: str, parent: str, now: float, depth: int) -> float:
        return super().line(thread, parent, self.call(thread, parent, now), depth)

    def call(self, thread: str, parent: str, now: float) -> float:
        self.calls += 1
        end, sent, results = now + TICK_S + self.ticks(8), [], self.results.pop(thread, 0)
        names = [f"tool {self.random.randrange(3)}" for _ in range(self.random.choice((0, 1, 1, 2)))]
        self.at(now, lambda: sent.append(self.agent.ask(thread, now, results=results)))
        self.at(end, lambda: self.agent.answer(thread, sent[0], end, tools=names))
        self.results[thread] = len(names)
        return max((self.run(thread, name, end) for name in names), default=end)

    def tool(self, thread: str, now: float) -> float:
        return now  # only what was asked for is run

    def run(self, thread: str, name: str, now: float) -> float:
        self.tools += 1
        start = now + self.ticks(2)
        end = start + TICK_S + self.ticks(8)
        self.at(end, partial(self.agent.tool, thread, name, start, end))
        return end

    def wait(self, thread: str, now: float) -> float:
        end = super().wait(thread, now)
        self.waits.append(end * 1000)
        return end


@settings(max_examples=20)
@given(seed=st.integers(0, 1_000_000))
@example(seed=9)  # a fan-out that is never joined, inside of one that is, with something told behind its last call
def test_what_clients_without_headers_told_is_there_once_but_for_waits_beside_tools_of_a_branch(seed: int) -> None:
    telling = Headerless(seed)
    trace = telling.play()
    tools = [x for x in trace.events if isinstance(x, ToolCall)]
    waits = [x for x in trace.events if isinstance(x, Wait) and x.kind == "human"]
    ends = {(x.at_ms or 0.0) + x.duration_ms for x in waits}

    assert [x.time_source for x in tools] == ["sdk"] * telling.tools
    for end_ms in telling.waits:
        beside = (x for x in tools if (x.at_ms or 0.0) < end_ms <= (x.at_ms or 0.0) + x.duration_ms)
        assert end_ms in ends or any(beside)
    assert len(waits) <= len(telling.waits)
