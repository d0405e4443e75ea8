from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.tool_time import only_tool_time
from rotoscope.testing import make_call, trace_of
from rotoscope.traces import ToolCall, Trace, Wait

ANSWERED_MS = 100.0
TIMES = st.integers(0, 40).map(float)


def tool(number: int, at_ms: float | None, duration_ms: float, *, call: int | None = 0) -> ToolCall:
    return ToolCall(tool_call_id=f"t{number}", tool_name="tool0", duration_ms=duration_ms, at_ms=at_ms, call=call)


def with_tools(*tools: ToolCall) -> Trace:
    return trace_of(make_call(0, at_ms=0.0, duration_ms=ANSWERED_MS), *tools)


def ends_ms(trace: Trace) -> list[float]:
    """Return when tools end, counted from the answer."""
    tools = [event for event in trace.events if isinstance(event, ToolCall)]
    return [(one.at_ms or 0.0) + one.duration_ms - ANSWERED_MS for one in tools]


def test_waits_take_no_time_and_stay_where_they_are() -> None:
    trace = trace_of(make_call(0), Wait(kind="human", duration_ms=500.0, at_ms=3.0), make_call(1))

    assert only_tool_time(trace).events[1] == Wait(kind="human", duration_ms=0.0, at_ms=3.0)


def test_a_tool_that_somebody_had_to_allow_follows_its_answer_at_once() -> None:
    assert ends_ms(only_tool_time(with_tools(tool(0, 5000.0, 50.0)))) == [50.0]


def test_what_passes_between_two_tools_of_an_answer_is_left_out_and_what_they_overlap_is_kept() -> None:
    trace = with_tools(tool(0, 110.0, 50.0), tool(1, 120.0, 30.0), tool(2, 1000.0, 7.0))

    assert ends_ms(only_tool_time(trace)) == [50.0, 40.0, 57.0]


def test_a_tool_that_began_before_its_answer_ended_stays_where_it_was() -> None:
    trace = with_tools(tool(0, 90.0, 30.0), tool(1, 200.0, 5.0))

    assert ends_ms(only_tool_time(trace)) == [20.0, 25.0]


def test_tools_of_which_the_answer_or_the_time_is_not_known_are_left_alone() -> None:
    trace = with_tools(tool(0, 900.0, 50.0, call=None), tool(1, None, 10.0))

    assert only_tool_time(trace) == trace


@given(st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=6))
def test_the_last_tool_ends_after_the_time_in_which_any_ran(runs: list[tuple[float, float]]) -> None:
    tools = [tool(number, ANSWERED_MS + at_ms, length_ms) for number, (at_ms, length_ms) in enumerate(runs)]
    busy = {ms for at_ms, length_ms in runs for ms in range(int(at_ms), int(at_ms + length_ms))}

    assert max(ends_ms(only_tool_time(with_tools(*tools)))) == len(busy)
