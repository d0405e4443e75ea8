"""Which spans are of one run: by trace, conversation and process; parents that are missing, or in a circle."""

from __future__ import annotations

import json

import pytest
from otlp_spans import Span, agent, chat, file_of, members_of, message, span, tool

from rotoscope.sdk.otlp import aspects
from rotoscope.sdk.otlp.runs import DEEPEST_SPAN
from rotoscope.traces.errors import TraceError
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.model import Embedding, ToolCall


def calls_by_run(*spans: Span, fidelity: Fidelity | None = None) -> list[list[int]]:
    """Return the prompt lengths of each run."""
    members = members_of(file_of(*spans), fidelity)
    return [[call.prompt_tokens for call in member.trace.calls()] for member in members]


def id_of(number: int) -> str:
    return f"{number:032x}"


def test_traces_are_runs_of_their_own() -> None:
    tops = [agent(at=(0, 3), trace=id_of(1)), agent(at=(4, 9), trace=id_of(2))]
    calls = [chat(10 + n, 1, at=(1 + 4 * n, 2 + 4 * n), parent=top) for n, top in enumerate(tops)]

    assert calls_by_run(*tops, *calls) == [[10], [11]]


def test_traces_that_name_one_conversation_are_one_run() -> None:
    told = {"session.id": "one"}
    tops = [span(told, at=(at, at + 3), trace=id_of(at + 1)) for at in (0, 4, 8)]
    calls = [chat(10 + n, 1, at=(1 + 4 * n, 2 + 4 * n), parent=top) for n, top in enumerate(tops)]
    alone = chat(20, 1, {"gen_ai.conversation.id": "another"}, at=(20, 21), trace=id_of(10))

    assert calls_by_run(*tops, *calls, alone) == [[10, 11, 12], [20]]


def test_calls_that_stand_alone_are_one_run_for_each_process() -> None:
    fidelity = Fidelity()
    alone = [chat(10 + number, 1, at=(number, number + 0.5), trace=id_of(number + 1)) for number in range(4)]
    messages = [message(alone[:3], service="one"), message(alone[3:], service="another")]

    members = members_of(json.dumps(messages).encode(), fidelity)

    assert [[call.prompt_tokens for call in member.trace.calls()] for member in members] == [[10, 11, 12], [13]]
    assert fidelity.counts[aspects.LOOSE] == 3


def test_calls_without_content_that_stand_alone_are_not_assumed_to_go_on() -> None:
    alone = [chat(100 * number, 1, at=(number, number + 0.5), trace=id_of(number)) for number in (1, 2)]

    (member,) = members_of(file_of(*alone))

    assert [call.prefix.of for call in member.trace.calls()] == [None, None]
    assert [call.prefix.greatest for call in member.trace.calls()] == [0, 101]


def test_calls_of_one_trace_whose_parent_is_missing_are_a_run() -> None:
    fidelity = Fidelity()
    missing = agent(at=(0, 9))
    calls = [chat(100 * number, 1, at=(number, number + 0.5), parent=missing) for number in (1, 2)]
    other = chat(7, 1, at=(1.5, 2), trace=id_of(5))

    assert calls_by_run(*calls, other, fidelity=fidelity) == [[100, 200], [7]]
    assert fidelity.counts[aspects.ORPHANS] == 2


def test_spans_in_a_circle_are_read_once() -> None:
    one, other = chat(10, 1, at=(1, 2)), chat(20, 1, at=(3, 4))
    one["parentSpanId"], other["parentSpanId"] = other["spanId"], one["spanId"]
    own = chat(30, 1, at=(5, 6))
    own["parentSpanId"] = own["spanId"]

    (found,) = calls_by_run(one, other, own)

    assert len(found) == 2  # one of the two within the other is the same call


def test_tools_and_embeddings_that_stand_alone_are_of_the_run_they_happened_in() -> None:
    fidelity = Fidelity()
    top = agent(at=(0, 9))
    calls = [chat(10, 1, at=(0, 1), parent=top), chat(20, 1, at=(8, 9), parent=top)]
    embedded = span({"gen_ai.operation.name": "embeddings", "gen_ai.usage.input_tokens": 5}, at=(4, 5), trace=id_of(1))

    (member,) = members_of(file_of(top, *calls, tool(at=(2, 3), trace=id_of(2)), embedded), fidelity)

    kinds = [event for event in member.trace.events if isinstance(event, ToolCall | Embedding)]
    assert {(event.at_ms, event.duration_ms) for event in kinds} == {(2000.0, 1000.0), (4000.0, 1000.0)}
    assert fidelity.counts[aspects.PUT] == 2


def test_tools_that_stand_alone_are_of_the_call_before_them() -> None:
    fidelity = Fidelity()
    spans = []
    for turn in range(3):
        spans.append(chat(100, 10, at=(turn, turn + 0.5), trace=id_of(2 * turn + 1)))
        spans.append(tool(at=(turn + 0.6, turn + 0.7), trace=id_of(2 * turn + 2)))

    (member,) = members_of(file_of(*spans), fidelity)

    assert fidelity.counts[aspects.LOOSE] == 3
    tools = [event for event in member.trace.events if isinstance(event, ToolCall)]
    assert [event.call for event in tools] == [0, 1, 2]
    assert {event.branch for event in member.trace.events} == {None}


def test_a_tool_outside_of_any_run_is_told_of() -> None:
    fidelity = Fidelity()
    top = agent(at=(0, 1))
    call, late = chat(10, 1, at=(0, 1), parent=top), tool(at=(5, 6), trace=id_of(1))

    assert calls_by_run(top, call, late, fidelity=fidelity) == [[10]]
    assert fidelity.counts[aspects.STRAYS] == 1


def test_spans_that_stand_in_the_file_again_are_read_once() -> None:
    fidelity = Fidelity()
    call = chat(10, 1, at=(0, 1))
    unfinished = {name: value for name, value in call.items() if name != "endTimeUnixNano"}

    (member,) = members_of(file_of(unfinished, call, unfinished), fidelity)

    (found,) = member.trace.calls()
    assert found.duration_ms == 1000.0
    assert fidelity.counts[aspects.REPEATED] == 2


def test_spans_in_any_order_give_the_same_trace() -> None:
    top = agent(at=(0, 9))
    spans = [top, *(chat(100 * n, 5, at=(n, n + 0.5), parent=top) for n in (1, 2, 3)), tool(at=(1.6, 1.9), parent=top)]

    assert members_of(file_of(*spans)) == members_of(file_of(*reversed(spans)))


def test_each_step_of_an_agent_may_stand_below_the_one_before() -> None:
    above = agent(at=(0, 900))
    spans = [above]
    for step in range(600):
        above = span({}, at=(step, 900), parent=above)
        spans += [above, chat(100 + step, 1, at=(step, step + 0.5), parent=above)]

    assert calls_by_run(*spans) == [[100 + step for step in range(600)]]


def test_spans_nested_too_deep_are_damage() -> None:
    spans = [agent(at=(0, 9))]
    for _ in range(DEEPEST_SPAN + 1):
        spans.append(span({}, at=(0, 9), parent=spans[-1]))

    with pytest.raises(TraceError, match="expected spans nested at most 4096 deep, found more"):
        calls_by_run(*spans, chat(1, 1, at=(0, 1), parent=spans[-1]))
