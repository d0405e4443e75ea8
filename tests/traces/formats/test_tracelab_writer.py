from __future__ import annotations

import json
from typing import Any

from chain_structure import members_of
from conversations import assert_conversations, conversations
from hypothesis import given
from hypothesis import strategies as st
from strategies import corpora

from rotoscope.testing import make_call, trace_of
from rotoscope.traces import Call, DropKvCache, ParallelEnd, ParallelStart, Prefix, ToolCall, Trace, Wait
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats import tracelab_writer as module
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.source import Source
from rotoscope.traces.formats.tracelab import read
from rotoscope.traces.formats.tracelab_writer import write_corpus
from rotoscope.traces.formats.written_times import written_times
from rotoscope.traces.model import Branch


def written(members: list[Member], fidelity: Fidelity | None = None) -> bytes:
    return b"".join(write_corpus(members, fidelity or Fidelity(), block_size=1))


def rounds(members: list[Member]) -> list[Any]:
    return [json.loads(line) for line in written(members).splitlines()]


def by_branch(members: list[Member]) -> list[tuple[int, list[Call]]]:
    """The calls of each branch, in the order of the trace, with the index of its member."""
    branches: dict[tuple[int, Branch | None], list[Call]] = {}
    for index, member in enumerate(members):
        for event in member.trace.events:
            if isinstance(event, Call):
                branches.setdefault((index, event.branch), []).append(event)
    return [(index, calls) for (index, _), calls in branches.items()]


TOOLS = trace_of(
    make_call(0, 20, at_ms=0.0, duration_ms=1500.4, reasoning_tokens=5, tool_calls=("tool3", "tool4", "tool5")),
    ToolCall(tool_call_id="t0", tool_name="tool3", duration_ms=250.0, call=0, at_ms=1600.0),
    ToolCall(tool_call_id="t1", tool_name="tool4", duration_ms=250.0, call=0, at_ms=1600.0, time_source="gap"),
    ToolCall(tool_call_id="t2", tool_name="tool4", duration_ms=250.0, at_ms=1600.0),
    make_call(1, 45, prefix=Prefix(0, 40, "ids"), at_ms=2000.0, duration_ms=10.0, reasoning_unsized=True),
    Wait(kind="human", duration_ms=7000.0),
    make_call(2, 60, prefix=Prefix(1, 50, "ids"), at_ms=9010.0, duration_ms=10.0),
)


def test_a_call_is_a_round_with_the_hit_of_a_cache_that_forgets_nothing() -> None:
    first, second, third = rounds(members_of([TOOLS], [500.0]))

    assert first == {
        "provider": "rotoscope",
        "project": "project-0",
        "session_id": "rotoscope:session-0",
        "round_index": 0,
        "round_id": "round-0-0",
        "model": "model-0",
        "input_tokens_total": 20,
        "prefix_tokens": 0,
        "newly_append_tokens": 20,
        "output_tokens": 20,
        "reasoning_output_tokens": 5,
        "timing_events": [
            {"event_type": "user_message", "timestamp": "1970-01-01T00:00:00.500Z"},
            {"event_type": "reasoning", "timestamp": "1970-01-01T00:00:02.000Z"},
            {"event_type": "text", "timestamp": "1970-01-01T00:00:02.000Z"},
            {"event_type": "tool_call", "timestamp": "1970-01-01T00:00:02.000Z"},
            {"event_type": "tool_call", "timestamp": "1970-01-01T00:00:02.000Z"},
            {"event_type": "tool_call", "timestamp": "1970-01-01T00:00:02.000Z"},
        ],
        "tools": [
            {
                "tool_index": 0,
                "tool_name": "tool3",
                "tool_call_id": "session-0-call-0-0",
                "emitted_at": "1970-01-01T00:00:02.100Z",
                "result_at": "1970-01-01T00:00:02.350Z",
                "tool_wall_latency_ms": 250,
                "tool_internal_latency_ms": None,
            },
            *(
                {
                    "tool_index": index,
                    "tool_name": name,
                    "tool_call_id": f"session-0-call-0-{index}",
                    "emitted_at": None,
                    "result_at": None,
                    "tool_wall_latency_ms": None,
                    "tool_internal_latency_ms": None,
                }
                for index, name in ((1, "tool4"), (2, "tool5"))
            ),
        ],
        "trace_key": "rotoscope:session-0:0",
    }
    assert [e["event_type"] for e in second["timing_events"]] == ["tool_result", "reasoning", "text"]
    assert [e["event_type"] for e in third["timing_events"]] == ["user_message", "text"]
    assert (second["prefix_tokens"], second["newly_append_tokens"], second["reasoning_output_tokens"]) == (40, 5, None)


def test_a_branch_is_a_session_of_its_own() -> None:
    trace = trace_of(
        make_call(0, at_ms=0.0),
        ParallelStart(region=0, num_branches=1),
        make_call(1, branch=(0, 0), at_ms=5.0),
        ParallelEnd(region=0),
        make_call(2, at_ms=9.0),
    )

    assert [(r["session_id"], r["round_index"]) for r in rounds(members_of([trace, trace]))] == [
        ("rotoscope:session-0", 0),
        ("rotoscope:session-0", 1),
        ("rotoscope:session-1", 0),
        ("rotoscope:session-2", 0),
        ("rotoscope:session-2", 1),
        ("rotoscope:session-3", 0),
    ]


LOSSES = trace_of(
    make_call(0, 9, osl=0, ttft_ms=3.0, cached_tokens=4, finish_reason="stop"),
    make_call(1, 9, reasoning_tokens=2, prefix=Prefix(0, 5, "ids", low=2, high=6), at_ms=1.0, duration_ms=1.0),
    make_call(2, 20, prefix=Prefix(0, 9, "ids"), at_ms=2.0, duration_ms=1.0),
    ToolCall(tool_call_id="t0", tool_name="tool0", duration_ms=5.0, call=0),
    ToolCall(tool_call_id="t1", tool_name="tool0", duration_ms=5.0, call=0, time_source="gap"),
    ToolCall(tool_call_id="t2", tool_name="tool0", duration_ms=5.0),
    Wait(kind="think", duration_ms=1.0),
    DropKvCache(),
    ParallelStart(region=0, num_branches=2),
)
COMMON = {
    module.LENGTHS: 3,
    module.ASSUMED: 1,
    module.BRANCHES: 2,
    module.NO_CLOCK: 2,
    module.BOUNDS: 1,
    module.FIRST_TOKENS: 1,
    module.FINISH: 1,
    module.CACHED: 1,
    module.OTHERS: 1,
}


def test_what_is_lost_or_approximated_is_counted() -> None:
    fidelity = Fidelity()

    written(members_of([LOSSES, trace_of()]), fidelity)

    assert dict(fidelity.counts) == {
        **COMMON,
        module.DOMAINS: 3,
        module.PREFIXES: 3,
        module.TIMES: 3,
        module.REASONING: 1,
        module.TOOLS: 1,
        module.GAP_TOOLS: 1,
        module.STRAY_TOOLS: 1,
        module.NO_CALL_AFTER: 1,
    }


def test_every_aspect_is_declared() -> None:
    declared = {value for value in vars(module).values() if isinstance(value, Aspect)}

    assert declared == set(module.WRITE_ASPECTS)


STARTS = st.lists(st.sampled_from([0.0, 3.0, 7.5, 100.25]), min_size=3, max_size=3)


@given(corpora(), STARTS)
def test_lengths_hits_times_and_sessions_come_back(traces: list[Trace], starts: list[float]) -> None:
    members = members_of(traces, starts[: len(traces)])
    times = written_times(members)
    given_branches = [
        sorted(calls, key=lambda call: round(times[index].calls[call.call][0])) for index, calls in by_branch(members)
    ]
    starts_of = [
        [round(times[index].calls[call.call][0]) for call in calls]
        for (index, _), calls in zip(by_branch(members), given_branches, strict=True)
    ]

    data = written(members)
    found = read(Source.of_bytes(data, "x"), Fidelity()) if data else []

    back = {tuple(measures(call) for call in member.trace.calls()) for member in found}
    assert back == {tuple(measures(call) for call in calls) for calls in given_branches}
    zero_ms = min((start for branch in starts_of for start in branch), default=0)
    back_times = [[(m.start_ms or 0) + (c.at_ms or 0) + zero_ms for c in m.trace.calls()] for m in found]
    assert sorted(back_times) == sorted(starts_of)


def measures(call: Call) -> tuple[int, ...]:
    """What is kept of a call: lengths, and the hit as the cached tokens of the reader."""
    hit = call.prefix.tokens if call.cached_tokens is None else call.cached_tokens
    return call.prompt_tokens, call.completion_tokens, call.reasoning_tokens, hit


@given(st.lists(conversations(), min_size=1, max_size=3))
def test_conversations_come_back_with_their_chains(traces: list[Trace]) -> None:
    members = members_of(traces, [1000.0 * index for index in range(len(traces))])

    found = read(Source.of_bytes(written(members)), Fidelity())

    assert_conversations(members, found)
