from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.schedule import Step, plan_session
from rotoscope.testing import make_call, trace_of
from rotoscope.traces import Call, ParallelEnd, ParallelStart, ToolCall, Trace, TraceError, Wait
from rotoscope.traces.formats.agent_lines import Line, Span, Turn
from rotoscope.traces.formats.agent_timeline import DEEPEST_LINE, Timeline


def turn(
    number: int, start: float, end: float, *untimed: str, for_person: bool = False, request: int | None = None
) -> Turn:
    return Turn(make_call(number, duration_ms=end - start, request=request), start, end, untimed, for_person)


def written(line: Line) -> Trace:
    return trace_of(*Timeline(line).events())


def story(trace: Trace) -> list[object]:
    """Events in short: calls by number, tools and waits by how long they took."""
    told: list[object] = []
    for event in trace.events:
        match event:
            case Call():
                told.append((event.branch, event.call))
            case ToolCall():
                told.append((event.branch, event.tool_name, event.at_ms, event.duration_ms, event.call))
            case Wait():
                told.append((event.branch, event.kind, event.duration_ms))
            case ParallelStart():
                told.append(("fork", event.region, event.num_branches))
            case ParallelEnd():
                told.append(("join", event.region))
    return told


def test_what_remains_between_an_answer_and_the_next_call_is_a_wait() -> None:
    trace = written(Line([turn(0, 1000, 1100), turn(1, 1150, 1200), turn(2, 1250, 1300, for_person=True)]))

    assert story(trace) == [(None, 0), (None, "think", 50), (None, 1), (None, "human", 50), (None, 2)]
    assert [call.at_ms for call in trace.calls()] == [0, 150, 250]
    assert [call.message_index for call in trace.calls()] == [1, 3, 5]


def test_tools_take_their_part_of_the_gap_and_may_overlap() -> None:
    spans = [Span("tool0", 110, 150, 0), Span("tool1", 120, 130, 0)]

    trace = written(Line([turn(0, 0, 100), turn(1, 180, 200)], spans))

    assert story(trace) == [
        (None, 0),
        (None, "tool1", 120, 10, 0),
        (None, "tool0", 110, 40, 0),
        (None, "think", 30),
        (None, 1),
    ]


def test_a_tool_that_goes_on_in_the_background_does_not_hold_up_the_next_call() -> None:
    trace = written(Line([turn(0, 0, 100), turn(1, 150, 200), turn(2, 400, 500)], [Span("tool0", 100, 300, 0)]))

    assert story(trace) == [
        (None, 0),
        (None, "think", 50),
        (None, 1),
        (None, "tool0", 100, 200, 0),
        (None, "think", 100),
        (None, 2),
    ]


def test_tools_that_nobody_timed_have_the_gap_unless_a_person_wrote_meanwhile() -> None:
    lines = Line([turn(0, 0, 100, "tool3", "tool4"), turn(1, 160, 200, "tool3"), turn(2, 900, 950, for_person=True)])
    timeline = Timeline(lines)

    trace = trace_of(*timeline.events())

    assert story(trace) == [
        (None, 0),
        (None, "tool3", 100, 60, 0),
        (None, "tool4", 100, 60, 0),
        (None, 1),
        (None, "human", 700),
        (None, 2),
    ]
    assert {event.time_source for event in trace.events if isinstance(event, ToolCall)} == {"gap"}
    assert timeline.untimed_tools == 2


def test_lines_that_start_and_join_at_the_same_calls_are_one_region() -> None:
    children = [Line([turn(1, 120, 140)]), Line([turn(2, 130, 150), turn(3, 160, 190)]), Line([turn(5, 170, 400)])]

    trace = written(Line([turn(0, 0, 100), turn(4, 200, 300), turn(6, 450, 500)], [], children))

    assert story(trace) == [
        (None, 0),
        ("fork", 0, 2),
        ((0, 0), "agent", 20),
        ((0, 0), 1),
        ((0, 1), "agent", 30),
        ((0, 1), 2),
        ((0, 1), "think", 10),
        ((0, 1), 3),
        ("fork", 1, 1),
        ((1, 0), "agent", 70),
        ((1, 0), 5),
        ("join", 0),
        (None, "think", 10),
        (None, 4),
        ("join", 1),
        (None, "think", 50),
        (None, 6),
    ]


def test_a_line_that_its_parent_never_waits_for_is_not_joined() -> None:
    last = Line([turn(2, 300, 900)])
    left = Line([turn(1, 120, 140)], is_joined=False)

    trace = written(Line([turn(0, 0, 100), turn(3, 200, 400)], [], [left, last]))

    assert [entry for entry in story(trace) if entry[0] in ("fork", "join")] == [("fork", 0, 1), ("fork", 1, 1)]  # type: ignore[index]


def test_a_region_stands_for_the_tool_that_waited_for_it() -> None:
    tools = [Span("tool0", 110, 260, 0), Span("tool1", 110, 150, 0), Span("tool2", 270, 280, 0)]
    timeline = Timeline(Line([turn(0, 0, 100), turn(2, 300, 400)], tools, [Line([turn(1, 120, 250)])]))

    trace = trace_of(*timeline.events())

    assert story(trace) == [
        (None, 0),
        ("fork", 0, 1),
        ((0, 0), "agent", 20),
        ((0, 0), 1),
        (None, "tool1", 110, 40, 0),
        ("join", 0),
        (None, "tool0", 250, 10, None),
        (None, "think", 10),
        (None, "tool2", 270, 10, None),
        (None, "think", 20),
        (None, 2),
    ]
    assert timeline.agent_tools == 1


def test_a_line_that_starts_with_a_call_of_its_parent_forks_behind_it() -> None:
    trace = written(Line([turn(0, 0, 100), turn(1, 200, 300)], [], [Line([turn(2, 200, 250)])]))

    assert story(trace) == [(None, 0), (None, "think", 100), (None, 1), ("fork", 0, 1), ((0, 0), 2)]


def test_where_lines_join_the_rest_of_the_gap_is_no_tool() -> None:
    trace = written(Line([turn(0, 0, 100, "tool0"), turn(2, 300, 400)], [], [Line([turn(1, 120, 250)])]))

    assert story(trace)[-2:] == [(None, "think", 50), (None, 2)]
    assert not any(isinstance(event, ToolCall) for event in trace.events)


def test_a_root_without_calls_starts_its_lines() -> None:
    trace = written(Line([], [], [Line([turn(0, 40, 50)]), Line([turn(1, 45, 60)])]))

    assert story(trace) == [("fork", 0, 2), ((0, 0), 0), ((0, 1), "agent", 5), ((0, 1), 1)]


def test_choices_of_one_request_do_not_overlap() -> None:
    timeline = Timeline(Line([turn(0, 0, 100, request=0), turn(1, 0, 100, request=0), turn(2, 50, 90)]))

    trace = trace_of(*timeline.events())

    assert story(trace) == [("fork", 0, 1), (None, 0), (None, 1), ((0, 0), "think", 50), ((0, 0), 2)]
    assert timeline.overlapping == 1


def test_calls_that_overlap_are_beside_each_other_until_a_later_one_joins_them() -> None:
    turns = [
        turn(0, 0, 100),
        turn(1, 150, 900),
        turn(2, 160, 300),
        turn(3, 320, 500),
        turn(4, 170, 315),
        turn(5, 1000, 1100),
    ]
    line = Line(sorted(turns, key=lambda one: one.start_ms), [Span("tool0", 300, 310, 2)])
    timeline = Timeline(line)

    trace = trace_of(*timeline.events())

    assert story(trace) == [
        (None, 0),
        ("fork", 0, 2),
        (None, "think", 50),
        (None, 1),
        ((0, 0), "think", 60),
        ((0, 0), 2),
        ((0, 1), "think", 70),
        ((0, 1), 4),
        ((0, 0), "tool0", 300, 10, 2),
        ((0, 0), "think", 10),
        ((0, 0), 3),
        ("join", 0),
        (None, "think", 100),
        (None, 5),
    ]
    assert (timeline.overlapping, timeline.forks) == (3, 0)


def test_what_a_call_beside_the_others_starts_belongs_to_it() -> None:
    trace = written(Line([turn(0, 0, 100), turn(1, 50, 60), turn(3, 200, 300)], [], [Line([turn(2, 70, 80)])]))

    assert [(event.branch, event.call) for event in trace.events if isinstance(event, Call)] == [
        (None, 0),
        ((0, 0), 1),
        ((1, 0), 2),
        (None, 3),
    ]
    assert [event.branch for event in trace.events if isinstance(event, ParallelStart)] == [None, (0, 0)]


def test_a_timeline_leaves_its_lines_as_they_are() -> None:
    line = Line([turn(0, 0, 100), turn(1, 50, 60)], [Span("tool0", 60, 70, 1)], [Line([turn(2, 70, 80)])])

    assert Timeline(line).events() == Timeline(line).events()


def test_lines_nested_too_deeply_are_refused() -> None:
    line = Line([turn(0, 0, 1)])
    for _ in range(DEEPEST_LINE + 1):
        line = Line([], [], [line])

    with pytest.raises(TraceError, match="nested at most 64 deep"):
        Timeline(line).events()


@st.composite
def runs(draw: st.DrawFn) -> Line:
    """Lines whose times are few, so that many are equal."""
    lines = [Line() for _ in range(draw(st.integers(1, 5)))]
    for index, line in enumerate(lines[1:], 1):
        lines[draw(st.integers(0, index - 1))].lines.append(line)
        line.is_joined = draw(st.integers(0, 4)) > 0
    times = st.integers(0, 6)
    for _ in range(draw(st.integers(0, 10))):
        start = draw(times)
        untimed = ("tool9",) if draw(st.booleans()) else ()
        draw(st.sampled_from(lines)).turns.append(turn(0, start, start + draw(times), *untimed))
    for line in lines:
        line.turns.sort(key=lambda one: one.start_ms)
    numbered = sorted(
        (one.start_ms, place, line_of) for line_of, line in enumerate(lines) for place, one in enumerate(line.turns)
    )
    for number, (_, place, line_of) in enumerate(numbered):
        line = lines[line_of]
        line.turns[place] = replace(line.turns[place], call=replace(line.turns[place].call, call=number))
    for line in lines:
        for _ in range(draw(st.integers(0, 3))):
            start = draw(times)
            asking = [one.call.call for one in line.turns if one.start_ms <= start]
            line.spans.append(Span("tool1", start, start + draw(times), asking[-1] if asking else None))
    return lines[0]


@given(runs())
def test_whatever_the_times_the_trace_is_valid_and_can_be_scheduled(line: Line) -> None:
    trace = written(line)

    schedule = plan_session(trace)
    assert sum(step.kind == "call" for step in schedule.steps) == len(list(trace.calls()))


@given(runs())
def test_calls_of_a_branch_follow_one_another_and_are_of_one_line(line: Line) -> None:
    trace = written(line)

    line_of = {one.call.call: number for number, other in enumerate(lines_of(line)) for one in other.turns}
    branches: dict[object, list[Call]] = {}
    for event in trace.events:
        if isinstance(event, Call):
            branches.setdefault(event.branch, []).append(event)
    assert sorted(call.call for calls in branches.values() for call in calls) == sorted(line_of)
    for calls in branches.values():
        assert len({line_of[call.call] for call in calls}) == 1
        for before, after in pairwise(calls):
            assert start_of(before) + (before.duration_ms or 0) <= start_of(after)


@given(runs())
def test_no_call_waits_for_one_of_its_line_that_it_overlapped(line: Line) -> None:
    trace = written(line)

    calls = {call.call: call for call in trace.calls()}
    steps = plan_session(trace).steps
    for other in lines_of(line):
        numbers = {one.call.call for one in other.turns}
        for index, step in enumerate(steps):
            if step.call in numbers:
                for earlier in waited_for(steps, index) & numbers:
                    assert start_of(calls[earlier]) + (calls[earlier].duration_ms or 0) <= start_of(calls[step.call])


def lines_of(line: Line) -> list[Line]:
    return [line, *(inner for child in line.lines for inner in lines_of(child))]


def start_of(call: Call) -> float:
    assert call.at_ms is not None
    return call.at_ms


def waited_for(steps: Sequence[Step], index: int) -> set[int]:
    """The calls that must have ended before a step."""
    waiting, found, seen = list(steps[index].after), set(), set()
    while waiting:
        at = waiting.pop()
        if at in seen:
            continue
        seen.add(at)
        waiting += steps[at].after
        if (call := steps[at].call) is not None:
            found.add(call)
    return found
