from __future__ import annotations

from hypothesis import given
from strategies import traces

from rotoscope.testing import make_call, trace_of
from rotoscope.traces import ParallelEnd, ParallelStart, ToolCall, Trace, TraceEvent
from rotoscope.traces.formats.trtllm_order import Fork, Join, Order, Placed, Step, ordered


def order(*events: TraceEvent) -> Order:
    return ordered(trace_of(*events))


def shown(steps: list[Step]) -> list[str]:
    """Return a word a step: what it is and its path."""
    return [f"{_kind(step)} {'.'.join(map(str, step.path))}".strip() for step in steps]


def _kind(step: Step) -> str:
    match step:
        case Fork():
            return f"fork {step.num_branches}"
        case Join():
            return "join"
        case Placed():
            number = getattr(step.event, "call", None)
            return f"call {number}" if not isinstance(step.event, ToolCall) else step.event.tool_call_id


def fork(region: int, width: int = 1, branch: tuple[int, int] | None = None) -> ParallelStart:
    return ParallelStart(region=region, num_branches=width, branch=branch)


def join(region: int, branch: tuple[int, int] | None = None) -> ParallelEnd:
    return ParallelEnd(region=region, branch=branch)


def tool(number: int, at_ms: float | None, duration_ms: float, branch: tuple[int, int] | None = None) -> ToolCall:
    return ToolCall(tool_call_id=f"t{number}", tool_name="tool0", at_ms=at_ms, duration_ms=duration_ms, branch=branch)


def call(number: int, *branch: int) -> TraceEvent:
    return make_call(number, branch=(branch[0], branch[1]) if branch else None)


@given(traces())
def test_every_region_ends_before_those_around_it_and_no_event_is_lost(trace: Trace) -> None:
    found = ordered(trace)
    stack: list[Fork] = []
    for step in found.steps:
        if isinstance(step, Fork):
            stack.append(step)
        elif isinstance(step, Join):
            assert stack.pop().path == step.path
        else:
            open_paths = {()} | {(*f.path, child) for f in stack for child in range(f.num_branches)}
            assert step.path in open_paths

    assert stack == []
    events = [e for e in trace.events if not isinstance(e, ParallelStart | ParallelEnd)]
    placed = [step.event for step in found.steps if isinstance(step, Placed)]
    assert sorted(map(str, placed)) == sorted(map(str, events))
    for branch in {event.branch for event in events}:
        of_branch = [e for e in events if e.branch == branch and not isinstance(e, ToolCall)]
        assert [e for e in placed if e.branch == branch and not isinstance(e, ToolCall)] == of_branch


def test_events_keep_their_order_and_children_get_paths() -> None:
    found = order(call(0), fork(7, 2), call(1, 7, 1), call(2), call(3, 7, 0), join(7), call(4))

    assert shown(found.steps) == ["call 0", "fork 2", "call 1 1", "call 2", "call 3 0", "join", "call 4"]
    assert (found.merged, found.unjoined, found.held_up, found.is_rearranged) == ([], [], [], False)


def test_regions_that_overlap_become_one() -> None:
    found = order(fork(0, 2), call(0, 0, 1), fork(1), call(1, 1, 0), join(0), call(2), join(1), fork(2), join(2))

    assert shown(found.steps) == ["fork 3", "call 0 1", "call 1 2", "call 2", "join", "fork 1", "join"]
    assert found.merged == [1]


def test_a_region_that_is_never_joined_joins_at_the_end() -> None:
    found = order(fork(0), fork(1, 1, (0, 0)), call(0, 1, 0), call(1))

    assert shown(found.steps) == ["fork 1", "fork 1 0", "call 0 0.0", "call 1", "join 0", "join"]
    assert found.unjoined == [0, 1]


def test_a_region_inside_one_that_is_joined_is_not_left_open() -> None:
    found = order(fork(0), fork(1, 1, (0, 0)), call(0, 1, 0), join(0), call(1))

    assert shown(found.steps) == ["fork 1", "fork 1 0", "call 0 0.0", "join 0", "join", "call 1"]
    assert found.is_rearranged


def test_regions_of_siblings_that_end_crosswise_come_one_branch_after_the_other() -> None:
    found = order(
        fork(0, 2), fork(1, 1, (0, 0)), fork(2, 1, (0, 1)), call(0, 1, 0), call(1, 2, 0),
        join(1, (0, 0)), join(2, (0, 1)), join(0),
    )  # fmt: skip

    assert shown(found.steps) == [
        *("fork 2", "fork 1 0", "call 0 0.0", "join 0", "fork 1 1", "call 1 1.0", "join 1", "join")
    ]
    assert found.is_rearranged
    assert found.held_up == [1, 2]


def test_tools_that_overlap_become_a_region() -> None:
    found = order(tool(0, 0.0, 5.0), call(0, *()), tool(1, 9.0, 5.0), tool(2, 10.0, 9.0), tool(3, 18.0, 5.0))

    assert shown(found.steps) == ["t0", "call 0", "fork 3", "t1 0", "t2 1", "t3 2", "join"]


def test_tools_that_follow_one_another_or_have_no_times_stay_in_a_row() -> None:
    found = order(tool(0, 0.0, 5.0), tool(1, 5.0, 5.0), tool(2, None, 5.0), tool(3, None, 5.0))

    assert shown(found.steps) == ["t0", "t1", "t2", "t3"]


def test_tools_that_overlap_beside_a_region_of_their_branch_stay_in_a_row() -> None:
    found = order(fork(0), tool(0, 0.0, 5.0), tool(1, 1.0, 5.0), join(0))

    assert shown(found.steps) == ["fork 1", "t0", "t1", "join"]
