from __future__ import annotations

import pytest
from mooncake_files import read, span, step

from rotoscope.replayer.schedule import plan_session
from rotoscope.traces import Call, ParallelEnd, ParallelStart, ToolCall, Trace, TraceError, Wait
from rotoscope.traces.formats.fidelity import Fidelity


def run(*rows: object, fidelity: Fidelity | None = None) -> Trace:
    (member,) = read(*rows, fidelity=fidelity)
    return member.trace


def outline(trace: Trace) -> list[object]:
    """What happens, in order: calls by number, forks and joins by region, sleeps by milliseconds."""
    shown: list[object] = []
    for event in trace.events:
        match event:
            case Call():
                shown.append(event.call)
            case ParallelStart():
                shown.append(("fork", event.region, event.num_branches))
            case ParallelEnd():
                shown.append(("join", event.region))
            case ToolCall():
                shown.append((event.tool_name, event.duration_ms))
            case Wait():
                shown.append((event.kind, event.duration_ms))
    return shown


def test_a_child_is_a_branch_between_the_row_that_started_it_and_the_one_that_waits_for_it() -> None:
    trace = run(
        step("p1", "root", 1, at_ms=0, branches=["c1"]),
        step("c1", "child", 3, at_ms=200, after=["p1"], delay=100.0),
        step("p2", "root", 1, 2, at_ms=500, after=["p1", "c1"], delay=200.0),
    )

    assert outline(trace) == [0, ("fork", 0, 1), ("agent", 100.0), 1, ("join", 0), ("think", 200.0), 2]
    assert [(call.branch, call.conversation_id, call.at_ms) for call in trace.calls()] == [
        (None, 0, 0.0),
        ((0, 0), 1, 200.0),
        (None, 0, 500.0),
    ]


def test_children_of_one_start_and_one_join_are_one_region_and_others_have_their_own() -> None:
    trace = run(
        step("p1", "root", 1),
        step("a", "a", 3, at_ms=1, after=["p1"]),
        step("b", "b", 4, at_ms=2, after=["p1"]),
        step("c", "c", 5, at_ms=3, after=["p1"]),
        step("p2", "root", 1, 2, at_ms=4, after=["p1", "a", "b"]),
        step("c2", "c", 5, 6, at_ms=5, after=["c"]),
    )

    assert outline(trace) == [0, ("fork", 0, 2), ("fork", 1, 1), 1, 2, 3, ("join", 0), 4, 5]
    assert [call.branch for call in trace.calls()] == [None, (0, 0), (0, 1), (1, 0), None, (1, 0)]


def test_lines_that_nothing_started_are_branches_from_the_beginning_and_start_in_their_time() -> None:
    trace = run(
        step("x", "early", 7, at_ms=10),
        step("a", "root", 1, at_ms=15),
        step("y", "late", 8, at_ms=40),
        step("b", "root", 1, 2, at_ms=90, after=["a", "x", "y"]),
    )

    assert outline(trace) == [("fork", 0, 2), 0, ("agent", 5.0), 1, ("agent", 30.0), 2, ("join", 0), 3]
    assert [call.branch for call in trace.calls()] == [(0, 0), None, (0, 1), None]


def test_a_branch_that_is_only_named_starts_in_its_time_after_the_request_that_names_it() -> None:
    trace = run(
        step("a", "root", 1, at_ms=100, branches=["d"]),
        step("b", "root", 1, 2, at_ms=200, after=["a"], delay=30.0),
        step("c", "root", 1, 2, 3, at_ms=300, after=["b"], branches=["e"]),
        step("d", "named", 4, at_ms=310),
        step("e", "other", 5, at_ms=350),
    )

    assert outline(trace)[0:2] == [0, ("fork", 0, 1)]
    assert outline(trace)[-4:] == [("agent", 140.0), 3, ("agent", 50.0), 4]


def test_branches_fork_again() -> None:
    trace = run(
        step("p1", "root", 1),
        step("a1", "a", 2, at_ms=1, after=["p1"]),
        step("b1", "b", 3, at_ms=2, after=["a1"]),
        step("a2", "a", 2, 4, at_ms=3, after=["a1", "b1"]),
        step("p2", "root", 1, 5, at_ms=4, after=["p1", "a2"]),
    )

    assert outline(trace) == [0, ("fork", 0, 1), 1, ("fork", 1, 1), 2, ("join", 1), 3, ("join", 0), 4]


def test_runs_that_have_nothing_to_do_with_each_other_are_members_and_share_prefixes() -> None:
    members = read(step("a", "s", 1, 2), step("b", "t", 1, 3, at_ms=5), step("c", "s", 1, 2, 4, at_ms=9, after=["a"]))

    assert [(member.start_ms, member.ranks) for member in members] == [(0.0, (0, 2)), (5.0, (1,))]
    assert [[call.prefix.of for call in member.trace.calls()] for member in members] == [["s0", 0], ["s0"]]


def test_tools_keep_their_places_behind_the_answer_and_the_rest_of_the_gap_is_a_wait() -> None:
    trace = run(
        step("a", "s", 1, at_ms=0),
        step(
            *("b", "s", 1, 2),
            at_ms=400,
            after=["a"],
            delay=100.0,
            tool_wait_ms=200.0,
            tool_events=[span("read", 1150, 100), span("ls", 1100, 200), span("read", 1290, 10)],
        ),
    )

    tools = [event for event in trace.events if isinstance(event, ToolCall)]
    assert [(t.tool_name, t.at_ms, t.duration_ms, t.call, t.time_source) for t in tools] == [
        ("tool0", 100.0, 200.0, 0, "client"),
        ("tool1", 150.0, 100.0, 0, "client"),
        ("tool1", 290.0, 10.0, 0, "client"),
    ]
    assert outline(trace)[-2:] == [("think", 100.0), 1]
    assert next(trace.calls()).duration_ms == 100.0
    assert longest_way_s(trace) == pytest.approx(0.3)


def test_tools_that_began_before_the_answer_ended_begin_earlier() -> None:
    fidelity = Fidelity()
    trace = run(
        step("a", "s", 1, at_ms=0),
        step(
            *("b", "s", 1, 2),
            at_ms=300,
            after=["a"],
            delay=0.0,
            tool_wait_ms=100.0,
            tool_events=[span("ls", 50, 150)],
        ),
        fidelity=fidelity,
    )

    assert [(e.at_ms, e.duration_ms) for e in trace.events if isinstance(e, ToolCall)] == [(150.0, 150.0)]
    assert longest_way_s(trace) == pytest.approx(0.1)
    assert any(line.startswith("approximated tools (1 tools)") for line in fidelity.lines())


def test_tools_behind_a_join_follow_one_another_where_there_is_room_and_are_one_where_not() -> None:
    def joined(*spans: dict[str, object]) -> Trace:
        return run(
            step("a", "s", 1),
            step("c", "t", 2, at_ms=10, after=["a"], delay=4.0),
            step(
                *("b", "s", 1, 2),
                at_ms=500,
                after=["a", "c"],
                delay=40.0,
                tool_wait_ms=60.0,
                tool_events=list(spans),
            ),
        )

    assert outline(joined(span("x", 9, 30), span("y", 50, 30)))[-4:] == [
        ("tool0", 30.0),
        ("tool1", 30.0),
        ("think", 40.0),
        2,
    ]
    assert outline(joined(span("x", 9, 60), span("y", 9, 60)))[-3:] == [("tool0", 60.0), ("think", 40.0), 2]


def test_tools_behind_a_join_have_no_time_of_their_own() -> None:
    trace = run(
        step("a", "s", 1),
        step("c", "t", 2, at_ms=10, after=["a"], delay=4.0),
        step("b", "s", 1, 2, at_ms=90, after=["a", "c"], delay=9.0, tool_wait_ms=5.0, tool_events=[span("x", 9, 5)]),
    )

    assert next(trace.calls()).duration_ms == 6.0
    assert [event.at_ms for event in trace.events if isinstance(event, ToolCall)] == [None]


def test_a_tool_wait_without_spans_is_a_tool_whose_time_is_a_gap() -> None:
    trace = run(step("a", "s", 1), step("b", "s", 1, 2, at_ms=50, after=["a"], delay=1.0, tool_wait_ms=30.0))

    assert [(e.tool_name, e.time_source) for e in trace.events if isinstance(e, ToolCall)] == [("tool0", "gap")]
    assert outline(trace) == [0, ("tool0", 30.0), ("think", 1.0), 1]


def test_what_the_model_cannot_say_is_counted() -> None:
    fidelity = Fidelity()
    read(
        step("a", "s", 1),
        step("b", "s", 2, at_ms=1),
        step("c", "t", 3, at_ms=2),
        step("d", "s", 1, 4, at_ms=3, after=["b", "c"]),
        step("e", "t", 5, at_ms=4, after=["c"]),
        fidelity=fidelity,
    )

    lines = fidelity.lines()
    assert any(line.startswith("approximated order of requests (1 calls)") for line in lines)
    assert any(line.startswith("lost requests that another one waits for (1 links)") for line in lines)


def test_a_session_that_goes_back_in_time_without_times_for_all_is_an_error() -> None:
    with pytest.raises(TraceError, match="x:3: timestamp: expected at least the time of line 1"):
        read(step("a", "s", 1, at_ms=5), step("b", "t", 1, at_ms=None), step("c", "s", 1, at_ms=4, after=["a"]))


def longest_way_s(trace: Trace) -> float:
    """Return how long a session sleeps if answers take no time."""
    ends: list[float] = []
    for one in plan_session(trace).steps:
        ends.append(max((ends[before] for before in one.after), default=0.0) + one.seconds)
    return max(ends)
