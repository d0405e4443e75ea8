from __future__ import annotations

import json
import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from rotoscope.testing import make_call, make_trace, trace_of
from rotoscope.traces import model
from rotoscope.traces.corpus import CorpusName, Member, read_manifest, write_manifest
from rotoscope.traces.errors import RunFailed, UnusableInput
from rotoscope.traces.formats.recognise import LabelledTrace, corpus_called, open_traces
from rotoscope.traces.model import (
    Call,
    Message,
    ParallelEnd,
    ParallelStart,
    Prefix,
    SharedPrefix,
    ToolCall,
    Trace,
)
from rotoscope.traces.publish import PublishOptions, publish, published_members
from rotoscope.traces.writer import dumps, save

KNOWN_FIELDS = {
    "Trace": "trace_id campaign token_source prefix_granularity outputs volatile output_matches shared_prefixes events",
    "SharedPrefix": "id kind tokens prefix",
    "SharedPrefixLink": "of tokens low high",
    "Prefix": "of tokens source low high",
    "Event": "branch branch_path",
    "Message": "conversation_id role message_index tokens tokens_source system_prompt_id media_tokens",
    "Call": "call domain conversation_id message_index prompt_tokens prompt_tokens_source completion_tokens "
    "completion_tokens_source reasoning_tokens reasoning_unsized media_tokens prefix masked cached_tokens tool_calls "
    "finish_reason request at_ms ttft_ms duration_ms attempts aux link rivals",
    "Embedding": "prompt_tokens at_ms duration_ms",
    "ToolCall": "tool_call_id tool_name duration_ms call at_ms time_source",
    "Wait": "kind duration_ms at_ms",
    "ParallelStart": "region num_branches evidence",
    "ParallelEnd": "region",
    "DropKvCache": "",
}


@pytest.mark.parametrize("name", KNOWN_FIELDS)
def test_no_field_of_a_trace_is_published_without_thought(name: str) -> None:
    """A new field that is an id, a time or a length has to be made anew, rounded or kept on purpose: say so above."""
    kind = getattr(model, name)
    inherited = set() if name == "Event" else {"branch", "branch_path"}

    assert {one.name for one in fields(kind)} - inherited == set(KNOWN_FIELDS[name].split())


def published(*traces: Trace, **options: Any) -> list[Trace]:
    members = [Member(name=str(number), trace=trace) for number, trace in enumerate(traces)]
    return [member.trace for member in published_members(members, PublishOptions(**options))]


def a_trace_with_gaps() -> Trace:
    """Every id of it has gaps, and times begin late."""
    return trace_of(
        Message(conversation_id=7, role="system", message_index=0, tokens=30, system_prompt_id="s40"),
        make_call(3, 100, osl=10, prefix=Prefix("s40", 30, "ids"), domain=4, conversation_id=7, tool_calls=("tool9",),
                  request=8, at_ms=5000.25, ttft_ms=10.5, duration_ms=99.5),
        ToolCall(tool_call_id="t77", tool_name="tool9", duration_ms=20.0, call=3, at_ms=5100.0),
        ParallelStart(region=6, num_branches=2),
        make_call(9, 200, osl=10, prefix=Prefix(3, 110, "ids"), domain=4, conversation_id=2, branch=(6, 1),
                  branch_path=(3, 1, 4), masked=Prefix(3, 110, "text")),
        ParallelEnd(region=6),
        shared_prefixes=[SharedPrefix("s40", "system", 30)],
    )  # fmt: skip


def test_all_ids_become_dense_and_times_begin_at_zero() -> None:
    (trace,) = published(a_trace_with_gaps())
    system, first, tool, fork, second, join = trace.events

    assert isinstance(system, Message)
    assert isinstance(first, Call)
    assert isinstance(second, Call)
    assert (system.conversation_id, system.system_prompt_id) == (0, "s0")
    assert (first.call, first.domain, first.request, first.tool_calls) == (0, 0, 0, ("tool0",))
    assert (first.at_ms, first.ttft_ms, first.duration_ms) == (0.0, 11.0, 100.0)
    assert tool == ToolCall(tool_call_id="t0", tool_name="tool0", duration_ms=20.0, call=0, at_ms=100.0)
    assert (fork, join) == (ParallelStart(region=0, num_branches=2), ParallelEnd(region=0))
    assert (second.call, second.branch, second.branch_path, second.conversation_id) == (1, (0, 1), (1,), 1)
    assert (second.prefix, second.masked) == (Prefix(0, 110, "ids"), Prefix(0, 110, "text"))


def test_a_tool_has_one_name_in_a_campaign_and_another_in_others() -> None:
    def uses(tool: str, campaign: str) -> Trace:
        return trace_of(make_call(tool_calls=(tool,)), campaign=campaign)

    traces = published(
        uses("tool5", "aaaaaaaa"), uses("tool5", "bbbbbbbb"), uses("tool2", "aaaaaaaa"), uses("tool5", "aaaaaaaa")
    )

    assert [next(trace.calls()).tool_calls for trace in traces] == [("tool0",), ("tool1",), ("tool2",), ("tool0",)]


def test_the_order_of_a_corpus_and_its_clock_are_kept(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    starts = {"a": (3_600_000.4, (7, 90)), "b": (3_600_500.0, (40,))}
    members = []
    for name, (start_ms, ranks) in starts.items():
        trace = make_trace(turns=len(ranks))
        save(trace, source / f"{name}.trace.json")
        members.append((f"{name}.trace.json", Member(name=name, trace=trace, start_ms=start_ms, ranks=ranks)))
    write_manifest(source, members)

    publish(open_traces([source]), tmp_path / "out", PublishOptions(round_ms=100))

    assert read_manifest(tmp_path / "out").places == {
        "trace-0001.trace.json": (0.0, (0, 2)),
        "trace-0002.trace.json": (500.0, (1,)),
    }


def test_one_trace_needs_no_manifest_and_several_have_one(tmp_path: Path) -> None:
    one = LabelledTrace("", tmp_path / "x", Member(name="", trace=make_trace()))

    publish([one], tmp_path / "one", PublishOptions())
    publish([one, one], tmp_path / "two", PublishOptions())

    assert os.listdir(tmp_path / "one") == ["trace-0001.trace.json"]
    assert read_manifest(tmp_path / "two").places == {f"trace-000{n}.trace.json": (None, None) for n in (1, 2)}


def test_an_output_that_fails_the_audit_does_not_stay(tmp_path: Path) -> None:
    odd = trace_of(make_call(isl=1_764_460_000))

    with pytest.raises(RunFailed, match="nothing was published, because the audit found 1 faults"):
        publish([LabelledTrace("", tmp_path, Member(name="", trace=odd))], tmp_path / "out", PublishOptions())
    assert os.listdir(tmp_path) == []


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("")

    with pytest.raises(UnusableInput, match="is not empty"):
        publish([LabelledTrace("", tmp_path, Member(name="", trace=make_trace()))], tmp_path, PublishOptions())
    assert os.listdir(tmp_path) == ["mine"]


def test_a_tiny_output_keeps_a_token_and_what_goes_on_from_it_stands_behind_it() -> None:
    first = make_call(0, 100, osl=3)
    grown = make_call(1, 110, osl=0, prefix=Prefix(0, 103, "ids"))
    (trace,) = published(trace_of(first, grown), round_tokens=64)

    assert [(call.prompt_tokens, call.completion_tokens, call.prefix.tokens) for call in trace.calls()] == [
        (128, 1, 0),
        (129, 0, 129),
    ]


def test_cached_tokens_reasoning_and_sizes_are_rounded_within_what_they_belong_to() -> None:
    call = make_call(0, 100, osl=40, reasoning_tokens=40, cached_tokens=99, media_tokens=3)
    message = Message(conversation_id=0, role="user", message_index=0, tokens=90, media_tokens=100)
    (trace,) = published(trace_of(message, call), round_tokens=64)
    (rounded,) = trace.calls()

    assert (rounded.prompt_tokens, rounded.completion_tokens, rounded.reasoning_tokens) == (128, 1, 1)
    assert (rounded.cached_tokens, rounded.media_tokens) == (128, 1)
    assert trace.events[0] == replace(message, tokens=64, media_tokens=128)


def test_coarse_prefixes_stay_multiples_of_their_granularity() -> None:
    calls = [make_call(0, 1000, osl=5), make_call(1, 900, osl=5, prefix=Prefix(0, 512, "blocks"))]
    (trace,) = published(trace_of(*calls, prefix_granularity=512, outputs="unknown"), round_tokens=64)

    assert trace.prefix_granularity == 512
    assert list(trace.calls())[1].prefix.tokens == 512


@pytest.mark.parametrize("options", [{"round_ms": 2}, {"round_tokens": 1}])
def test_other_steps_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UnusableInput, match="can be rounded to one of"):
        PublishOptions(**options)


def test_a_corpus_has_the_name_that_it_is_given_also_where_it_is_one_trace(tmp_path: Path) -> None:
    trace = LabelledTrace("", tmp_path, Member(name="", trace=make_trace()))

    publish([trace], tmp_path / "o", PublishOptions(called=CorpusName("coding-agents", "1.0")))

    assert read_manifest(tmp_path / "o").called == CorpusName("coding-agents", "1.0")
    assert corpus_called(open_traces([tmp_path / "o"])) == CorpusName("coding-agents", "1.0")


def test_the_file_is_that_of_the_trace(tmp_path: Path) -> None:
    publish([LabelledTrace("", tmp_path, Member(name="", trace=make_trace()))], tmp_path / "o", PublishOptions(seed=1))
    (trace,) = published(make_trace(), seed=1)

    assert (tmp_path / "o/trace-0001.trace.json").read_bytes() == dumps(trace)
    assert json.loads(dumps(trace))["trace_id"] != make_trace().trace_id
