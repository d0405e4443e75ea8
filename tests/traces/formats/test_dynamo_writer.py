from __future__ import annotations

import json
from typing import Any

from chain_structure import chains, in_order, members_of, partition
from foreign_events import dynamo, dynamo_request, dynamo_tool
from hypothesis import given
from hypothesis import strategies as st
from strategies import corpora

from rotoscope.testing import make_call, make_trace, trace_of
from rotoscope.traces import (
    Call,
    DropKvCache,
    Embedding,
    Message,
    ParallelEnd,
    ParallelStart,
    Prefix,
    ToolCall,
    Trace,
    Wait,
)
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats import dynamo_writer as module
from rotoscope.traces.formats.dynamo import read
from rotoscope.traces.formats.dynamo_writer import write_corpus
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.source import Source
from rotoscope.traces.formats.written_times import written_times
from rotoscope.traces.model import SharedPrefix


def written(members: list[Member], block_size: int = 4, fidelity: Fidelity | None = None) -> list[Any]:
    data = b"".join(write_corpus(members, fidelity or Fidelity(), block_size=block_size))
    return [json.loads(line)["event"] for line in data.splitlines()]


def read_back(members: list[Member], block_size: int) -> list[Member]:
    data = b"".join(write_corpus(members, Fidelity(), block_size=block_size))
    return read(Source.of_bytes(data, "x"), Fidelity()) if data else []


def test_a_call_is_a_request_that_has_ended_with_all_that_a_replay_asks_for() -> None:
    trace = make_trace(turns=2, isl=10, system=8, osl=3, new=4)

    first, tool, second = written(members_of([trace], [2000.0]))

    assert first == {
        "schema": "dynamo.request.trace.v1",
        "event_type": "request_end",
        "event_time_unix_ms": 2100,
        "event_source": "dynamo",
        "agent_context": {"session_id": "session-0"},
        "request": {
            "request_id": "request-0",
            "model": "model-0",
            "input_tokens": 10,
            "output_tokens": 3,
            "request_received_ms": 2000,
            "total_time_ms": 100.0,
            "replay": {"trace_block_size": 4, "input_length": 10, "input_sequence_hashes": [0, 1, 2]},
            "finish_reason_metadata": {
                "finish_reason": "tool_calls",
                "tool_calls": [{"choice_index": 0, "tool_call_index": 0, "id": "session-0-t0", "name": "tool0"}],
            },
        },
    }
    assert tool["tool"] == {
        "tool_call_id": "session-0-t0",
        "tool_class": "tool0",
        "started_at_unix_ms": 2100,
        "ended_at_unix_ms": 2150,
        "status": "succeeded",
        "duration_ms": 50.0,
    }
    assert second["request"]["replay"]["input_sequence_hashes"] == [0, 1, 3, 4, 5]


def test_branches_are_sessions_of_the_nearest_one_with_calls() -> None:
    trace = trace_of(
        make_call(0, at_ms=0.0),
        ParallelStart(region=0, num_branches=1),
        ParallelStart(region=1, num_branches=1, branch=(0, 0)),
        make_call(1, at_ms=5.0, branch=(1, 0)),
        ParallelEnd(region=1, branch=(0, 0)),
        ParallelEnd(region=0),
    )

    contexts = [event["agent_context"] for event in written(members_of([trace]))]

    assert contexts == [
        {"session_id": "session-0"},
        {"session_id": "session-0-1-0", "parent_session_id": "session-0"},
    ]


def test_tools_that_nobody_timed_are_only_asked_for() -> None:
    tools = [
        ToolCall(tool_call_id="t0", tool_name="tool4", duration_ms=50.0, call=0, at_ms=10.0, time_source="gap"),
        ToolCall(tool_call_id="t1", tool_name="tool5", duration_ms=50.0, at_ms=10.0, time_source="gap"),
    ]
    trace = trace_of(make_call(0, at_ms=0.0, tool_calls=("tool4", "tool9")), *tools)

    request, tool = written(members_of([trace]))

    asked = request["request"]["finish_reason_metadata"]["tool_calls"]
    assert [(one.get("id"), one["name"]) for one in asked] == [("session-0-t0", "tool4"), (None, "tool9")]
    assert tool["tool"]["tool_class"] == "tool5"


def test_reasons_that_only_engines_give_are_the_engines() -> None:
    trace = trace_of(
        *(make_call(i, finish_reason=reason) for i, reason in enumerate(("cancelled", "error", "unknown")))
    )

    given = [event["request"].get("finish_reason_metadata") for event in written(members_of([trace]))]

    assert given == [{"backend_finish_reason": "cancelled"}, {"backend_finish_reason": "error"}, None]


def test_what_is_lost_or_approximated_is_counted() -> None:
    shared = SharedPrefix("s0", "system", 6)
    trace = trace_of(
        Message(conversation_id=0, message_index=0, role="user", tokens=3),
        make_call(
            0, 9, prefix=Prefix("s0", 6, "ids"), osl=4, reasoning_tokens=2, cached_tokens=3, at_ms=0.0, duration_ms=1.0
        ),
        make_call(1, 13, prefix=Prefix(0, 12, "ids", low=5, high=13), request=7, attempts=2),
        Embedding(prompt_tokens=4),
        DropKvCache(),
        ToolCall(tool_call_id="t0", tool_name="tool0", duration_ms=5.0, call=0),
        ToolCall(tool_call_id="t1", tool_name="tool0", duration_ms=5.0, call=0, time_source="gap"),
        Wait(kind="think", duration_ms=3.0),
        ParallelStart(region=0, num_branches=2),
        shared_prefixes=[shared],
    )
    fidelity = Fidelity()

    written(members_of([trace, trace_of()]), fidelity=fidelity)

    assert dict(fidelity.counts) == {
        module.LENGTHS: 2,
        module.DOMAINS: 2,
        module.TIMES: 2,
        module.SHARED: 1,
        module.CACHED: 1,
        module.PREFIXES: 1,
        module.BOUNDS: 1,
        module.OUTPUTS: 1,
        module.REASONING: 1,
        module.CHOICES: 1,
        module.ATTEMPTS: 1,
        module.MESSAGES: 1,
        module.EMBEDDINGS: 1,
        module.DROPS: 1,
        module.TOOLS: 1,
        module.GAP_TOOLS: 1,
        module.BRANCHES: 2,
        module.NO_CALL_AFTER: 1,
        module.ASSUMED: 1,
        module.NO_CLOCK: 2,
    }


def test_every_aspect_is_declared() -> None:
    declared = {value for value in vars(module).values() if isinstance(value, Aspect)}

    assert declared == set(module.WRITE_ASPECTS)


STARTS = st.sampled_from([0.0, 3.0, 7.5, 100.25])


@given(corpora(), st.lists(STARTS, min_size=3, max_size=3), st.integers(1, 5))
def test_chains_lengths_times_and_sessions_come_back(traces: list[Trace], starts: list[float], block_size: int) -> None:
    members = members_of(traces, starts[: len(traces)])
    times = written_times(members)
    given_calls = sorted(in_order(members), key=lambda item: round(times[item[0][0]].calls[item[0][1]][0]))

    found = read_back(members, block_size)

    back = in_order(found)
    assert [measures(call) for _, call in back] == [measures(call) for _, call in given_calls]
    places, back_places = [place for place, _ in given_calls], [place for place, _ in back]
    before = chains(members, places, block_size, with_partial=True)
    assert chains(found, back_places, block_size, with_partial=True) == before
    assert partition([(p[0], call.domain) for p, call in back]) == partition(
        [(p[0], call.domain) for p, call in given_calls]
    )
    assert partition([place[0] for place in back_places]) == partition([place[0] for place in places])
    for (place, call), (back_place, back_call) in zip(given_calls, back, strict=True):
        start_ms, end_ms = times[place[0]].calls[call.call]
        assert back_call.at_ms is not None
        assert back_call.duration_ms is not None
        first_ms = round(times[places[0][0]].calls[places[0][1]][0])
        assert first_ms + (found[back_place[0]].start_ms or 0.0) + back_call.at_ms == round(start_ms)
        assert back_call.duration_ms == (round(end_ms) - round(start_ms))


@given(corpora())
def test_calls_of_one_branch_were_on_one_branch(traces: list[Trace]) -> None:
    members = members_of(traces)
    times = written_times(members)
    given_calls = sorted(in_order(members), key=lambda item: round(times[item[0][0]].calls[item[0][1]][0]))

    back = in_order(read_back(members, 4))

    was_on: dict[object, object] = {}
    for (place, call), (back_place, back_call) in zip(given_calls, back, strict=True):
        branch = place[0], call.branch
        assert was_on.setdefault((back_place[0], back_call.branch), branch) == branch


def test_branches_tools_and_waits_come_back_as_they_were() -> None:
    records = [
        dynamo_request("a", 1000, [1, 2], session="A", asked=[("t", "Task"), ("u", "ls")]),
        dynamo_tool("u", "A", 1110, 1150, name="ls"),
        dynamo_request("b", 1200, [1, 7], tail=3, session="B", parent="A", ttft_ms=5.0),
        dynamo_request("c", 1310, [1, 7, 8], session="B", parent="A", asked=[(None, "cat")]),
        dynamo_request("d", 1440, [1, 7, 8, 9], session="B", parent="A"),
        dynamo_tool("t", "A", 1100, 1560, name="Task"),
        dynamo_request("e", 1600, [1, 2, 3], session="A", cached_tokens=8),
        dynamo_request("f", 1610, [1, 2, 3], session="C"),
    ]
    once = read(Source.of_bytes(dynamo(*records)), Fidelity())

    again = read_back(once, 4)

    for member, other in zip(once, again, strict=True):
        assert other.trace.events == member.trace.events
        assert other.trace.shared_prefixes == member.trace.shared_prefixes
        assert (other.start_ms, other.ranks) == (member.start_ms, member.ranks)


def measures(call: Call) -> tuple[object, ...]:
    reason = "cancelled" if call.finish_reason == "lost" else call.finish_reason
    return call.prompt_tokens, call.completion_tokens, call.cached_tokens, reason
