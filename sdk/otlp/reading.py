"""Read the spans of an OTLP file: JSON or protobuf, one message or many.

JSON is one object, a list of objects, or an object a line, as a collector's file exporter writes; its keys may be in
camel case, as the specification has them, or in snake case, as protobuf's own printers write them. Protobuf itself is
read in `protobuf.py`.

A collector may write log records into the same file of JSON. Those that are events of the GenAI conventions, which hold
what a call said, become events of their spans.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from rotoscope.sdk.otlp import protobuf
from rotoscope.sdk.otlp.spans import (
    ERROR_STATUS,
    MOST_NS,
    SPAN_ID_BYTES,
    TRACE_ID_BYTES,
    Attributes,
    Key,
    Span,
    SpanEvent,
)
from rotoscope.traces.errors import TraceError
from rotoscope.traces.formats.fields import Fields
from rotoscope.traces.formats.source import Source
from rotoscope.traces.reader import kind_of, parse_json

RESOURCE_SPANS = ("resourceSpans", "resource_spans", "batches")
"""What a message has; `batches` is Tempo's word for it."""
_RESOURCE_LOGS = ("resourceLogs", "resource_logs")
_OTHER_SIGNALS = (*_RESOURCE_LOGS, "resourceMetrics", "resource_metrics")
_EVENTS_OF_CALLS = "gen_ai."
_ERROR_CODES = (ERROR_STATUS, str(ERROR_STATUS), "STATUS_CODE_ERROR", "Error", "ERROR")
_DEEPEST_VALUE = 64


def is_json(head: bytes, keys: Iterable[str]) -> bool:
    """Tell whether a file begins like spans in JSON; `keys` are those of its first object."""
    if not set(keys).isdisjoint((*RESOURCE_SPANS, *_OTHER_SIGNALS)):
        return True
    return head.lstrip()[:1] == b"[" and _LIST_OF_MESSAGES.match(head) is not None


_LIST_OF_MESSAGES = re.compile(rb'\s*\[\s*\{\s*"(?:%b)"' % b"|".join(name.encode() for name in RESOURCE_SPANS))


def read_spans(source: Source) -> list[Span]:
    """Return the spans of a file in its order; raise TraceError, with file, line and field, where one is damaged."""
    reader = _Reader()
    try:
        spans = list(reader.of(source))
        return [reader.with_logs(span) for span in spans]
    except TraceError as error:
        raise error.at(source.name) from error.__cause__


@dataclass(slots=True)
class _Reader:
    resources: dict[str, int] = field(default_factory=dict)
    logs: defaultdict[Key, list[SpanEvent]] = field(default_factory=lambda: defaultdict(list))
    """Events that came as log records, by their spans."""

    def of(self, source: Source) -> Iterator[Span]:
        if protobuf.is_protobuf(source.head):
            yield from self._of_protobuf(source.whole())
            return
        for line, value in _documents(source):
            for place, message in _messages(value):
                yield from self._of_message(Fields.of(message, place=place, line=line))

    def _of_message(self, message: Fields) -> Iterator[Span]:
        name = next((name for name in RESOURCE_SPANS if name in message), RESOURCE_SPANS[0])
        for of_resource in _objects(message, name) if name in message else ():
            resource = self._resource(of_resource)
            for of_scope in _objects(of_resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
                scope = of_scope.inner("scope").optional_text("name") if "scope" in of_scope else None
                for one in _objects(of_scope, "spans"):
                    yield _span(one, resource, scope or "")
        for of_resource in _objects(message, *_RESOURCE_LOGS):
            for of_scope in _objects(of_resource, "scopeLogs", "scope_logs"):
                for one in _objects(of_scope, "logRecords", "log_records"):
                    self._take_log(one)

    def _take_log(self, record: Fields) -> None:
        names = [_either(record, *one) for one in (("traceId", "trace_id"), ("spanId", "span_id"))]
        if not all(record.values.get(name) for name in names):
            return
        event = _event_of_log(record)
        if event.name.startswith(_EVENTS_OF_CALLS):
            trace_id, span_id = (_id(record, *one) for one in zip(names, (TRACE_ID_BYTES, SPAN_ID_BYTES), strict=True))
            self.logs[trace_id, span_id].append(event)

    def with_logs(self, span: Span) -> Span:
        """Return a span with the events of it that came as log records."""
        logs = self.logs.get(span.key)
        return span if logs is None else replace(span, events=[*span.events, *sorted(logs, key=lambda x: x.at_ns)])

    def _resource(self, of_resource: Fields) -> int:
        attributes = _attributes(of_resource.inner("resource")) if "resource" in of_resource else {}
        return self._number_of(attributes)

    def _number_of(self, resource: Attributes) -> int:
        return self.resources.setdefault(repr(sorted(resource.items(), key=lambda item: item[0])), len(self.resources))

    def _of_protobuf(self, data: bytes) -> Iterator[Span]:
        for message in protobuf.messages_in(data):
            for of_resource in message.resource_spans:
                resource = self._number_of(protobuf.plain_attributes(of_resource.resource.attributes))
                for of_scope in of_resource.scope_spans:
                    for span in of_scope.spans:
                        yield protobuf.plain_span(span, resource, of_scope.scope.name)


def _documents(source: Source) -> Iterator[tuple[int | None, Any]]:
    """Yield the JSON values of a file with their lines: the whole file where it is one, else one a line."""
    data = source.whole().strip()
    try:
        yield (None if b"\n" in data else 1), orjson.loads(data)
        return
    except orjson.JSONDecodeError:
        pass
    try:
        parse_json(data.partition(b"\n")[0])
    except TraceError:
        yield None, parse_json(data)
    else:
        yield from Source.of_bytes(data).lines()


def _messages(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the messages of a JSON value, each with its place."""
    if isinstance(value, list):
        yield from ((f"[{index}]", item) for index, item in enumerate(value))
    else:
        yield "", value


def _objects(fields: Fields, *names: str) -> Iterator[Fields]:
    """Yield the objects of a list, under the first of these names that is there."""
    name = next((name for name in names if name in fields), None)
    if name is None:
        return
    for index, item in enumerate(fields.items(name)):
        place = f"{fields.place}.{name}[{index}]" if fields.place else f"{name}[{index}]"
        yield Fields.of(item, place=place, line=fields.line)


def _either(fields: Fields, camel: str, snake: str) -> str:
    """Return the name of two that a field has."""
    return snake if snake in fields and camel not in fields else camel


def _span(fields: Fields, resource: int, scope: str) -> Span:
    status = fields.inner("status") if "status" in fields else None
    left_out = (("droppedAttributesCount", "dropped_attributes_count"), ("droppedEventsCount", "dropped_events_count"))
    parent = _either(fields, "parentSpanId", "parent_span_id")
    return Span(
        trace_id=_id(fields, _either(fields, "traceId", "trace_id"), TRACE_ID_BYTES),
        span_id=_id(fields, _either(fields, "spanId", "span_id"), SPAN_ID_BYTES),
        parent_id="" if _is_root(fields.values.get(parent)) else _id(fields, parent, SPAN_ID_BYTES),
        name=fields.optional_text("name") or "",
        start_ns=_nanoseconds(fields, _either(fields, "startTimeUnixNano", "start_time_unix_nano")),
        end_ns=_nanoseconds(fields, _either(fields, "endTimeUnixNano", "end_time_unix_nano"), least=0) or None,
        attributes=_attributes(fields),
        events=[_event(event) for event in _objects(fields, "events")],
        is_error=status is not None and status.values.get("code") in _ERROR_CODES,
        has_all=not any(_integer(fields, name) for names in left_out for name in names if name in fields),
        scope=scope,
        resource=resource,
        line=fields.line,
    )


def _event(fields: Fields) -> SpanEvent:
    at = _either(fields, "timeUnixNano", "time_unix_nano")
    return SpanEvent(fields.optional_text("name") or "", _nanoseconds(fields, at, least=0), _attributes(fields))


def _event_of_log(record: Fields) -> SpanEvent:
    """Return a log record as an event; one of which the exporter left something out has no attributes."""
    attributes = dict(_attributes(record))
    told = record.optional_text(_either(record, "eventName", "event_name")) or attributes.get("event.name")
    at_ns = _nanoseconds(record, _either(record, "timeUnixNano", "time_unix_nano"), least=0)
    if "body" in record:
        attributes["body"] = _value(record.inner("body"), 0)
    dropped = _either(record, "droppedAttributesCount", "dropped_attributes_count")
    if dropped in record and _integer(record, dropped):
        attributes = {}
    return SpanEvent(told if isinstance(told, str) else "", at_ns, attributes)


def _is_root(parent: Any) -> bool:
    return not parent or (isinstance(parent, str) and not parent.strip("0"))


def _id(fields: Fields, name: str, size: int) -> str:
    """Return an id as hexadecimal digits; it stands so in the file, or in base64."""
    text = fields.text(name)
    if len(text) == 2 * size and re.fullmatch("[0-9a-fA-F]+", text):
        data = bytes.fromhex(text)
    else:
        try:
            data = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            data = b""
    if len(data) != size or not any(data):
        raise fields.error(name, f"expected an id of {size} bytes that are not all 0, in hexadecimal digits or base64")
    return data.hex()


def _nanoseconds(fields: Fields, name: str, *, least: int = 1) -> int:
    at = _integer(fields, name) if name in fields or least else 0
    if not least <= at <= MOST_NS:
        raise fields.error(name, "expected nanoseconds since 1970")
    return at


def _integer(fields: Fields, name: str) -> int:
    """Return an integer, which may stand as a string of digits."""
    value = fields.get(name)
    if isinstance(value, str) and re.fullmatch("-?[0-9]{1,19}", value):
        return int(value)
    if type(value) is not int:
        raise fields.error(name, f"expected an integer, found {kind_of(value)}")
    return value


def _attributes(fields: Fields) -> Attributes:
    found: dict[str, Any] = {}
    for one in _objects(fields, "attributes"):
        found[_text(one, "key")] = _value(one.inner("value"), 0) if "value" in one else None
    return found


def _value(fields: Fields, depth: int) -> Any:
    """Return the value that an object of one key holds; the key names its kind."""
    if depth > _DEEPEST_VALUE:
        raise fields.error("value", "nested too deeply")
    for name in fields.values:
        match name.replace("_", "").lower():
            case "stringvalue":
                return _text(fields, name) if name in fields else ""
            case "boolvalue" if isinstance(fields.values[name], bool):
                return fields.values[name]
            case "intvalue":
                return _integer(fields, name)
            case "doublevalue":
                return _double(fields, name)
            case "arrayvalue":
                return [_value(one, depth + 1) for one in _objects(fields.inner(name), "values")]
            case "kvlistvalue":
                pairs = _objects(fields.inner(name), "values")
                return {
                    _text(one, "key"): _value(one.inner("value"), depth + 1) if "value" in one else None
                    for one in pairs
                }
            case "bytesvalue":
                return b""
            case _:
                raise TraceError("expected a value of a kind that OTLP has", line=fields.line, field=fields.place)
    return None


def _text(fields: Fields, name: str) -> str:
    """Return a string; halves of characters, which JSON may hold, become question marks as nothing else can."""
    return fields.text(name).encode(errors="replace").decode()


def _double(fields: Fields, name: str) -> float:
    value = fields.get(name)
    if type(value) in (int, float):
        return float(value)
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    raise fields.error(name, f"expected a number, found {kind_of(value)}")
