from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import traces

from rotoscope.testing import make_call, make_trace, trace_of
from rotoscope.traces import (
    Call,
    DropKvCache,
    Message,
    ParallelEnd,
    ParallelStart,
    Prefix,
    SharedPrefix,
    ToolCall,
    Trace,
    TraceEvent,
    Wait,
    normalise,
)
from rotoscope.traces.analysis.optimum import planned_hits
from rotoscope.traces.analysis.reference import analyse_as_reference, replay_as_reference
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.recognise import open_trace
from rotoscope.traces.formats.trtllm import read_trtllm
from rotoscope.traces.formats.trtllm_order import ordered
from rotoscope.traces.formats.trtllm_unlike import unlike
from rotoscope.traces.formats.trtllm_writer import write_trace
from rotoscope.traces.model import NO_PREFIX


def told(*events: TraceEvent, shared_prefixes: tuple[SharedPrefix, ...] = ()) -> list[str]:
    return [str(one) for one in unlike(trace_of(*events, shared_prefixes=shared_prefixes))]


@dataclass
class _Run:
    """Draws what replays alike by the rule: nothing shared, a whole system prefix, or the stream before, less reasoning."""

    draw: st.DrawFn
    events: list[TraceEvent] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    conversations: int = 0

    def converse(self, branch: tuple[int, int] | None) -> None:
        conversation, last = self.conversations, None
        self.conversations += 1
        for _ in range(self.draw(st.integers(1, 3))):
            last = self._call(conversation, branch, last)
            if self.draw(st.booleans()):
                number = f"t{len(self.events)}"
                self.events.append(
                    ToolCall(tool_call_id=number, tool_name="tool0", duration_ms=5.0, call=last.call, branch=branch)
                )

    def _call(self, conversation: int, branch: tuple[int, int] | None, last: Call | None) -> Call:
        if last is None:
            prefix, least = self.draw(st.sampled_from([(NO_PREFIX, 1), (Prefix("s0", 5, "ids"), 5)]))
        elif last.reasoning_tokens:
            content = last.completion_tokens - last.reasoning_tokens
            prefix, least = Prefix(last.call, last.prompt_tokens, "ids"), last.prompt_tokens + content
        else:
            prefix, least = Prefix(last.call, last.stream_tokens, "ids"), last.stream_tokens
        output = self.draw(st.integers(1, 4))
        call = make_call(
            len(self.calls),
            least + self.draw(st.integers(0, 3)),
            osl=output,
            prefix=prefix,
            reasoning_tokens=self.draw(st.integers(0, output)),
            conversation_id=conversation,
            branch=branch,
        )
        self.calls.append(call)
        self.events.append(call)
        return call


@st.composite
def alike(draw: st.DrawFn) -> Trace:
    run = _Run(draw)
    for region in range(draw(st.integers(1, 3))):
        run.converse(None)
        if draw(st.booleans()):
            width = draw(st.integers(1, 2))
            run.events.append(ParallelStart(region=region, num_branches=width))
            for child in range(width):
                run.converse((region, child))
            run.events.append(ParallelEnd(region=region))
    return normalise(trace_of(*run.events, shared_prefixes=[SharedPrefix("s0", "system", 5)]))


@given(alike())
def test_what_keeps_the_rule_replays_alike_and_their_tools_say_so(trace: Trace) -> None:
    data = write_trace(trace, Fidelity())

    assert unlike(trace) == []
    assert list(replay_as_reference(data).prompt_tokens) == [call.prompt_tokens for call in trace.calls()]
    analysed = analyse_as_reference(data).requests
    assert [request.prompt_tokens for request in analysed] == [call.prompt_tokens for call in trace.calls()]
    assert [request.hit_tokens for request in analysed] == planned_hits(trace)


@given(alike())
def test_what_replays_alike_is_read_with_the_same_prefixes(trace: Trace) -> None:
    again = read_trtllm(write_trace(trace, Fidelity()))

    assert [(c.prefix.of, c.prefix.tokens) for c in again.calls()] == [
        (c.prefix.of, c.prefix.tokens) for c in trace.calls()
    ]


def _in_their_eyes(call: Call) -> Call:
    """Leave out what only their analyzer takes otherwise than their replay: an answer that is all reasoning.

    It knows one model, too.
    """
    return replace(call, domain=0, reasoning_tokens=min(call.reasoning_tokens, max(call.completion_tokens - 1, 0)))


@given(traces())
def test_calls_that_are_not_listed_have_the_hits_that_their_analyzer_finds(trace: Trace) -> None:
    assume(all(shared.kind == "system" and shared.prefix is None for shared in trace.shared_prefixes))
    events = tuple(event for event in trace.events if not isinstance(event, Message | DropKvCache))
    trace = replace(trace, events=tuple(_in_their_eyes(e) if isinstance(e, Call) else e for e in events))
    assume(not ordered(trace).is_rearranged)

    listed = {one.number for one in unlike(trace) if one.what == "call"}

    analysed = analyse_as_reference(write_trace(trace, Fidelity())).requests
    for call, request, hit in zip(trace.calls(), analysed, planned_hits(trace), strict=True):
        assert call.call in listed or (request.prompt_tokens, request.hit_tokens) == (call.prompt_tokens, hit)


@pytest.mark.parametrize(("number", "listed"), [("0028", 0), ("0142", 0), ("0707", 0), ("0277", 2), ("0291", 1)])
def test_published_block_traces_replay_alike_but_for_what_branches_share(
    data_dir: Path, number: str, listed: int
) -> None:
    assert len(unlike(open_trace(data_dir / "weka" / f"trace_{number}.json"))) == listed


def test_a_recorded_run_replays_alike() -> None:
    assert unlike(make_trace(4)) == []


def test_a_prompt_of_another_length_is_listed() -> None:
    short = Message(conversation_id=0, role="user", message_index=0, tokens=60)

    trace = trace_of(short, make_call(0, 64, message_index=1), token_source="given")

    assert [str(one) for one in unlike(trace)] == ["call 0: its prompt has 60 tokens there, 64 here"]


def test_what_lies_in_an_answer_or_another_branch_is_listed() -> None:
    fork = ParallelStart(region=0, num_branches=1)

    assert told(make_call(0, 64), make_call(1, 90, prefix=Prefix(0, 70, "ids"))) == [
        "call 1: it begins like 64 tokens of call 0 there, like 70 tokens of call 0 here"
    ]
    assert told(
        make_call(0, 64), fork, make_call(1, 90, prefix=Prefix(0, 84, "ids"), branch=(0, 0)), ParallelEnd(region=0)
    ) == ["call 1: it begins like no other there, like 84 tokens of call 0 here"]


def test_a_conversation_that_goes_on_in_two_ways_is_listed_from_the_third_call() -> None:
    first = Prefix(0, 64, "ids")

    assert told(
        make_call(0, 64),
        make_call(1, 90, prefix=first),
        make_call(2, 80, prefix=first),
        make_call(3, 120, prefix=Prefix(1, 110, "ids")),
    ) == ["call 3: it begins like 64 tokens of call 0 there, like 110 tokens of call 1 here"]


def test_answers_without_a_token_and_dropped_caches_are_listed() -> None:
    assert told(make_call(0, 64, osl=0), DropKvCache()) == [
        "call 0: its empty answer has one token there",
        "drop 1: only a server of TensorRT-LLM can be told to drop its cache",
    ]


def test_two_models_share_nothing_there_either() -> None:
    system, prefix = SharedPrefix("s0", "system", 50), Prefix("s0", 50, "ids")
    calls = [make_call(i, 64, domain=i % 2, prefix=prefix) for i in range(4)]

    assert told(*calls, shared_prefixes=(system,)) == []


def test_regions_that_overlap_or_are_never_joined_are_listed() -> None:
    one, two = ParallelStart(region=0, num_branches=1), ParallelStart(region=1, num_branches=2)
    calls = [make_call(i, 64, branch=(i, 0)) for i in range(2)]

    assert told(one, two, *calls, ParallelEnd(region=1), ParallelEnd(region=0)) == [
        "region 1: overlaps another one of its branch, and starts and joins with it there"
    ]
    assert told(one, calls[0]) == ["region 0: is never joined here, and when its branch is over there"]


def test_a_region_inside_a_branch_with_others_beside_it_is_listed() -> None:
    inner = ParallelStart(region=1, num_branches=1, branch=(0, 0))
    calls = [make_call(0, 64, branch=(1, 0)), make_call(1, 64, branch=(0, 1))]
    end = ParallelEnd(region=1, branch=(0, 0))

    assert told(ParallelStart(region=0, num_branches=2), inner, *calls, end, ParallelEnd(region=0)) == [
        "region 1: branches beside it stand still there until it is joined"
    ]


def test_waits_and_tools_replay_alike() -> None:
    tool = ToolCall(tool_call_id="t0", tool_name="tool0", duration_ms=3.0)

    assert told(make_call(0, 64), tool, Wait(kind="think", duration_ms=5.0), make_call(1, 64)) == []
