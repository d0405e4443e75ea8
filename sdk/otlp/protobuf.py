"""Read spans in protobuf: one message, messages put one behind the other, or each behind its length in four bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rotoscope.sdk.otlp.spans import (
    ERROR_STATUS,
    MOST_NS,
    SPAN_ID_BYTES,
    TRACE_ID_BYTES,
    Attributes,
    Span,
    SpanEvent,
)
from rotoscope.traces.errors import TraceError, UnusableInput

_SPAN = re.compile(rb"\x0a\x10.{16}\x12\x08", re.DOTALL)
"""How a span begins: the lengths of its ids are control characters, which no text holds."""
_LENGTH_BYTES = 4


def is_protobuf(head: bytes) -> bool:
    """Tell whether a file begins like spans in protobuf."""
    begins = head[:1] == b"\x0a" or head[_LENGTH_BYTES : _LENGTH_BYTES + 1] == b"\x0a"
    return begins and _SPAN.search(head) is not None


def messages_in(data: bytes) -> Iterator[Any]:
    """Yield the messages of a file; those without lengths are one, as protobuf's rules say."""
    try:
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
    except ImportError as error:
        raise UnusableInput("to read OTLP as protobuf, install rotoscope with the extra 'otlp'") from error
    for piece in _pieces(data):
        message = TracesData()
        try:
            message.ParseFromString(piece)
        except DecodeError as error:
            raise TraceError("the protobuf message is damaged or cut short") from error
        yield message


def _pieces(data: bytes) -> Iterator[bytes]:
    if data[:1] == b"\x0a":
        yield data
        return
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + _LENGTH_BYTES], "big")
        at += _LENGTH_BYTES
        if at + size > len(data):
            raise TraceError(f"the protobuf message at byte {at} is cut short")
        yield data[at : at + size]
        at += size


def plain_span(span: Any, resource: int, scope: str) -> Span:
    """Return a span of a message; raise TraceError where it has no ids or no time."""
    parent_id = span.parent_span_id if any(span.parent_span_id) else b""
    ids = [(span.trace_id, TRACE_ID_BYTES, "trace_id"), (span.span_id, SPAN_ID_BYTES, "span_id")]
    ids += [(parent_id, SPAN_ID_BYTES, "parent_span_id")] if parent_id else []
    for told, size, name in ids:
        if len(told) != size or not any(told):
            raise TraceError(f"expected an id of {size} bytes that are not all 0", field=name)
    if not 0 < span.start_time_unix_nano <= MOST_NS or span.end_time_unix_nano > MOST_NS:
        raise TraceError("expected nanoseconds since 1970", field=f"span {span.span_id.hex()}: start_time_unix_nano")
    return Span(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=parent_id.hex(),
        name=span.name,
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano or None,
        attributes=plain_attributes(span.attributes),
        events=[SpanEvent(x.name, x.time_unix_nano, plain_attributes(x.attributes)) for x in span.events],
        is_error=span.status.code == ERROR_STATUS,
        has_all=not (span.dropped_attributes_count or span.dropped_events_count),
        scope=scope,
        resource=resource,
    )


def plain_attributes(pairs: Any) -> Attributes:
    """Return attributes as plain values."""
    return {pair.key: _plain_value(pair.value) for pair in pairs}


def _plain_value(value: Any) -> Any:
    match value.WhichOneof("value"):
        case "array_value":
            return [_plain_value(x) for x in value.array_value.values]
        case "kvlist_value":
            return plain_attributes(value.kvlist_value.values)
        case None:
            return None
        case kind:
            return getattr(value, kind)
