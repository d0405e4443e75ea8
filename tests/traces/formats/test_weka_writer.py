from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import traces

from rotoscope.testing import make_call, make_trace, trace_of
from rotoscope.traces import (
    DropKvCache,
    Embedding,
    Forest,
    Message,
    ParallelEnd,
    ParallelStart,
    Prefix,
    SharedPrefix,
    ToolCall,
    Trace,
    UnusableInput,
    Wait,
    normalise,
)
from rotoscope.traces.formats import weka_writer as writer
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.weka import read_weka
from rotoscope.traces.formats.weka_layout import lay_out
from rotoscope.traces.formats.weka_requests import parse_weka
from rotoscope.traces.formats.weka_schedule import Schedule, Sent

NUMBERS = ("0028", "0057", "0091", "0142", "0187", "0192", "0233", "0277", "0291", "0326", "0426", "0707")


def written(trace: Trace, **options: Any) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(writer.write_trace(trace, Fidelity(), **options))
    return loaded


def renumbered(calls: list[Sent]) -> list[list[int]]:
    """Return the block ids numbered by first appearance, those of each model apart."""
    numbers: dict[tuple[str | None, int], int] = {}
    return [
        [numbers.setdefault((sent.request.model, block), len(numbers)) for block in sent.request.block_ids]
        for sent in calls
    ]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_published_trace_comes_back_with_its_chains_times_and_sub_agents(data_dir: Path, number: str) -> None:
    data = (data_dir / "weka" / f"trace_{number}.json").read_bytes()
    before = Schedule.of(parse_weka(data))
    after = Schedule.of(parse_weka(writer.write_trace(read_weka(data), Fidelity())))

    assert renumbered(after.calls()) == renumbered(before.calls())
    for old, new in zip(before.calls(), after.calls(), strict=True):
        assert new.sent_ms == pytest.approx(old.sent_ms - before.calls()[0].sent_ms, abs=0.01)
        assert new.request.api_ms == pytest.approx(old.request.api_ms, abs=0.01)
        for name in ("prompt_tokens", "completion_tokens", "stop", "thinks", "ttft_ms"):
            assert getattr(new.request, name) == getattr(old.request, name)
    assert [[len(a.line) for a in region.agents] for region in after.regions] == [
        [len(a.line) for a in region.agents] for region in before.regions
    ]
    for old_region, new_region in zip(before.regions, after.regions, strict=True):
        for old_agent, new_agent in zip(old_region.agents, new_region.agents, strict=True):
            assert new_agent.start_ms == pytest.approx(old_agent.start_ms, abs=1)
            assert new_agent.end_ms == pytest.approx(old_agent.end_ms, abs=2)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_published_trace_is_the_same_trace_when_it_is_read_again(data_dir: Path, number: str) -> None:
    trace = read_weka((data_dir / "weka" / f"trace_{number}.json").read_bytes())
    again = read_weka(writer.write_trace(trace, Fidelity()))

    assert [type(event) for event in again.events] == [type(event) for event in trace.events]
    for old, new in zip(trace.events, again.events, strict=True):
        assert new.branch == old.branch
        if isinstance(old, ToolCall | Wait) and isinstance(new, ToolCall | Wait):
            assert new.duration_ms == pytest.approx(old.duration_ms, abs=2)
    assert [call.prefix for call in again.calls()] == [call.prefix for call in trace.calls()]


@given(traces(), st.sampled_from([1, 2, 3, 7]))
def test_common_prefixes_of_all_pairs_are_the_same_in_whole_blocks(trace: Trace, block_size: int) -> None:
    data = writer.write_trace(trace, Fidelity(), block_size=block_size)
    again, forest = Forest.of_trace(read_weka(data)), Forest.of_trace(trace)
    given_calls = calls_as_read(trace, data)

    for a, b in combinations(range(len(given_calls)), 2):
        one, other = given_calls[a], given_calls[b]
        common = min(forest.common_prefix(one.call, other.call), one.prompt_tokens, other.prompt_tokens)
        expected = common // block_size * block_size if one.domain == other.domain else 0
        assert again.common_prefix(a, b) == expected


def calls_as_read(trace: Trace, data: bytes) -> list[Any]:
    """Return the calls of a trace in the order of their numbers in what its file is read as."""
    in_file_order = [placed.call for placed in lay_out(trace).calls]
    source = parse_weka(data)
    requests = [inner for entry in source.entries for inner in getattr(entry, "requests", [entry])]
    place = {id(request): index for index, request in enumerate(requests)}
    return [in_file_order[place[id(sent.request)]] for sent in Schedule.of(source).calls()]


@given(traces(), st.booleans())
def test_any_trace_gives_a_file_that_is_read_with_the_same_lengths(trace: Trace, with_partial: bool) -> None:
    data = writer.write_trace(trace, Fidelity(), block_size=3, with_partial=with_partial)
    again = list(read_weka(data).calls())

    for new, old in zip(again, calls_as_read(trace, data), strict=True):
        assert (new.prompt_tokens, new.completion_tokens) == (old.prompt_tokens, old.completion_tokens)
        assert new.reasoning_unsized is (old.reasoning_tokens > 0)


@given(traces(timed=True))
def test_recorded_times_are_kept(trace: Trace) -> None:
    data = writer.write_trace(trace, Fidelity())
    again, before = list(read_weka(data).calls()), calls_as_read(trace, data)
    first_ms = min((call.at_ms for call in before), default=0.0)

    assert [(c.at_ms, c.duration_ms) for c in again] == [(c.at_ms - first_ms, c.duration_ms) for c in before]


@given(traces())
def test_every_aspect_that_is_noted_is_declared(trace: Trace) -> None:
    fidelity = Fidelity()

    writer.write_trace(trace, fidelity)

    assert set(fidelity.counts) <= set(writer.WRITE_ASPECTS)
    assert len(set(writer.WRITE_ASPECTS)) == len(writer.WRITE_ASPECTS)


def test_a_turn_with_a_tool_says_what_went_on() -> None:
    system = written(make_trace(2, 200, osl=20, new=30, system=130))

    first, second = system["requests"]
    assert first == {
        "t": 0.0,
        "type": "n",
        "model": "model0",
        "in": 200,
        "out": 20,
        "hash_ids": [0, 1, 2],
        "input_types": ["text"],
        "output_types": ["text", "tool_use"],
        "stop": "tool_use",
        "api_time": 0.1,
    }
    assert second == {
        "t": 0.15,
        "type": "n",
        "model": "model0",
        "in": 250,
        "out": 20,
        "hash_ids": [0, 1, 2],
        "input_types": ["tool_result"],
        "output_types": ["text"],
        "stop": "end_turn",
        "api_time": 0.1,
        "think_time": 0.05,
    }
    del system["requests"]
    assert system == {
        "id": "0000000000000001",
        "models": ["model0"],
        "block_size": 64,
        "hash_id_scope": "local",
        "tool_tokens": 0,
        "system_tokens": 130,
        "totals": {
            "parent_tokens": {"input": 450, "output": 40},
            "subagent_tokens": {"input": 0, "output": 0},
            "combined_tokens": {"input": 450, "output": 40},
            "subagent_count": 0,
        },
    }


def test_a_partial_last_block_gets_an_id_when_that_is_asked_for() -> None:
    trace = trace_of(make_call(0, 70), make_call(1, 70, prefix=Prefix(0, 70, "ids")), make_call(2, 71))

    assert [r["hash_ids"] for r in written(trace)["requests"]] == [[0], [0], [1]]
    assert [r["hash_ids"] for r in written(trace, with_partial=True)["requests"]] == [[0, 1], [0, 1], [2, 3]]


def test_models_have_no_block_in_common() -> None:
    shared = SharedPrefix("s0", "system", 64)
    prefix = Prefix("s0", 64, "ids")
    trace = trace_of(
        make_call(0, 64, prefix=prefix), make_call(1, 64, prefix=prefix, domain=1), shared_prefixes=[shared]
    )

    requests = written(trace)["requests"]
    assert [(r["model"], r["hash_ids"]) for r in requests] == [("model0", [0]), ("model1", [1])]
    assert written(trace)["models"] == ["model0", "model1"]


def in_branch(number: int, branch: tuple[int, int], at_ms: float, **fields: Any) -> Any:
    return make_call(number, 64, branch=branch, at_ms=at_ms, duration_ms=1000.0, **fields)


def test_branches_are_sub_agents_between_the_requests_around_their_region() -> None:
    trace = trace_of(
        make_call(0, 64, at_ms=0.0, duration_ms=1000.0),
        ParallelStart(region=0, num_branches=2),
        in_branch(1, (0, 0), 1500.0),
        in_branch(2, (0, 1), 1500.0, domain=1),
        ToolCall(tool_call_id="t0", tool_name="tool0", duration_ms=3000.0, branch=(0, 1)),
        in_branch(3, (0, 1), 5500.0, domain=1),
        ParallelEnd(region=0),
        make_call(4, 64, at_ms=9000.0),
    )

    first, one, two, last = written(trace)["requests"]
    assert (first["t"], last["t"], last["think_time"], first["api_time"]) == (0, 9, 8, 1)
    agent = {"type": "subagent", "subagent_type": "agent", "status": "completed", "tool_tokens": 0, "system_tokens": 0}
    assert {key: value for key, value in one.items() if key != "requests"} == agent | {
        "t": 1,
        "agent_id": "agent_001",
        "duration_ms": 1500,
        "total_tokens": 84,
        "tool_use_count": 0,
        "models": ["model0"],
    }
    assert {key: value for key, value in two.items() if key != "requests"} == agent | {
        "t": 1,
        "agent_id": "agent_002",
        "duration_ms": 5500,
        "total_tokens": 168,
        "tool_use_count": 1,
        "models": ["model1"],
    }
    assert [(r["t"], r.get("think_time")) for r in two["requests"]] == [(1.5, None), (5.5, 3.0)]
    assert written(trace)["totals"]["subagent_count"] == 2


def test_a_sub_agent_that_nobody_waits_for_says_so() -> None:
    fork = ParallelStart(region=0, num_branches=1)
    start, agent = make_call(0, 64, at_ms=0.0, duration_ms=0.0), in_branch(1, (0, 0), 100.0)

    for rest in ([make_call(2, 64, at_ms=500.0)], [make_call(2, 64, at_ms=500.0), ParallelEnd(region=0)], []):
        _, entry, *_ = written(trace_of(start, fork, agent, *rest))["requests"]
        assert (entry["status"], entry["duration_ms"], entry["total_tokens"]) == ("async_launched", None, None)


def test_branches_inside_branches_are_sub_agents_of_the_root_and_counted() -> None:
    fidelity = Fidelity()
    trace = trace_of(
        ParallelStart(region=0, num_branches=1),
        make_call(0, 64, branch=(0, 0)),
        ParallelStart(region=1, num_branches=1, branch=(0, 0)),
        make_call(1, 64, branch=(1, 0)),
    )

    data = json.loads(writer.write_trace(trace, fidelity))

    assert [entry["agent_id"] for entry in data["requests"]] == ["agent_001", "agent_002"]
    assert (fidelity.counts[writer.NESTED], fidelity.counts[writer.AGENTS]) == (1, 2)


def test_tools_that_ran_side_by_side_are_one_gap_and_no_sub_agents() -> None:
    tools = [
        ToolCall(tool_call_id=f"t{i}", tool_name="tool0", duration_ms=ms, branch=(0, i))
        for i, ms in enumerate((2e3, 5e3))
    ]
    trace = trace_of(
        make_call(0, 64), ParallelStart(region=0, num_branches=2), *tools, ParallelEnd(region=0), make_call(1, 64)
    )

    _, second = written(trace)["requests"]
    assert (second["think_time"], second["input_types"], second["t"]) == (5, ["tool_result"], 5)


def test_tools_that_overlap_are_counted_once() -> None:
    times = [(0.0, 300.0), (100.0, 100.0), (200.0, 300.0)]
    tools = [
        ToolCall(tool_call_id=f"t{i}", tool_name="tool0", duration_ms=ms, at_ms=at) for i, (at, ms) in enumerate(times)
    ]
    trace = trace_of(make_call(0, 64, at_ms=0.0, duration_ms=0.0), *tools, make_call(1, 64, at_ms=600.0))

    assert written(trace)["requests"][1]["think_time"] == 0.5


def test_a_call_without_a_time_comes_when_what_is_before_it_is_over() -> None:
    wait = Wait(kind="human", duration_ms=250.0)
    trace = trace_of(make_call(0, 64, duration_ms=500.0), wait, make_call(1, 64))

    assert [r["t"] for r in written(trace)["requests"]] == [0, 0.75]


@pytest.mark.parametrize(
    ("fields", "stop", "types"),
    [
        ({"finish_reason": "length"}, "max_tokens", ["text"]),
        ({"finish_reason": "lost"}, "", ["text"]),
        ({"tool_calls": ("tool0",)}, "", ["text", "tool_use"]),
        ({"reasoning_tokens": 5}, "", ["thinking", "text"]),
        ({"reasoning_tokens": 20}, "", ["thinking"]),
        ({"reasoning_unsized": True}, "", ["thinking", "text"]),
        ({"osl": 0}, "", []),
    ],
)
def test_what_an_answer_is_like_is_told(fields: dict[str, Any], stop: str, types: list[str]) -> None:
    (request,) = written(trace_of(make_call(0, 64, **fields)))["requests"]

    assert (request["stop"], request["output_types"]) == (stop, types)


def test_a_stream_that_is_shared_says_how_long_its_system_part_is() -> None:
    trace = json.loads(writer.write_trace(make_trace(1, 200, system=130), Fidelity()))

    assert trace["system_tokens"] == 130


def test_what_is_lost_is_counted() -> None:
    fidelity = Fidelity()
    trace = trace_of(
        Message(conversation_id=0, role="user", message_index=0, tokens=70),
        make_call(0, 70, cached_tokens=3, finish_reason="lost"),
        ToolCall(tool_call_id="t0", tool_name="tool0", duration_ms=1.0),
        make_call(1, 70, prefix=Prefix(0, 65, "text", low=3, high=70), aux=True, attempts=2),
        Embedding(prompt_tokens=3),
        DropKvCache(),
    )

    writer.write_trace(trace, fidelity)

    assert dict(fidelity.of_verdict("lost")) == {
        writer.BOUNDS: 1,
        writer.REASONS: 1,
        writer.EVIDENCE: 2,
        **dict.fromkeys((writer.MESSAGES, writer.NAMES, writer.EMBEDDINGS, writer.DROPS), 1),
    }
    assert dict(fidelity.of_verdict("approximated")) == {
        writer.CUT_PREFIXES: 1,
        writer.ASSUMED_TIMES: 2,
        writer.GAPS: 1,
    }


def test_a_trace_without_events_is_a_file_too() -> None:
    assert written(trace_of())["requests"] == []
    assert read_weka(writer.write_trace(normalise(trace_of()), Fidelity())).events == ()


def test_a_region_that_no_agent_has_is_refused() -> None:
    with pytest.raises(UnusableInput, match="region 0 has 100001 branches, and at most 100000 can be written"):
        written(trace_of(ParallelStart(region=0, num_branches=100_001)))


def test_a_time_that_no_run_has_is_refused() -> None:
    with pytest.raises(UnusableInput, match=r"a time of 3e\+11 ms cannot be written: at most 2\.5e\+11 ms can"):
        written(trace_of(make_call(0, at_ms=3e11)))


def test_references_in_any_form_are_written_alike() -> None:
    calls = [make_call(0, 100, prefix=Prefix("s0", 70, "ids")), make_call(1, 90, prefix=Prefix(0, 66, "ids"))]
    trace = trace_of(*calls, shared_prefixes=[SharedPrefix("s0", "system", 70)])

    assert written(trace) == written(normalise(trace))


def test_models_of_sub_agents_are_declared_with_those_of_the_root() -> None:
    trace = trace_of(
        make_call(0, 70),
        ParallelStart(region=0, num_branches=1),
        make_call(1, 70, domain=1, branch=(0, 0)),
        ParallelEnd(region=0),
        make_call(2, 70),
    )

    assert json.loads(writer.write_trace(trace, Fidelity()))["models"] == ["model0", "model1"]
