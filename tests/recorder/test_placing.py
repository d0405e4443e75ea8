from __future__ import annotations

from collections import Counter
from math import inf

from told_agents import ToldAgent

from rotoscope.recorder.marks import WaitMark
from rotoscope.recorder.placing import _Gap, _Placing
from rotoscope.recorder.regions import Lanes
from rotoscope.recorder.told import Told
from rotoscope.traces import ToolCall, Trace, Wait
from rotoscope.traces.journal import ToolRan


def timed(trace: Trace) -> list[tuple[object, ...]]:
    """Return tools and waits for a person; times in seconds."""
    return [
        (x.branch, x.tool_name, x.call, x.time_source, (x.at_ms or 0.0) / 1000, x.duration_ms / 1000)
        if isinstance(x, ToolCall)
        else (x.branch, x.kind, (x.at_ms or 0.0) / 1000, x.duration_ms / 1000)
        for x in trace.events
        if isinstance(x, ToolCall) or (isinstance(x, Wait) and x.kind == "human")
    ]


def two_agents(*names: str) -> ToldAgent:
    """Two agents at a time whose client sends no headers, each with a tool; a root that made a call."""
    agent = ToldAgent(has_headers=False)
    agent.call("root", 0, 1)
    agent.fork("root", "r", 1.1, "a", "b")
    a, b = agent.ask("a", 1.2), agent.ask("b", 1.3)
    agent.answer("a", a, 2, tools=names[:1])
    agent.answer("b", b, 2.2, tools=names[1:])
    agent.tool("a", names[0], 2.1, 3)
    agent.tell(WaitMark("human", "b", 102.3, 102.4))
    agent.tool("b", names[1], 2.5, 3.1)
    agent.tell(WaitMark("human", "a", 103.1, 103.4))
    a, b = agent.ask("a", 3.5, results=1), agent.ask("b", 3.6, results=1)
    agent.answer("a", a, 4)
    agent.answer("b", b, 4.2)
    agent.join("r", 4.3)
    agent.call("root", 4.5, 5)
    return agent


def test_tools_and_waits_of_parallel_agents_without_headers_stand_on_their_branches_once() -> None:
    for names in (("look", "search"), ("search", "search")):
        numbers = {name: f"tool{number:02}" for number, name in enumerate(dict.fromkeys(names), 1)}
        first, second = (numbers[name] for name in names)

        assert timed(two_agents(*names).close()) == [
            ((0, 0), first, 1, "sdk", 2.1, 0.9),
            ((0, 0), "human", 3.1, 0.3),
            ((0, 1), "human", 2.3, 0.1),
            ((0, 1), second, 2, "sdk", 2.5, 0.6),
        ]


def test_a_tool_that_nobody_asked_for_by_name_stands_where_one_was_asked_for() -> None:
    agent = ToldAgent(has_headers=False)
    agent.call("root", 0, 1, tools=["search"])
    agent.tool("main", "module.search", 1.5, 2)
    agent.call("root", 3, 4, results=1)

    assert timed(agent.close())[0] == (None, "tool02", 0, "sdk", 1.5, 0.5)


def test_a_tool_gives_way_to_one_that_can_stand_nowhere_else() -> None:
    agent = ToldAgent(has_headers=False)
    agent.fork("root", "r", 0, "a", "b")
    a, b = agent.ask("a", 0), agent.ask("b", 0)
    agent.answer("a", a, 1, tools=["look"])
    agent.answer("b", b, 1, tools=["look"])
    agent.tool("b", "look", 1.5, 2)
    agent.tool("a", "look", 1, 2.5)
    b, a = agent.ask("b", 2.5, results=1), agent.ask("a", 3, results=1)
    agent.answer("b", b, 4)
    agent.answer("a", a, 4)
    agent.join("r", 4)

    assert [x[3] for x in timed(agent.close())] == ["sdk", "sdk"]


def test_a_wait_beside_calls_of_all_branches_is_left_out() -> None:
    agent = ToldAgent(has_headers=False)
    agent.call("root", 0, 1)
    agent.tell(WaitMark("human", "root", 100.2, 100.8))
    agent.tell(WaitMark("human", "root", 101.25, 101.5))
    agent.call("root", 2, 3)

    assert timed(agent.close()) == [(None, "human", 1.25, 0.25)]


class Looked(Counter[int]):
    """Tools that were asked for; counts how often somebody looks how many are left."""

    looks = 0

    def __getitem__(self, tool: int) -> int:
        Looked.looks += 1
        return super().__getitem__(tool)


def looks_at(answers: int) -> int:
    """How often an answer is looked at where each asked for a tool, and twice as many of that name ran later."""
    gaps = [_Gap((0, x), x, 1.0, inf, 0.0, inf, False, Looked([1]), (0.0, 1.0)) for x in range(answers)]
    tools = [ToolRan(tool=1, thread=1, at_ms=2.0 + x, duration_ms=0.5) for x in range(2 * answers)]
    before = Looked.looks
    placed = list(_Placing(Told(), Lanes({})).places(tools, gaps))
    assert len(placed) == len(tools)
    return Looked.looks - before


def test_answers_that_can_take_no_more_are_looked_through_once() -> None:
    assert 0 < looks_at(40) <= 20 * looks_at(10)
