from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1 import trace_pb2

from rotoscope import __version__
from rotoscope.sdk.otlp import writing
from rotoscope.sdk.otlp.spans_of_trace import spans_of
from rotoscope.sdk.otlp.writing import Clock, json_lines, protobuf
from rotoscope.testing import make_call, make_trace, trace_of
from rotoscope.traces import Trace, UnusableInput
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.model import Wait

EPOCH = Clock(now_ns=0, started_ns=1_700_000_000_000_000_000)


def members(*traces: Trace, start_ms: Sequence[float | None] = ()) -> list[Member]:
    starts = [*start_ms, *[None] * len(traces)]
    return [Member(name=str(i), trace=trace, start_ms=starts[i]) for i, trace in enumerate(traces)]


def sent(*traces: Trace, clock: Clock = EPOCH, **place: Any) -> list[trace_pb2.Span]:
    """Return the spans that a receiver finds in what is written as protobuf."""
    data = b"".join(protobuf(members(*traces, **place), Fidelity(), clock))
    request = ExportTraceServiceRequest.FromString(data)
    return [span for of in request.resource_spans for scope in of.scope_spans for span in scope.spans]


def lines(*traces: Trace) -> list[dict[str, Any]]:
    return [json.loads(line) for line in json_lines(members(*traces), Fidelity(), EPOCH)]


def test_a_receiver_finds_the_spans_in_protobuf() -> None:
    found = sent(make_trace(turns=2))

    assert [span.name for span in found] == [
        "invoke_agent root",
        "chat domain0",
        "execute_tool tool0",
        "chat domain0",
    ]
    assert [span.kind for span in found] == [1, 3, 1, 3]
    assert [span.parent_span_id for span in found] == [b"", *[found[0].span_id] * 3]
    assert found[1].start_time_unix_nano == 1_700_000_000_000_000_000
    assert found[2].start_time_unix_nano == 1_700_000_000_100_000_000
    assert found[2].end_time_unix_nano == 1_700_000_000_150_000_000


def test_a_line_is_one_message_with_scope_schema_and_service() -> None:
    [line] = lines(make_trace())

    [resource] = line["resourceSpans"]
    [scope] = resource["scopeSpans"]
    assert resource["resource"]["attributes"] == [{"key": "service.name", "value": {"stringValue": "rotoscope"}}]
    assert scope["scope"] == {"name": "rotoscope", "version": __version__}
    assert scope["schemaUrl"] == "https://opentelemetry.io/schemas/gen-ai/0.1.0"


def test_ids_in_json_are_hexadecimal_and_the_same_as_in_protobuf() -> None:
    trace = make_trace(turns=2)

    spans = spans_in(lines(trace))

    assert [(span["traceId"], span["spanId"], span.get("parentSpanId", "")) for span in spans] == [
        (span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex()) for span in sent(trace)
    ]


def test_json_has_numbers_of_enumerations_and_strings_of_64_bits() -> None:
    call = spans_in(lines(trace_of(make_call())))[1]

    assert call["kind"] == 3
    assert call["startTimeUnixNano"] == "1700000000000000000"


def spans_in(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        span for line in found for of in line["resourceSpans"] for scope in of["scopeSpans"] for span in scope["spans"]
    ]


def test_each_kind_of_value_has_its_type() -> None:
    call = make_call(finish_reason="lost", aux=True, at_ms=0.5, tool_calls=("tool0",), branch_path=(2, 3))

    [_, span] = spans_in(lines(trace_of(call)))

    values = {one["key"]: one["value"] for one in span["attributes"]}
    assert values["rotoscope.aux"] == {"boolValue": True}
    assert values["gen_ai.usage.input_tokens"] == {"intValue": "100"}
    assert values["rotoscope.at_ms"] == {"doubleValue": 0.5}
    assert values["error.type"] == {"stringValue": "lost"}
    assert values["rotoscope.tool_calls"] == {"arrayValue": {"values": [{"stringValue": "tool0"}]}}
    assert values["rotoscope.branch_path"] == {"arrayValue": {"values": [{"intValue": "2"}, {"intValue": "3"}]}}
    assert span["status"] == {"code": 2}


def test_the_last_run_ends_now_unless_it_is_said_when_the_first_began() -> None:
    now = Clock(now_ns=2_000_000_000_000_000_000)
    short, long = (trace_of(Wait(kind="think", duration_ms=ms)) for ms in (10.0, 30.0))

    found = sent(short, long, clock=now, start_ms=(5.0, 100.0))

    assert max(span.end_time_unix_nano for span in found) == now.now_ns
    assert found[2].start_time_unix_nano - found[0].start_time_unix_nano == 95_000_000


def test_a_run_longer_than_all_time_begins_with_it() -> None:
    long = trace_of(Wait(kind="think", duration_ms=1e12, at_ms=1e12))

    assert sent(long, clock=Clock(now_ns=10**18))[0].start_time_unix_nano == 1
    assert sent(long, clock=Clock(now_ns=0, started_ns=7 * 10**18))[0].end_time_unix_nano == 9 * 10**18


def test_the_same_trace_twice_is_two_traces_there() -> None:
    found = sent(make_trace(), make_trace())

    assert len({span.trace_id for span in found}) == 2
    assert len({span.span_id for span in found}) == len(found)


def test_no_message_is_larger_than_receivers_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MOST_SPANS", 3)
    trace = make_trace(turns=4)

    found = lines(trace)

    assert [len(spans_in([line])) for line in found] == [3, 3, 2]
    assert len({span["spanId"] for span in spans_in(found)}) == len(spans_of(trace))


def test_a_trace_without_events_is_a_root_alone() -> None:
    assert [span.name for span in sent(trace_of())] == ["invoke_agent root"]


def test_the_account_says_what_became_of_each_part() -> None:
    fidelity = Fidelity()

    list(json_lines(members(make_trace(turns=2), trace_of(make_call())), fidelity, EPOCH))

    assert {(aspect.what, aspect.verdict): times for aspect, times in fidelity.counts.items()} == {
        ("calls, tools, waits, branches and all that is known of them", "kept"): 4,
        ("messages, joins and dropped caches", "kept"): 3,
        ("shared prefixes", "kept"): 1,
        ("times", "approximated"): 1,
        ("when runs were", "approximated"): 2,
    }


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.proto", None)

    for write in (json_lines, protobuf):
        with pytest.raises(UnusableInput, match=r"pip install 'rotoscope\[otlp\]'"):
            write(members(make_trace()), Fidelity(), EPOCH)
