from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from strategies import traces

from rotoscope.testing import make_call, make_trace, trace_of
from rotoscope.traces import (
    Call,
    DropKvCache,
    Embedding,
    Message,
    ParallelEnd,
    ParallelStart,
    Prefix,
    SharedPrefix,
    SharedPrefixLink,
    ToolCall,
    Trace,
    TraceEvent,
    UnusableInput,
    Wait,
    dumps,
)
from rotoscope.traces.analysis.reference import replay_as_reference
from rotoscope.traces.formats import trtllm_writer as writer
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.recognise import open_trace
from rotoscope.traces.formats.trtllm import read_trtllm
from rotoscope.traces.formats.trtllm_order import Placed, ordered
from rotoscope.traces.formats.trtllm_writer import write_trace

SYSTEM = SharedPrefix("s0", "system", 100)
BY_SYSTEM = Prefix("s0", 100, "ids")
DATA = (
    *("matplotlib__matplotlib-23412", "django__django-16801", "synthetic/block_boundary"),
    *("synthetic/compaction_new_conversation", "synthetic/drop_kv_cache_at_end", "synthetic/fork_same_conversation"),
    *("synthetic/parallel_tools_in_one_yield", "synthetic/reasoning_dropped", "synthetic/retry_after_pop"),
    *("synthetic/rewind_overwrite", "synthetic/subagents_shared_template", "synthetic/tot_explicit_branch_path"),
    *("synthetic/unknown_system_id", "synthetic/canary_full_shape.full"),
)


def events(trace: Trace) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads(write_trace(trace, Fidelity()))["events"]
    return loaded


def messages(trace: Trace) -> list[tuple[Any, ...]]:
    """Conversation, index, role and size of each message; of an answer the output."""
    return [
        (e["conversation_id"], e["message_index"], e["role"], e["tokens" if "tokens" in e else "completion_tokens"])
        for e in events(trace)
        if e["event_type"] == "message"
    ]


def without_messages(trace: Trace) -> Trace:
    return replace(trace, events=tuple(event for event in trace.events if not isinstance(event, Message)))


def in_file_order(trace: Trace) -> list[Call]:
    return [s.event for s in ordered(trace).steps if isinstance(s, Placed) and isinstance(s.event, Call)]


@pytest.mark.parametrize("name", DATA)
def test_a_trace_of_theirs_comes_back_the_same(data_dir: Path, name: str) -> None:
    trace = open_trace(data_dir / "trtllm" / f"{name}.trace.json")
    again = read_trtllm(write_trace(trace, Fidelity()))

    assert list(compared(again)) == list(compared(trace))
    assert again.shared_prefixes == trace.shared_prefixes


def compared(trace: Trace) -> Iterator[TraceEvent]:
    """Yield the events without what only a full trace has, empty messages, and the way to write a path or a size."""
    for event in trace.events:
        if isinstance(event, Call):
            yield replace(event, duration_ms=None, branch_path=())
        elif not isinstance(event, Message):
            yield replace(event, branch_path=())
        elif event.tokens:
            yield replace(event, branch_path=(), tokens_source=None, system_prompt_id=None)


@given(traces())
def test_any_trace_gives_a_file_that_is_read_with_the_same_lengths_and_branches(trace: Trace) -> None:
    again = read_trtllm(write_trace(trace, Fidelity()))

    assert [(c.prompt_tokens, c.completion_tokens, c.reasoning_tokens) for c in again.calls()] == [
        (c.prompt_tokens, max(c.completion_tokens, 1), c.reasoning_tokens) for c in in_file_order(trace)
    ]
    assert sum(isinstance(e, ParallelStart) for e in again.events) == sum(
        isinstance(e, ParallelEnd) for e in again.events
    )
    waits = sum(isinstance(e, Wait) for e in trace.events)
    tools = sum(isinstance(e, ToolCall) for e in trace.events)
    assert sum(isinstance(e, ToolCall) for e in again.events) == tools + waits


@given(traces())
def test_their_replay_of_made_messages_has_the_recorded_lengths_whatever_the_trace(trace: Trace) -> None:
    trace = without_messages(trace)

    replay = replay_as_reference(write_trace(trace, Fidelity()))

    assert replay.error is None
    assert list(replay.prompt_tokens) == [call.prompt_tokens for call in in_file_order(trace)]


@given(traces())
def test_their_replay_takes_any_trace_with_messages_too(trace: Trace) -> None:
    assert replay_as_reference(write_trace(trace, Fidelity())).error is None


@given(traces())
def test_every_aspect_that_is_noted_is_declared(trace: Trace) -> None:
    fidelity = Fidelity()

    write_trace(trace, fidelity)

    assert set(fidelity.counts) <= set(writer.WRITE_ASPECTS)
    assert len(set(writer.WRITE_ASPECTS)) == len(writer.WRITE_ASPECTS)


@given(traces())
def test_events_have_only_the_keys_of_that_format(trace: Trace) -> None:
    keys = {
        "message": (
            *("conversation_id", "role", "message_index", "system_prompt_id", "tokens", "tool_calls"),
            *("prompt_tokens", "completion_tokens", "reasoning_tokens", "finish_reason"),
        ),
        "tool_call": ("tool_call_id", "tool_name", "duration_ms"),
        "parallel_start": ("num_branches",),
    }
    data = json.loads(write_trace(trace, Fidelity()))

    assert set(data) == {"trace_id", "events"}
    assert str(uuid.UUID(data["trace_id"])) == data["trace_id"]
    for event in data["events"]:
        assert set(event) <= {"event_type", "branch_path", *keys.get(event["event_type"], ())}


def test_a_recorded_run_is_written_as_it_was() -> None:
    trace = make_trace(2, 150, osl=20, new=30, system=100)

    first, second, third, fourth, *_ = events(trace)
    assert first.pop("system_prompt_id") == str(uuid.UUID(events(trace)[0]["system_prompt_id"]))
    place: dict[str, Any] = {"event_type": "message", "branch_path": [], "conversation_id": 0}
    assert first == place | {"role": "system", "message_index": 0, "tokens": 100}
    assert second == place | {"role": "user", "message_index": 1, "tokens": 50}
    assert third == place | {
        "role": "assistant",
        "message_index": 2,
        "tool_calls": ["tool0"],
        "prompt_tokens": 150,
        "completion_tokens": 20,
        "reasoning_tokens": 0,
        "finish_reason": "tool_calls",
    }
    assert fourth == {
        "event_type": "tool_call",
        "branch_path": [],
        "tool_call_id": "t0",
        "tool_name": "tool0",
        "duration_ms": 50.0,
    }


def test_growth_without_messages_becomes_messages() -> None:
    trace = without_messages(make_trace(3, 150, osl=20, new=30, system=100))

    assert messages(trace) == [
        *((0, 0, "system", 100), (0, 1, "user", 50), (0, 2, "assistant", 20)),
        *((0, 3, "tool", 30), (0, 4, "assistant", 20), (0, 5, "tool", 30), (0, 6, "assistant", 20)),
    ]


def test_an_answer_that_was_reasoned_for_stays_without_its_reasoning() -> None:
    trace = trace_of(make_call(0, 100, osl=20, reasoning_tokens=15), make_call(1, 130, prefix=Prefix(0, 100, "ids")))

    assert messages(trace)[2:] == [(0, 2, "user", 25), (0, 3, "assistant", 20)]


def test_where_prompts_part_within_a_message_there_are_two_and_the_rest_is_overwritten() -> None:
    trace = trace_of(make_call(0, 100), make_call(1, 90, prefix=Prefix(0, 64, "blocks")))

    assert messages(trace) == [
        *((0, 0, "user", 64), (0, 1, "user", 36), (0, 2, "assistant", 20)),
        *((0, 1, "user", 1), (0, 2, "user", 25), (0, 3, "assistant", 20)),
    ]


def test_what_cannot_be_overwritten_is_emptied() -> None:
    trace = trace_of(make_call(0, 100), make_call(1, 100, prefix=Prefix(0, 100, "ids")))

    assert messages(trace)[2:] == [(0, 1, "user", 0), (0, 2, "assistant", 20)]


def test_a_call_that_begins_like_nothing_there_is_a_conversation_of_its_own() -> None:
    trace = trace_of(make_call(0, 100), make_call(1, 70), make_call(2, 120, prefix=Prefix(0, 120, "ids")))

    assert messages(trace) == [
        *((0, 0, "user", 100), (0, 1, "assistant", 20), (1, 0, "user", 70), (1, 1, "assistant", 20)),
        (0, 2, "assistant", 20),
    ]


def test_a_shared_prefix_that_begins_like_another_is_two_system_messages() -> None:
    inner = SharedPrefix("s1", "group", 90, SharedPrefixLink("s0", 60))
    trace = trace_of(
        make_call(0, 120, prefix=Prefix("s1", 80, "ids")),
        make_call(1, 120, prefix=BY_SYSTEM),
        shared_prefixes=[SYSTEM, inner],
    )

    written = [e for e in events(trace) if e.get("role") == "system"]
    assert [(e["conversation_id"], e["tokens"]) for e in written] == [(0, 60), (0, 20), (1, 100)]
    assert written[0]["system_prompt_id"] == written[2]["system_prompt_id"] != written[1]["system_prompt_id"]


def test_ids_of_system_prompts_hold_in_a_campaign_and_for_one_model() -> None:
    def ids(*domains: int, **header: Any) -> list[str]:
        calls = [make_call(i, 120, prefix=BY_SYSTEM, domain=domain) for i, domain in enumerate(domains)]
        trace = trace_of(*calls, shared_prefixes=[SYSTEM], **header)
        return [e["system_prompt_id"] for e in events(trace) if "system_prompt_id" in e]

    assert ids(0) == ids(0, trace_id="0123456789abcdef")
    assert ids(0) != ids(0, campaign="0123456789abcdef")
    assert len(set(ids(0, 1, 0))) == 2


def test_a_retry_and_a_rewind_empty_what_their_replay_would_leave_behind() -> None:
    def user(index: int, tokens: int) -> Message:
        return Message(conversation_id=0, role="user", message_index=index, tokens=tokens)

    trace = trace_of(
        user(0, 100),
        make_call(0, 100, message_index=1),
        make_call(1, 100, message_index=1, prefix=Prefix(0, 100, "ids")),
        user(2, 30),
        make_call(2, 150, message_index=3, prefix=Prefix(1, 120, "ids")),
        user(0, 70),
        make_call(3, 70, message_index=1),
    )

    assert messages(trace) == [
        *((0, 0, "user", 100), (0, 1, "assistant", 20)),
        *((0, 1, "user", 0), (0, 1, "assistant", 20)),
        *((0, 2, "user", 30), (0, 3, "assistant", 20)),
        *((0, 0, "user", 70), (0, 1, "user", 0), (0, 2, "user", 0), (0, 3, "user", 0), (0, 1, "assistant", 20)),
    ]
    assert list(replay_as_reference(write_trace(trace, Fidelity())).prompt_tokens) == [100, 100, 150, 70]
    again = read_trtllm(write_trace(trace, Fidelity()))
    assert [(c.prefix.of, c.prefix.tokens) for c in again.calls()] == [(None, 0), (0, 100), (1, 120), (None, 0)]


@pytest.mark.parametrize(("source", "written"), [("estimate", 50), (None, 42)])
def test_sizes_that_are_estimates_give_way_to_the_prompt_and_those_that_are_given_do_not(
    source: str | None, written: int
) -> None:
    trace = trace_of(
        Message(conversation_id=0, role="system", message_index=0, tokens=100, system_prompt_id="s0"),
        Message(conversation_id=0, role="user", message_index=1, tokens=42, tokens_source=source),
        make_call(0, 150, prefix=BY_SYSTEM),
        shared_prefixes=[SYSTEM],
        token_source="given",
    )

    assert messages(trace)[:2] == [(0, 0, "system", 100), (0, 1, "user", written)]


def test_messages_of_a_recording_that_say_otherwise_than_its_forest_are_made_anew() -> None:
    fidelity = Fidelity()
    trace = trace_of(
        Message(conversation_id=0, role="user", message_index=0, tokens=64),
        make_call(0, 64, message_index=1),
        Message(conversation_id=0, role="tool", message_index=2, tokens=36),
        make_call(1, 120, message_index=3, prefix=Prefix(0, 70, "text")),
        Message(conversation_id=0, role="tool", message_index=4, tokens=10),
        make_call(2, 150, message_index=5, prefix=Prefix(1, 120, "text")),
    )

    write_trace(trace, fidelity)

    assert fidelity.counts[writer.REMADE] == 3
    assert messages(trace)[2:5] == [(0, 1, "user", 56), (0, 2, "assistant", 20), (0, 2, "user", 30)]
    assert fidelity.counts[writer.MESSAGES] == 0


def test_answers_from_before_the_trace_become_messages_of_the_user() -> None:
    history = Message(conversation_id=0, role="assistant", message_index=0, tokens=30)

    assert messages(trace_of(history, make_call(0, 30, message_index=1)))[0] == (0, 0, "user", 30)


def test_what_the_format_cannot_say_is_counted() -> None:
    fidelity = Fidelity()
    trace = trace_of(
        make_call(0, 64, osl=0, at_ms=0.0, finish_reason="lost", cached_tokens=5),
        Wait(kind="human", duration_ms=500.0),
        Embedding(prompt_tokens=3),
        ParallelStart(region=0, num_branches=1),
        ParallelStart(region=1, num_branches=1),
        make_call(1, 64, domain=1, branch=(1, 0)),
        ParallelEnd(region=1),
        make_call(2, 90, prefix=Prefix(0, 10, "text", low=3)),
        DropKvCache(),
    )

    write_trace(trace, fidelity)

    assert fidelity.counts == {
        writer.LENGTHS: 3,
        writer.REGIONS: 1,
        writer.DROPS: 1,
        writer.MADE: 3,
        **dict.fromkeys((writer.WAITS, writer.EMPTY, writer.MERGED, writer.UNJOINED, writer.TIMES), 1),
        **dict.fromkeys((writer.DOMAINS, writer.BOUNDS, writer.REASONS, writer.EVIDENCE, writer.EMBEDDINGS), 1),
    }


def test_a_wait_is_a_tool_so_that_the_time_passes() -> None:
    tool = events(trace_of(make_call(0, 64), Wait(kind="think", duration_ms=40.0), make_call(1, 64)))[2]

    assert (tool["event_type"], tool["tool_name"], tool["duration_ms"]) == ("tool_call", "wait", 40.0)


@pytest.mark.parametrize(
    ("given_id", "written"),
    [
        ("11f2a3b4-0000-4000-8000-000000000000", "11f2a3b4-0000-4000-8000-000000000000"),
        ("11f2a3b4000040008000000000000000", "11f2a3b4-0000-4000-8000-000000000000"),
    ],
)
def test_an_id_that_is_a_uuid_is_kept(given_id: str, written: str) -> None:
    assert json.loads(write_trace(trace_of(trace_id=given_id), Fidelity()))["trace_id"] == written


def loaded_as_theirs(data: bytes) -> bytes:
    """Keep what their loader keeps: its own keys of each event, unchecked; all others are dropped without a word."""
    known = (
        *("event_type", "branch_path", "conversation_id", "role", "message_index", "system_prompt_id", "tokens"),
        *("tool_calls", "prompt_tokens", "completion_tokens", "reasoning_tokens", "finish_reason", "tool_call_id"),
        *("tool_name", "duration_ms", "num_branches", "tokens_source", "tokenize_error"),
    )
    raw = json.loads(data)
    kept = [{key: value for key, value in event.items() if key in known} for event in raw["events"]]
    return json.dumps({"trace_id": raw["trace_id"], "events": kept}).encode()


def test_a_file_of_ours_opens_in_their_loader_and_replays_alike() -> None:
    fork: list[TraceEvent] = [
        ParallelStart(region=0, num_branches=1),
        Message(conversation_id=1, role="system", message_index=0, tokens=40, system_prompt_id="s0", branch=(0, 0),
                branch_path=(0,)),
        make_call(3, 40, prefix=Prefix("s0", 40, "ids"), conversation_id=1, message_index=1, branch=(0, 0),
                  branch_path=(0,)),
        ParallelEnd(region=0),
    ]  # fmt: skip
    trace = make_trace(3, 100)
    trace = replace(trace, events=(*trace.events, *fork))

    ours = loaded_as_theirs(dumps(trace))

    replay = replay_as_reference(ours)
    assert replay.error is None
    assert list(replay.prompt_tokens) == [call.prompt_tokens for call in trace.calls()]
    again = read_trtllm(ours)
    assert [(c.prefix.of, c.prefix.tokens) for c in again.calls()] == [
        (c.prefix.of, c.prefix.tokens) for c in trace.calls()
    ]


def test_a_region_that_no_agent_has_is_refused() -> None:
    with pytest.raises(UnusableInput, match="region 0 has 100001 branches, and at most 100000 can be written"):
        events(trace_of(ParallelStart(region=0, num_branches=100_001)))


def test_a_time_that_no_run_has_is_refused() -> None:
    with pytest.raises(UnusableInput, match=r"a time of 3e\+11 ms cannot be written: at most 2\.5e\+11 ms can"):
        events(trace_of(Wait(kind="think", duration_ms=3e11)))


def test_references_in_any_form_are_written_alike() -> None:
    calls = [make_call(0, 100), make_call(1, 120, prefix=Prefix(0, 120, "ids"))]
    by_owner, by_another = (make_call(2, 110, prefix=Prefix(of, 90, "ids")) for of in (0, 1))

    assert messages(trace_of(*calls, by_another)) == messages(trace_of(*calls, by_owner))
