from __future__ import annotations

from rotoscope.sdk.otlp.placing import Extent, Places
from rotoscope.testing import make_call, trace_of
from rotoscope.traces.model import Message, ParallelEnd, ParallelStart, ToolCall, TraceEvent, Wait


def places(*events: TraceEvent) -> Places:
    return Places.of(trace_of(*events))


def test_what_has_no_time_follows_what_came_before_it_on_its_branch() -> None:
    found = places(
        make_call(0, at_ms=10.0, duration_ms=5.0),
        ToolCall(tool_call_id="t0", tool_name="tool0", duration_ms=7.0),
        Wait(kind="human", duration_ms=100.0),
        make_call(1),
    )

    assert list(found.events.values()) == [
        Extent(10.0, 15.0),
        Extent(15.0, 22.0),
        Extent(22.0, 122.0),
        Extent(122.0, 122.0),
    ]


def test_a_region_lasts_as_long_as_its_branches_and_what_it_stands_on_as_long_as_it() -> None:
    found = places(
        make_call(0, at_ms=0.0, duration_ms=5.0),
        ParallelStart(region=0, num_branches=2),
        make_call(1, branch=(0, 0), at_ms=8.0, duration_ms=2.0),
        make_call(2, branch=(0, 1), at_ms=6.0, duration_ms=20.0),
        ParallelEnd(region=0),
        Wait(kind="think", duration_ms=1.0),
    )

    assert found.branches == {None: Extent(0.0, 27.0), (0, 0): Extent(8.0, 10.0), (0, 1): Extent(6.0, 26.0)}
    assert found.regions == {0: Extent(6.0, 26.0)}
    assert found.events[5] == Extent(26.0, 27.0)


def test_a_branch_begins_where_its_region_does() -> None:
    found = places(
        make_call(0, at_ms=0.0, duration_ms=5.0),
        ParallelStart(region=0, num_branches=1),
        Wait(kind="agent", duration_ms=3.0, branch=(0, 0)),
    )

    assert found.regions == {0: Extent(5.0, 8.0)}


def test_a_region_on_which_nothing_took_time_has_a_moment() -> None:
    found = places(
        make_call(0, at_ms=0.0, duration_ms=5.0),
        ParallelStart(region=0, num_branches=2),
        Message(branch=(0, 1), conversation_id=0, role="user", message_index=0, tokens=1),
        ParallelStart(branch=(0, 1), region=1, num_branches=1),
    )

    assert found.regions == {0: Extent(5.0, 5.0), 1: Extent(5.0, 5.0)}
    assert found.branches == {None: Extent(0.0, 5.0), (0, 1): Extent(5.0, 5.0)}
