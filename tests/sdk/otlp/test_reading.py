"""Files of OTLP: JSON and protobuf in the forms in which they are found, and damage by file, line and field."""

from __future__ import annotations

import base64
import gzip
import io
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from otlp_spans import agent, chat, file_of, message, span

from rotoscope.sdk.otlp.format import FORMAT
from rotoscope.sdk.otlp.reading import read_spans
from rotoscope.sdk.otlp.spans import Span
from rotoscope.traces.errors import TraceError
from rotoscope.traces.formats.heads import Head
from rotoscope.traces.formats.registry import format_of
from rotoscope.traces.formats.source import HEAD_BYTES, Source

AGENT = agent(at=(0, 9))
FIRST = chat(100, 10, at=(1, 2), parent=AGENT)
SECOND = chat(150, 10, {"list": ["a", 1], "map": {"b": 2.5, "c": True}}, at=(3, 4), parent=AGENT)
SPANS = (AGENT, FIRST, SECOND)


def as_protobuf(data: bytes) -> TracesData:
    """Return a message of JSON as protobuf, whose own JSON has ids in base64."""

    def with_base64(value: Any) -> Any:
        if isinstance(value, list):
            return [with_base64(item) for item in value]
        if not isinstance(value, dict):
            return value
        return {
            key: base64.b64encode(bytes.fromhex(item)).decode()
            if key.endswith(("traceId", "spanId", "SpanId"))
            else with_base64(item)
            for key, item in value.items()
        }

    read: TracesData = ParseDict(with_base64(orjson.loads(data)), TracesData())
    return read


WHOLE = file_of(*SPANS)
PROTOBUF = as_protobuf(WHOLE).SerializeToString()


def framed(*messages: bytes) -> bytes:
    return b"".join(len(data).to_bytes(4, "big") + data for data in messages)


FORMS: dict[str, bytes] = {
    "one object": WHOLE,
    "over several lines": orjson.dumps(message(SPANS), option=orjson.OPT_INDENT_2),
    "a line each": b"\n".join(file_of(one) for one in SPANS) + b"\n",
    "a list": orjson.dumps([message([one]) for one in SPANS]),
    "snake case, ids in base64, kinds as words": orjson.dumps(
        MessageToDict(as_protobuf(WHOLE), preserving_proto_field_name=True)
    ),
    "compressed": gzip.compress(WHOLE),
    "protobuf": PROTOBUF,
    "protobuf, compressed": gzip.compress(PROTOBUF),
    "protobuf, messages behind one another": b"".join(as_protobuf(file_of(one)).SerializeToString() for one in SPANS),
    "protobuf, with lengths": framed(*(as_protobuf(file_of(one)).SerializeToString() for one in SPANS)),
}


def read(data: bytes) -> list[Span]:
    return read_spans(Source.of_bytes(data, "spans"))


@pytest.mark.parametrize("data", FORMS.values(), ids=FORMS)
def test_every_form_of_a_file_is_told_and_holds_the_same_spans(data: bytes) -> None:
    source = Source.of_bytes(data, "spans")

    assert format_of(Head(source.head)) is FORMAT
    found = read_spans(source)
    assert [(x.trace_id, x.span_id, x.parent_id, x.start_ns, x.end_ns) for x in found] == [
        (x.trace_id, x.span_id, x.parent_id, x.start_ns, x.end_ns) for x in read(WHOLE)
    ]
    assert [dict(x.attributes) for x in found] == [dict(x.attributes) for x in read(WHOLE)]
    assert found[2].attributes["map"] == {"b": 2.5, "c": True}
    assert found[1].parent_id == found[0].span_id


def test_a_span_that_has_not_ended_has_no_end() -> None:
    assert read(file_of(chat(1, 1, at=(0, None))))[0].end_ns is None


@pytest.mark.parametrize("parent", ["", "0000000000000000", None])
def test_a_parent_without_an_id_is_none(parent: str | None) -> None:
    assert read(file_of(chat(1, 1, at=(0, 1), parentSpanId=parent)))[0].parent_id == ""


def test_a_parent_of_zeros_is_none_in_protobuf_too() -> None:
    data = as_protobuf(file_of(chat(1, 1, at=(0, 1), parentSpanId="0" * 16)))

    assert read(data.SerializeToString())[0].parent_id == ""


@pytest.mark.parametrize("harm", [{"trace_id": bytes(16)}, {"span_id": b"ab"}, {"parent_span_id": b"ab"}])
def test_a_bad_id_in_protobuf_is_damage(harm: dict[str, bytes]) -> None:
    data = as_protobuf(file_of(chat(1, 1, at=(0, 1)), chat(1, 1, at=(0, 1))))
    (name,) = harm
    setattr(data.resource_spans[0].scope_spans[0].spans[1], name, harm[name])

    with pytest.raises(TraceError, match=f"spans: {name}: expected an id of"):
        read(data.SerializeToString())


DAMAGES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "no trace id": (lambda x: x.pop("traceId"), "traceId: required, but not there"),
    "short id": (lambda x: x.update(spanId="ab"), "spanId: expected an id of 8 bytes that are not all 0, in hex"),
    "zero id": (lambda x: x.update(traceId="0" * 32), "traceId: expected an id of 16 bytes that are not all 0"),
    "time as text": (
        lambda x: x.update(startTimeUnixNano="now"),
        "startTimeUnixNano: expected an integer, found a str",
    ),
    "no time": (lambda x: x.update(startTimeUnixNano=0), "startTimeUnixNano: expected nanoseconds since 1970"),
    "attributes as an object": (
        lambda x: x.update(attributes={"a": 1}),
        "attributes: expected a list, found an object",
    ),
    "a value of no kind": (
        lambda x: x.update(attributes=[{"key": "a", "value": {"x": 1}}]),
        "attributes[0].value: exp",
    ),
    "an attribute without name": (lambda x: x.update(attributes=[{}]), "attributes[0].key: required, but not there"),
}


@pytest.mark.parametrize(("harm", "said"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_told_by_file_line_and_field(harm: Callable[[dict[str, Any]], object], said: str) -> None:
    damaged = chat(1, 1, at=(0, 1))
    harm(damaged)

    with pytest.raises(TraceError) as caught:
        read(file_of(AGENT) + b"\n" + file_of(damaged))

    assert str(caught.value).startswith(f"spans:2: resourceSpans[0].scopeSpans[0].spans[0].{said}")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (PROTOBUF[:-3], "spans: the protobuf message is damaged or cut short"),
        (framed(PROTOBUF)[:-3], "spans: the protobuf message at byte 4 is cut short"),
        (WHOLE + b"\n" + WHOLE[:-9], "spans:2: the file ends in the middle: truncated"),
        (b'{"resourceSpans": 1}', "spans:1: resourceSpans: expected a list, found a number"),
        (b'[{"resourceSpans": []}, 2]', "spans:1: [1]: expected an object, found a number"),
    ],
)
def test_a_file_that_is_cut_or_no_message_is_damaged(data: bytes, said: str) -> None:
    with pytest.raises(TraceError) as caught:
        read(data)

    assert str(caught.value) == said


def test_errors_quote_nothing() -> None:
    damaged = span({"secret": "a canary"}, at=(0, 1))
    damaged["attributes"][0]["value"] = {"stringValue": ["a canary"]}

    with pytest.raises(TraceError) as caught:
        read(file_of(damaged))

    assert "canary" not in str(caught.value)


def log_of(span: dict[str, Any], name: str, **other: Any) -> dict[str, Any]:
    of_span = {"traceId": span["traceId"], "spanId": span["spanId"], "timeUnixNano": span["startTimeUnixNano"]}
    return {**of_span, "eventName": name, "body": {"stringValue": "Hi."}, **other}


def logs(*records: dict[str, Any]) -> bytes:
    return orjson.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": list(records)}]}]}) + b"\n"


def test_log_records_that_are_events_of_calls_are_events_of_their_spans() -> None:
    others = [log_of(FIRST, "an event"), {"body": {"stringValue": "Hi."}}, log_of(FIRST, "gen_ai.x", spanId="")]
    dropped = log_of(FIRST, "gen_ai.choice", droppedAttributesCount=1)
    named = {"attributes": [{"key": "event.name", "value": {"stringValue": "gen_ai.user.message"}}]}
    data = logs(*others, dropped) + WHOLE + b"\n" + logs(log_of(FIRST, "", **named, timeUnixNano="1"))

    assert format_of(Head(data)) is FORMAT
    found = read(data)
    assert [[event.name for event in one.events] for one in found] == [[], ["gen_ai.user.message", "gen_ai.choice"], []]
    assert [event.attributes.get("body") for event in found[1].events] == ["Hi.", None]


def test_a_damaged_log_record_is_told_by_file_line_and_field() -> None:
    with pytest.raises(
        TraceError, match=r"^spans:2: resourceLogs\[0\].scopeLogs\[0\].logRecords\[0\].traceId: expected"
    ):
        read(WHOLE + b"\n" + logs(log_of(FIRST, "gen_ai.choice", traceId="ab")))


def test_lines_may_be_longer_than_what_tells_the_format() -> None:
    long = file_of(chat(1, 1, {"text": "x" * (HEAD_BYTES + 10)}, at=(0, 1)))

    assert len(read(long + b"\n" + long + b"\n" + long)) == 3


def test_a_file_may_come_through_a_pipe() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    source = Source(Pipe(FORMS["a line each"]), "-")

    assert len(read_spans(source)) == 3
