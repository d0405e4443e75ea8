"""Traces of spans: runs, prefixes with and without content, tools, branches, and what is told of what was lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from otlp_spans import Span, agent, attributes, calls_of, chat, file_of, members_of, message, tool, trace_of, value
from sdk_doubles import Spans, provided_by

from rotoscope import parallel, trace_agent, trace_tool
from rotoscope.sdk.otlp import aspects
from rotoscope.sdk.otlp.written_formats import span_formats
from rotoscope.sdk.outgoing import Request
from rotoscope.sdk.spanned import with_call_spans
from rotoscope.testing import make_trace
from rotoscope.traces import save
from rotoscope.traces.corpus import Member
from rotoscope.traces.errors import TraceError
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.model import ParallelEnd, ParallelStart, Prefix, ToolCall
from rotoscope.traces.writer import dumps


def parts(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def said(*messages: dict[str, Any], answer: str) -> dict[str, str]:
    return {
        "gen_ai.input.messages": json.dumps(messages),
        "gen_ai.output.messages": json.dumps([parts("assistant", answer)]),
    }


def chain() -> list[Span]:
    """Return an agent of three calls that each go on from the one before, and a tool."""
    top = agent(at=(0, 10))
    return [
        top,
        chat(100, 10, {"gen_ai.response.finish_reasons": ["tool_calls"]}, at=(0, 1), parent=top),
        tool("search", at=(1.25, 1.75), parent=top),
        chat(150, 20, at=(2, 3), parent=top),
        chat(180, 5, at=(4, 5), parent=top),
    ]


def test_calls_without_content_are_assumed_to_go_on_from_one_another() -> None:
    first, second, third = calls_of(*chain())

    assert first.prefix == Prefix(None, 0, "assumed")
    assert second.prefix == Prefix(0, 110, "assumed", low=0)
    assert third.prefix == Prefix(1, 170, "assumed", low=0)
    assert [call.prompt_tokens for call in (first, second, third)] == [100, 150, 180]
    assert [call.completion_tokens for call in (first, second, third)] == [10, 20, 5]


def test_a_tool_is_timed_by_its_span_behind_the_call_that_asked() -> None:
    trace = trace_of(*chain())

    (ran,) = [event for event in trace.events if isinstance(event, ToolCall)]
    assert (ran.at_ms, ran.duration_ms, ran.call, ran.time_source) == (1250.0, 500.0, 0, "sdk")
    assert next(trace.calls()).tool_calls == (ran.tool_name,)


def test_a_prompt_that_is_shorter_than_what_went_before_begins_anew() -> None:
    top = agent(at=(0, 10))
    spans = [chat(tokens, 10, at=(at, at + 0.5), parent=top) for at, tokens in enumerate((100, 200, 50, 70, 250))]

    prefixes = [call.prefix for call in calls_of(top, *spans)]

    assert [prefix.of for prefix in prefixes] == [None, 0, None, 2, 1]
    assert prefixes[2] == Prefix(None, 0, "opaque", high=50)


def test_content_tells_what_prompts_share() -> None:
    top = agent(at=(0, 10))
    system, asked = parts("system", "You are a good help. " * 20), parts("user", "What is the weather?")
    again = parts("user", "And tomorrow?")
    spans = [
        chat(100, 10, said(system, asked, answer="It rains."), at=(0, 1), parent=top),
        chat(
            130, 10, said(system, asked, parts("assistant", "It rains."), again, answer="Sun."), at=(2, 3), parent=top
        ),
        chat(90, 10, said(system, again, answer="Of what?"), at=(4, 5), parent=top),
    ]

    trace = trace_of(top, *spans)

    first, second, third = trace.calls()
    assert second.prefix.of == 0
    assert second.prefix.source == "text"
    assert second.prefix.tokens >= 100
    assert first.prefix.of == third.prefix.of == "s0"
    assert 0 < third.prefix.tokens < 90


def test_content_may_come_as_log_records() -> None:
    """As the older conventions have it by default: a record a message, whose body is an object."""
    question, answer = {"content": "How is it in Ghent?"}, {"message": {"role": "assistant", "content": "It rains."}}
    first, second = chat(60, 30, at=(0, 1)), chat(100, 5, at=(2, 3))
    told = [("gen_ai.user.message", question), ("gen_ai.choice", answer)]
    later = [("gen_ai.user.message", question), ("gen_ai.assistant.message", answer["message"])]
    records = [
        {"traceId": one["traceId"], "spanId": one["spanId"], "eventName": name, "body": value(body)}
        for one, events in ((first, told), (second, [*later, ("gen_ai.user.message", {"content": "Still?"})]))
        for name, body in events
    ]
    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}

    (member,) = members_of(file_of(first, second) + b"\n" + json.dumps(logs).encode())

    _, call = member.trace.calls()
    assert (call.prefix.of, call.prefix.source, call.prefix.greatest) == (0, "text", 90)


def test_no_content_and_no_name_is_in_the_trace(tmp_path: Any) -> None:
    fidelity = Fidelity()
    told = said(parts("system", "a canary1"), parts("user", "a canary2"), answer="a canary3")
    top = agent(at=(0, 9)) | {"name": "canary4"}
    spans = [chat(50, 5, {**told, "gen_ai.conversation.id": "canary5"}, at=(0, 1), parent=top)]
    spans.append(tool("canary6", {"gen_ai.tool.call.arguments": "canary7"}, at=(2, 3), parent=top))

    save(trace_of(top, *spans, fidelity=fidelity), tmp_path / "one.trace.json")

    assert b"canary" not in (tmp_path / "one.trace.json").read_bytes()
    assert "canary" not in "".join(fidelity.lines())


def test_no_text_in_any_place_is_in_a_trace_or_in_what_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Names, keys, ids of conversations, events, exceptions, states, links, processes, log records: each has a canary."""
    numbers = iter(range(1000))

    def canary() -> str:
        return f"canary {next(numbers)}"

    def told(**known: Any) -> dict[str, Any]:
        return {canary(): canary(), **known}

    failed = {"code": 2, "message": canary()}
    raised = told(**{"exception.type": canary(), "exception.message": canary(), "exception.stacktrace": canary()})
    events = [("exception", 1.5, raised), (canary(), 1.6, told()), ("gen_ai.choice", 1.7, told(finish_reason=canary()))]
    names = {name: canary() for name in ("gen_ai.request.model", "gen_ai.response.id", "session.id", "agent_id")}
    link = {"traceId": "1" * 32, "spanId": "2" * 16, "attributes": attributes(told())}
    top = agent(at=(0, 9), status=failed, traceState=canary(), links=[link])
    call = chat(100, 10, told(**names, **{"error.type": canary()}), at=(1, 2), parent=top, events=events)
    error = chat(None, None, told(**{"error.type": canary()}), at=(5, 6), parent=top, status=failed)
    spans = [top, call, tool(canary(), told(), at=(3, 4), parent=top), error]
    record = {"traceId": call["traceId"], "spanId": call["spanId"], "eventName": "gen_ai.user.message"}
    record |= {"body": value(told(content=canary())), "attributes": attributes(told()), "severityText": canary()}
    logs = {"resourceLogs": [{"resource": {"attributes": attributes(told())}, "scopeLogs": [{"logRecords": [record]}]}]}
    fidelity = Fidelity()

    data = json.dumps(message([one | {"name": canary()} for one in spans], scope=canary(), service=canary()))
    members = members_of(data.encode() + b"\n" + json.dumps(logs).encode(), fidelity)

    written = b"".join(dumps(member.trace) for member in members).decode() + repr(members)
    assert "canary" not in written + "".join(fidelity.lines()) + caplog.text


def test_the_same_file_gives_the_same_trace() -> None:
    spans = chain()

    assert trace_of(*spans) == trace_of(*spans)


def test_traces_of_one_file_are_runs_on_one_clock() -> None:
    other = "1" * 32
    late = chat(10, 1, at=(7, 8), parent=agent(at=(6, 9), trace=other))
    data = file_of(*chain(), late)

    one, two = members_of(data)

    assert (one.name, two.name) == ("0", "1")
    assert (one.start_ms, two.start_ms) == (0.0, 7000.0)
    assert (one.ranks, two.ranks) == ((0, 1, 2), (3,))


def test_a_file_without_calls_is_refused() -> None:
    with pytest.raises(TraceError, match=r"^spans.json: expected spans of model calls, found none: gen_ai.oper"):
        members_of(file_of(agent(at=(0, 1))))
    with pytest.raises(TraceError, match=r"^spans.json: expected model calls with usage or content, found none: `roto"):
        members_of(file_of(chat(None, None, at=(0, 1))))


def test_a_file_in_which_one_clock_is_that_of_nobody_is_refused() -> None:
    last = chat(12, 1, at=(0, 40 * 365 * 24 * 3600))

    with pytest.raises(
        TraceError, match=r"^spans.json: expected times in nanoseconds since 1970, found spans 40 years"
    ):
        members_of(file_of(*chain(), last))


@pytest.mark.parametrize("name", ["otlp", "otlp-protobuf"])
@pytest.mark.parametrize("several", [False, True])
def test_spans_that_were_made_of_traces_are_those_traces_again(name: str, several: bool) -> None:
    (written,) = [one for one in span_formats(None) if one.name == name]
    traces = [make_trace(turns=3), make_trace(turns=2)] if several else [make_trace(turns=3)]
    members = [Member(name=str(number), trace=trace) for number, trace in enumerate(traces)]
    assert written.write_corpus is not None

    data = b"".join(written.write_corpus(members, Fidelity(), block_size=1))

    assert [member.trace for member in members_of(data)] == traces


def test_content_that_is_nested_too_deep_is_told_of() -> None:
    fidelity = Fidelity()
    deep = "[" * 400 + "]" * 400
    told = {**said(parts("user", "Hi."), answer="Ho."), "gen_ai.tool.definitions": deep}
    top = agent(at=(0, 9))

    calls = list(
        trace_of(
            top, chat(9, 1, at=(0, 1), parent=top), chat(9, 1, told, at=(2, 3), parent=top), fidelity=fidelity
        ).calls()
    )

    assert len(calls) == 1
    assert fidelity.counts[aspects.UNREAD] == 1


@trace_tool
def look() -> None:
    """Take no time."""


def ask(tokens: int) -> None:
    """Make a call as a client does whose transport is heard."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "a canary"}]}).encode()
    answer = json.dumps({"choices": [{"index": 0}], "usage": {"prompt_tokens": tokens, "completion_tokens": 1}})
    outgoing = with_call_spans()(Request("POST", "https://somewhere.test/v1/chat/completions", {}, body))
    assert outgoing is not None
    outgoing.response(200, "application/json")
    outgoing.chunk(answer.encode())
    outgoing.end()


@trace_agent
def researcher(tokens: int) -> None:
    ask(tokens)
    look()


@trace_agent
def supervisor() -> None:
    ask(100)
    with parallel("research") as fan:
        for number in range(2):
            with fan.branch("researcher"):
                researcher(50 + number)
    ask(200)


def test_spans_of_our_own_decorators_give_lines_tools_and_assumed_prefixes() -> None:
    kept = Spans()
    with provided_by(kept.provider):
        supervisor()

    trace = trace_of(*(as_otlp(one) for one in kept.ended))

    assert [(call.prompt_tokens, call.branch) for call in trace.calls()] == [
        *((100, None), (50, (0, 0)), (51, (0, 1)), (200, None))
    ]
    assert [event.num_branches for event in trace.events if isinstance(event, ParallelStart)] == [2]
    assert len([event for event in trace.events if isinstance(event, ParallelEnd)]) == 1
    tools = [event for event in trace.events if isinstance(event, ToolCall)]
    assert [(event.branch, event.time_source) for event in tools] == [((0, 0), "sdk"), ((0, 1), "sdk")]
    assert [call.prefix.of for call in trace.calls()] == [None, None, None, 0]


def as_otlp(told: ReadableSpan) -> Span:
    """Return a span of OpenTelemetry's SDK as it is exported."""
    assert told.context is not None
    return {
        "traceId": f"{told.context.trace_id:032x}",
        "spanId": f"{told.context.span_id:016x}",
        "parentSpanId": f"{told.parent.span_id:016x}" if told.parent else "",
        "name": told.name,
        "startTimeUnixNano": str(told.start_time),
        "endTimeUnixNano": str(told.end_time),
        "attributes": attributes(told.attributes or {}),
    }
