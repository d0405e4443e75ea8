from __future__ import annotations

import pytest
from hypothesis import given
from strategies import corpora

from rotoscope.testing import make_call, trace_of
from rotoscope.traces import Call, ParallelEnd, ParallelStart, ToolCall, Trace, Wait
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.registry import format_named
from rotoscope.traces.formats.written_times import behind_last_calls, has_clock, times_of, written_times


def members_of(traces: list[Trace], start_ms: float | None = None) -> list[Member]:
    return [Member(name=str(index), trace=trace, start_ms=start_ms) for index, trace in enumerate(traces)]


def tool(number: int, duration_ms: float) -> ToolCall:
    return ToolCall(tool_call_id=f"t{number}", tool_name="tool0", duration_ms=duration_ms)


def test_what_is_not_known_is_as_early_as_what_is_before_allows() -> None:
    trace = trace_of(
        make_call(0, duration_ms=100.0),
        tool(0, 30.0),
        Wait(kind="think", duration_ms=20.0),
        ParallelStart(region=0, num_branches=2),
        make_call(1, branch=(0, 0), duration_ms=40.0),
        make_call(2, branch=(0, 1)),
        Wait(branch=(0, 1), kind="think", duration_ms=70.0),
        ParallelEnd(region=0),
        make_call(3),
    )

    times = times_of(trace)

    assert times.calls == {0: (0, 100), 1: (150, 190), 2: (150, 150), 3: (220, 220)}
    assert times.tools == {"t0": (100, 130)}
    assert times.assumed == 4


def test_a_join_waits_for_what_its_branches_started() -> None:
    trace = trace_of(
        ParallelStart(region=0, num_branches=1),
        ParallelStart(region=1, num_branches=1, branch=(0, 0)),
        make_call(0, branch=(1, 0), duration_ms=50.0),
        ParallelEnd(region=0),
        make_call(1),
    )

    assert times_of(trace).calls[1] == (50, 50)


def test_traces_stand_on_the_clock_of_their_corpus_or_start_together() -> None:
    trace = trace_of(make_call(0, at_ms=5.0, duration_ms=10.0))

    assert written_times(members_of([trace], 100.0))[0].calls == {0: (105, 115)}
    assert written_times(members_of([trace, trace]))[1].calls == {0: (5, 15)}
    assert not has_clock(members_of([trace]))


@given(corpora())
def test_known_times_are_kept_and_all_others_given(traces: list[Trace]) -> None:
    for trace, times in zip(traces, written_times(members_of(traces)), strict=True):
        assert times.calls.keys() == {call.call for call in trace.calls()}
        for event in trace.events:
            if isinstance(event, Call) and event.at_ms is not None:
                assert times.calls[event.call] == (event.at_ms, event.at_ms + (event.duration_ms or 0))
            if isinstance(event, ToolCall) and event.at_ms is not None:
                assert times.tools[event.tool_call_id] == (event.at_ms, event.at_ms + event.duration_ms)


def test_what_no_call_of_its_branch_follows_is_told() -> None:
    before, last = Wait(kind="human", duration_ms=1.0), Wait(kind="human", duration_ms=2.0)
    inner = Wait(kind="think", duration_ms=3.0, branch=(0, 0))
    events = (before, make_call(0), last, ParallelStart(region=0, num_branches=1), make_call(1, branch=(0, 0)), inner)

    assert behind_last_calls(trace_of(*events)) == [last, inner]


@pytest.mark.parametrize("name", ["weka", "mooncake-sessions", "tracelab-csv"])
def test_formats_of_gaps_say_that_they_lose_what_no_call_follows(name: str) -> None:
    ran = ToolCall(tool_call_id="t0", tool_name="tool0", duration_ms=5.0, call=0)
    trace = trace_of(make_call(0), ran, Wait(kind="human", duration_ms=2.0))
    known, fidelity = format_named(name), Fidelity()

    if known.write_trace is not None:
        known.write_trace(trace, fidelity, block_size=64)
    else:
        assert known.write_corpus is not None
        list(known.write_corpus([Member(name="", trace=trace)], fidelity, block_size=64))

    met = [(aspect.verdict, times) for aspect, times in fidelity.counts.items() if aspect.what.startswith("tools")]
    assert met == [("lost", 2)]


@pytest.mark.parametrize("name", ["dynamo", "tracelab"])
def test_formats_of_times_say_that_they_lose_waits_that_no_call_follows(name: str) -> None:
    human = Wait(kind="human", duration_ms=2.0)
    known, fidelity = format_named(name), Fidelity()
    assert known.write_corpus is not None

    list(
        known.write_corpus(
            [Member(name="", trace=trace_of(make_call(0), human, make_call(1), human))], fidelity, block_size=64
        )
    )

    met = [(aspect.verdict, times) for aspect, times in fidelity.counts.items() if aspect.what == "waits"]
    assert sorted(met) == [("approximated", 1), ("lost", 1)]
