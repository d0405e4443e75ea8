from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import pytest
from told_agents import ToldAgent

from rotoscope.recorder.marks import BranchMark, JoinMark, ToolMark, WaitMark
from rotoscope.traces import Call, ParallelEnd, ParallelStart, ToolCall, Trace, Wait, save
from rotoscope.traces.audit import audit
from rotoscope.traces.canary import Canaries


def told(trace: Trace) -> list[Any]:
    """Return the events but messages, in short; times in seconds."""
    short: list[Any] = []
    for event in trace.events:
        match event:
            case Call():
                short.append(("call", event.branch, event.call))
            case ToolCall():
                at_s = None if event.at_ms is None else event.at_ms / 1000
                short.append(
                    (event.time_source, event.branch, event.tool_name, event.call, at_s, event.duration_ms / 1000)
                )
            case Wait():
                short.append((event.kind, event.branch, event.duration_ms / 1000))
            case ParallelStart():
                short.append(("start", event.branch, event.region, event.num_branches, event.evidence))
            case ParallelEnd():
                short.append(("end", event.branch, event.region))
    return short


def test_a_tool_that_was_timed_has_its_own_time_and_the_rest_of_the_gap_is_a_wait() -> None:
    agent = ToldAgent()
    agent.call("root", 0, 1, tools=["read"])
    agent.tool("root", "read", 1.25, 3)
    agent.call("root", 4, 5, results=1)

    assert told(agent.close()) == [
        ("call", None, 0),
        ("sdk", None, "tool01", 0, 1.25, 1.75),
        ("think", None, 1.0),
        ("call", None, 1),
    ]


def test_all_times_are_in_whole_microseconds() -> None:
    agent = ToldAgent()
    agent.call("root", 0, 1, tools=["read"])
    agent.tool("root", "read", 1.1001, 1.110881)
    agent.call("root", 4, 5, results=1)

    trace = agent.close()

    (wait,) = (event for event in trace.events if isinstance(event, Wait))
    assert wait.at_ms == round(wait.at_ms or 0.0, 3)


def test_a_tool_that_nobody_timed_has_the_rest_of_the_gap() -> None:
    agent = ToldAgent()
    agent.call("root", 0, 1, tools=["read", "write"])
    agent.tool("root", "read", 1, 3)
    agent.call("root", 4, 5, results=2)

    assert told(agent.close())[1:3] == [
        ("sdk", None, "tool01", 0, 1.0, 2.0),
        ("gap", None, "tool02", 0, 3.0, 1.0),
    ]


def test_tools_that_ran_at_the_same_time_overlap() -> None:
    agent = ToldAgent()
    agent.call("root", 0, 1, tools=["read", "write"])
    agent.tool("root", "read", 1, 3)
    agent.tool("root", "write", 1, 4)
    agent.call("root", 4, 5, results=2)

    assert told(agent.close())[1:3] == [("sdk", None, "tool01", 0, 1.0, 2.0), ("sdk", None, "tool02", 0, 1.0, 3.0)]


def test_a_run_begins_with_the_first_thing_that_is_told_and_ends_with_the_last() -> None:
    agent = ToldAgent()
    agent.tool("root", "search", -2, -1)
    agent.call("root", 0, 1)
    agent.tool("root", "save", 1, 2)

    assert told(agent.close()) == [
        ("sdk", None, "tool01", None, 0.0, 1.0),
        ("think", None, 1.0),
        ("call", None, 0),
        ("sdk", None, "tool02", 0, 3.0, 1.0),
    ]


def test_what_is_told_late_of_a_time_before_the_first_call_moves_the_calls() -> None:
    agent = ToldAgent()
    agent.call("root", 0, 1)
    agent.tool("root", "search", -2, -1)
    trace = agent.close()

    assert told(trace) == [("sdk", None, "tool01", None, 0.0, 1.0), ("think", None, 1.0), ("call", None, 0)]
    assert [call.at_ms for call in trace.calls()] == [2000.0]


def test_a_tool_that_runs_on_beside_a_call_holds_up_the_one_behind_its_end() -> None:
    agent = ToldAgent()
    agent.call("root", 0, 1)
    agent.call("root", 2, 3)
    agent.tool("root", "index", 1, 4)
    agent.call("root", 5, 6)

    assert told(agent.close()) == [
        ("call", None, 0),
        ("think", None, 1.0),
        ("call", None, 1),
        ("sdk", None, "tool01", 1, 1.0, 3.0),
        ("think", None, 1.0),
        ("call", None, 2),
    ]


def test_a_wait_for_a_person_is_told() -> None:
    agent = ToldAgent()
    agent.call("root", 0, 1)
    agent.tell(WaitMark("human", "root", 101.5, 103))
    agent.call("root", 4, 5)

    assert told(agent.close())[1:4] == [("think", None, 0.5), ("human", None, 1.5), ("think", None, 1.0)]


def test_branches_of_a_region_need_not_overlap_and_are_joined_when_the_agent_says_so() -> None:
    agent = ToldAgent()
    agent.call("root", 0, 1)
    agent.fork("root", "r", 2, "a", "b")
    agent.call("a", 2, 3, parent="root")
    agent.call("b", 4, 5, parent="root")
    agent.tool("b", "sum", 5, 6)
    agent.join("r", 7)
    agent.call("root", 8, 9)

    assert told(agent.close()) == [
        ("call", None, 0),
        ("think", None, 1.0),
        ("start", None, 0, 2, "own"),
        ("call", (0, 0), 1),
        ("agent", (0, 1), 2.0),
        ("call", (0, 1), 2),
        ("sdk", (0, 1), "tool01", 2, 5.0, 1.0),
        ("end", None, 0),
        ("think", None, 2.0),
        ("call", None, 3),
    ]


def test_a_region_of_which_no_join_is_told_is_never_joined() -> None:
    agent = ToldAgent()
    agent.call("root", 0, 1)
    agent.fork("root", "r", 1, "a")
    agent.call("a", 1, 2, parent="root")
    agent.call("root", 3, 4)

    assert ("end", None, 0) not in told(agent.close())


def test_who_forks_without_a_call_has_a_branch() -> None:
    agent = ToldAgent()
    agent.fork("root", "r", -1, "a", "b")
    agent.call("a", 0, 2, parent="root")
    agent.call("b", 1, 3, parent="root")
    agent.join("r", 4)

    assert told(agent.close()) == [
        ("start", None, 0, 2, "own"),
        ("agent", (0, 0), 1.0),
        ("call", (0, 0), 0),
        ("agent", (0, 1), 2.0),
        ("call", (0, 1), 1),
        ("end", None, 0),
    ]


def test_agents_that_follow_one_another_and_only_fork_are_in_the_root() -> None:
    agent = ToldAgent()
    for number in range(2):
        outer, inner = f"outer {number}", f"inner {number}"
        agent.fork(outer, f"region {number}", 10 * number, inner)
        agent.call(inner, 10 * number + 1, 10 * number + 2, parent=outer)
        agent.join(f"region {number}", 10 * number + 3)

    assert [x for x in told(agent.close()) if x[0] in ("start", "call", "end")] == [
        ("start", None, 0, 1, "own"),
        ("call", (0, 0), 0),
        ("end", None, 0),
        ("start", None, 1, 1, "own"),
        ("call", (1, 0), 1),
        ("end", None, 1),
    ]


def test_agents_may_begin_one_another_deeper_than_a_stack_goes() -> None:
    agent, depth = ToldAgent(), 120
    for number in range(depth):
        agent.call(str(number), 2 * number, 2 * number + 1)
        agent.fork(str(number), f"region {number}", 2 * number + 1, str(number + 1))
    agent.call(str(depth), 2 * depth, 2 * depth + 1)
    for number in reversed(range(depth)):
        agent.join(f"region {number}", 2 * depth + 2)
    agent.call("0", 2 * depth + 3, 2 * depth + 4)
    limit = sys.getrecursionlimit()

    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        trace = agent.close()
    finally:
        sys.setrecursionlimit(limit)

    assert sum(isinstance(event, ParallelEnd) for event in trace.events) == depth


def test_a_branch_that_only_forks_stands_between_its_parent_and_its_branches() -> None:
    agent = ToldAgent()
    agent.call("root", 0, 1)
    agent.fork("root", "outer", 1, "middle", "other")
    agent.fork("middle", "inner", 2, "leaf", "twig")
    agent.call("leaf", 2, 3, parent="middle")
    agent.call("twig", 2, 4, parent="middle")
    agent.call("other", 2, 3, parent="root")
    agent.join("inner", 5)
    agent.join("outer", 5)
    agent.call("root", 6, 7)
    starts = [x for x in told(agent.close()) if x[0] in ("start", "end")]

    assert starts == [
        ("start", None, 0, 2, "own"),
        ("start", (0, 0), 1, 2, "own"),
        ("end", (0, 0), 1),
        ("end", None, 0),
    ]


def test_tools_of_a_region_without_calls_are_those_of_who_began_it() -> None:
    agent = ToldAgent()
    agent.call("root", 0, 1, tools=["search", "search"])
    agent.fork("root", "r", 1, "a", "b")
    agent.tool("a", "search", 1, 3)
    agent.tool("b", "search", 1, 2)
    agent.join("r", 3)
    agent.call("root", 3, 4, results=2)

    assert told(agent.close()) == [
        ("call", None, 0),
        ("sdk", None, "tool01", 0, 1.0, 1.0),
        ("sdk", None, "tool01", 0, 1.0, 2.0),
        ("call", None, 1),
    ]


def test_a_branch_without_calls_stands_beside_those_that_made_some() -> None:
    agent = ToldAgent()
    agent.call("root", 0, 1)
    agent.fork("root", "r", 1, "a", "b")
    agent.call("a", 1, 2, parent="root")
    agent.tool("b", "search", 1, 4)
    agent.join("r", 4)
    agent.call("root", 4, 5)

    assert told(agent.close()) == [
        ("call", None, 0),
        ("start", None, 0, 2, "own"),
        ("call", (0, 0), 1),
        ("sdk", (0, 1), "tool01", None, 1.0, 3.0),
        ("end", None, 0),
        ("call", None, 2),
    ]


def test_one_who_begins_its_own_parent_hurts_nobody() -> None:
    agent = ToldAgent()
    agent.fork("a", "r", 0, "b")
    agent.fork("b", "q", 0, "a")
    agent.call("a", 0, 1, parent="b")
    agent.call("b", 1, 2, parent="a")

    assert [event.call for event in agent.close().calls()] == [0, 1]


def test_no_name_of_a_mark_is_shown() -> None:
    marks = [ToolMark("secret", "secret", 0, 1), BranchMark("secret", "secret", "secret", 0), JoinMark("secret", 0)]

    assert "secret" not in repr([*marks, WaitMark("human", "secret", 0, 1)])


@pytest.mark.parametrize("is_late", [False, True])
def test_a_journal_and_its_trace_hold_nothing_that_an_audit_finds(is_late: bool, tmp_path: Path) -> None:
    agent = ToldAgent()
    if is_late:
        agent.call("root", 0, 1)
    agent.fork("root", "secret region", -3, "secret branch")
    agent.tool("root", "secret tool", -2, -1)
    agent.tell(WaitMark("human", "root", 99.0, 99.5))
    agent.call("root", 2, 3)
    agent.join("secret region", 1.5)
    (tmp_path / "run-0001.journal.jsonl").write_bytes(agent.journal.getvalue())
    save(agent.close(), tmp_path / "run-0002.trace.json")

    audited = audit([tmp_path], canaries=Canaries.of(["secret"], tokenizers={}))

    assert [(one.what, one.field) for one in audited.findings.kept] == []


def test_branch_that_ended_with_a_tool_and_was_joined_begins_nobody_any_more() -> None:
    agent = ToldAgent()
    agent.call("main", 0, 1)
    agent.fork("main", "r", 1, "one")
    agent.call("one", 1, 2, parent="main", tools=["finish"])
    agent.join("r", 3)
    agent.call("", 4, 5)
    agent.call("main", 6, 7)

    assert [call.branch for call in agent.close().calls()] == [None, (0, 0), None, None]
