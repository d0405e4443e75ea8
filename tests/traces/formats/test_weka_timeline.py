from __future__ import annotations

import pytest
from foreign_traces import Json, agent, request, weka

from rotoscope.traces import Call, ParallelEnd, ParallelStart, ToolCall, Trace, TraceEvent, Wait, dumps, loads
from rotoscope.traces.formats.weka import read_weka


def read(*entries: Json) -> Trace:
    trace = read_weka(weka(*entries), "x.json")
    assert loads(dumps(trace)) == trace
    return trace


def kinds(trace: Trace) -> list[type[TraceEvent]]:
    return [type(event) for event in trace.events]


def test_times_start_with_the_first_request_and_an_empty_answer_is_kept() -> None:
    trace = read(request(100, [1], out=0, api_time=2.5, ttft=0.25), request(103, [1]))

    first, second = trace.calls()
    assert (first.at_ms, first.duration_ms, first.ttft_ms, first.completion_tokens) == (0, 2500, 250, 0)
    assert (second.at_ms, second.duration_ms, second.ttft_ms) == (3000, None, None)


def test_a_gap_with_a_tool_result_is_a_tool_and_any_other_is_a_wait() -> None:
    used: Json = {"stop": "tool_use", "api_time": 2.0}
    result: Json = {"input_types": ["tool_result"], "think_time": 3.0}

    trace = read(request(0, [1], **used), request(5, [1], api_time=1.0, **result), request(9, [1], think_time=2.5))

    assert kinds(trace) == [Call, ToolCall, Call, Wait, Call]
    _, tool, _, wait, _ = trace.events
    assert isinstance(tool, ToolCall)
    assert isinstance(wait, Wait)
    assert (tool.tool_name, tool.call, tool.at_ms, tool.duration_ms, tool.time_source) == (
        "tool0",
        0,
        2000,
        3000,
        "gap",
    )
    assert (wait.kind, wait.at_ms, wait.duration_ms) == ("think", 6000, 2500)


@pytest.mark.parametrize(("stop", "brings"), [("end_turn", "tool_result"), ("tool_use", "text")])
def test_without_a_wish_for_tools_or_without_a_result_a_gap_is_a_wait(stop: str, brings: str) -> None:
    trace = read(request(0, [1], stop=stop, api_time=1.0), request(5, [1], input_types=[brings]))

    assert kinds(trace) == [Call, Wait, Call]


def test_a_request_that_was_sent_before_the_answer_still_follows_its_gap() -> None:
    trace = read(request(0, [1], api_time=10.0), request(5, [1], think_time=1.0))

    assert kinds(trace) == [Call, Wait, Call]
    assert [(e.at_ms, e.duration_ms) for e in trace.events if isinstance(e, Wait)] == [(5000, 1000)]


def test_a_tool_that_would_have_ended_before_it_began_takes_no_time() -> None:
    asked = request(0, [1], api_time=10.0, stop="tool_use")

    trace = read(asked, agent(1, request(0, [8], api_time=1.0)), request(5, [1], input_types=["tool_result"]))

    assert [e.duration_ms for e in trace.events if isinstance(e, ToolCall)] == [0]


def test_times_have_no_noise_from_their_conversion() -> None:
    assert 2.01 * 1000 != 2010

    trace = read(request(0, [1], api_time=2.01), request(4.02, [1], think_time=2.01))

    assert [e.at_ms for e in trace.events if isinstance(e, Call | Wait)] == [0, 2010, 4020]
    assert [e.duration_ms for e in trace.events if isinstance(e, Call | Wait)] == [2010, 2010, None]


def test_no_time_is_before_the_first_request() -> None:
    trace = read(agent(0), agent(2, request(0, [1])), request(9, [1]))

    assert [(type(e), getattr(e, "at_ms", None)) for e in trace.events[:3]] == [
        (ParallelStart, None),
        (Wait, 0),
        (Call, 0),
    ]


def test_agents_that_start_with_a_request_of_their_parent_follow_it() -> None:
    trace = read(request(4, [0]), agent(63.5, request(0, [1]), duration_ms=60_000), request(70, [0]))

    assert kinds(trace) == [Call, ParallelStart, Call, ParallelEnd, Wait, Call]


def test_without_think_time_a_gap_is_what_the_answer_leaves() -> None:
    trace = read(request(0, [1], api_time=2.0), request(5, [1], api_time=9.0), request(7, [1]))

    assert [(e.at_ms, e.duration_ms) for e in trace.events if isinstance(e, Wait)] == [(2000, 3000)]


@pytest.mark.parametrize(("think_time", "gap_ms"), [(9.0, 4000), (3.0, 3000), (None, 4000)])
def test_without_api_time_a_gap_is_at_most_the_time_between_requests(think_time: float | None, gap_ms: float) -> None:
    trace = read(request(0, [1]), request(4, [1], think_time=think_time))

    assert [(e.at_ms, e.duration_ms) for e in trace.events if isinstance(e, Wait)] == [(4000 - gap_ms, gap_ms)]


def test_sub_agents_are_branches_of_a_region_that_joins_when_all_have_ended() -> None:
    agents = [
        agent(2.5, request(0, [8], api_time=1.0), request(3, [8], think_time=2.0, api_time=1.0)),
        agent(3, request(0, [9], api_time=3.0)),
    ]
    asked = request(0, [1], api_time=2.0, stop="tool_use")

    trace = read(asked, *agents, request(10, [1], input_types=["tool_result"], think_time=8.0))

    assert [(type(e).__name__, e.branch) for e in trace.events] == [
        ("Call", None),
        ("Wait", None),
        ("ParallelStart", None),
        ("Call", (0, 0)),
        ("Wait", (0, 1)),
        ("Call", (0, 1)),
        ("Wait", (0, 0)),
        ("Call", (0, 0)),
        ("ParallelEnd", None),
        ("ToolCall", None),
        ("Call", None),
    ]
    gaps = [(e.at_ms, e.duration_ms) for e in trace.events if isinstance(e, Wait | ToolCall)]
    assert gaps == [(2000, 500), (2500, 500), (3500, 2000), (6500, 3500)]
    assert [e.conversation_id for e in trace.events if isinstance(e, Call)] == [0, 1, 2, 1, 0]


def test_a_region_joins_later_when_a_request_of_the_parent_was_sent_before_its_end() -> None:
    background = agent(1, request(0, [8], api_time=6.0))

    parent = [request(t, [1], api_time=1) for t in (3, 5, 9)]

    trace = read(request(0, [1], api_time=1), background, *parent)

    assert kinds(trace) == [Call, ParallelStart, Call, Wait, Call, Wait, Call, ParallelEnd, Wait, Call]
    waits = [(e.at_ms, e.duration_ms) for e in trace.events if isinstance(e, Wait)]
    assert waits == [(1000, 2000), (4000, 1000), (7000, 2000)]


def test_regions_may_overlap_and_one_that_outlives_the_parent_is_never_joined() -> None:
    slow, late = agent(1, request(0, [8], api_time=60)), agent(5, request(0, [9], api_time=60))

    trace = read(request(0, [1]), slow, request(4, [1]), late)

    assert kinds(trace) == [Call, ParallelStart, Call, Wait, Call, ParallelStart, Call]
    assert [e.num_branches for e in trace.events if isinstance(e, ParallelStart)] == [1, 1]


def test_an_agent_without_requests_still_takes_its_time() -> None:
    trace = read(request(0, [1], api_time=1), agent(61, duration_ms=60_000), request(70, [1], think_time=69))

    assert kinds(trace) == [Call, ParallelStart, Wait, ParallelEnd, Wait, Call]
    waits = [(e.branch, e.at_ms, e.duration_ms) for e in trace.events if isinstance(e, Wait)]
    assert waits == [((0, 0), 1000, 60_000), (None, 61_000, 9000)]


def test_a_gap_of_a_day_is_kept() -> None:
    trace = read(request(0, [1], api_time=1), request(90_001, [1], think_time=90_000))

    assert [e.duration_ms for e in trace.events if isinstance(e, Wait)] == [90_000_000]


def test_an_answer_that_holds_reasoning_says_so() -> None:
    trace = read(request(0, [1], output_types=["text", "thinking"]), request(5, [1]))

    assert [(c.reasoning_unsized, c.reasoning_tokens) for c in trace.calls()] == [(True, 0), (False, 0)]


def test_a_sub_agent_waits_from_its_start_to_its_first_request_and_from_its_last_answer_to_its_end() -> None:
    trace = read(request(0, [1], api_time=1), agent(2, request(5, [8], api_time=1), duration_ms=9000), request(20, [1]))

    assert [(type(e).__name__, e.branch) for e in trace.events] == [
        ("Call", None),
        ("Wait", None),
        ("ParallelStart", None),
        ("Wait", (0, 0)),
        ("Call", (0, 0)),
        ("Wait", (0, 0)),
        ("ParallelEnd", None),
        ("Wait", None),
        ("Call", None),
    ]
    gaps = [(e.at_ms, e.duration_ms) for e in trace.events if isinstance(e, Wait)]
    assert gaps == [(1000, 1000), (2000, 3000), (6000, 5000), (11_000, 9000)]
