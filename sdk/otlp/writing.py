"""Write the spans of traces as OTLP: lines of JSON, or protobuf that may be sent as it is.

A line is one `TracesData`, as the file exporter of OpenTelemetry writes it, with at most `MOST_SPANS` spans: receivers
refuse requests that are too large. Protobuf is one `TracesData` for all traces, in pieces, as a message is that is cut
between its fields. A request to export traces, `ExportTraceServiceRequest`, has the same fields as `TracesData`.
"""

from __future__ import annotations

from base64 import b64decode
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import orjson

from rotoscope import __version__
from rotoscope.sdk.otlp import conventions as names
from rotoscope.sdk.otlp.attributes import Attributes, Value
from rotoscope.sdk.otlp.spans_of_trace import Span, lasts_ns, spans_of
from rotoscope.traces.corpus import Member
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.model import (
    Call,
    DropKvCache,
    Embedding,
    Message,
    ParallelEnd,
    ToolCall,
    Trace,
    Wait,
)

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1 import common_pb2
    from opentelemetry.proto.trace.v1 import trace_pb2

MOST_SPANS = 1000
"""In one line, which is about a megabyte."""
SERVICE = "rotoscope"
_NS_PER_MS = 1_000_000
_IDS = ("traceId", "spanId", "parentSpanId")
_SAMPLED = 1

EVENTS = Aspect("calls, tools, waits, branches and all that is known of them", "kept", "as spans", unit="events")
MOMENTS = Aspect("messages, joins and dropped caches", "kept", "as events of spans", unit="events")
SHARED = Aspect("shared prefixes", "kept", "as events of the root span", unit="shared prefixes")
PLACED = Aspect("times", "approximated", "a span has one; what has none begins where its branch stands", unit="events")
EPOCH = Aspect("when runs were", "approximated", "a trace does not say: they end now, or began as asked", unit="traces")
WRITE_ASPECTS = (EVENTS, MOMENTS, SHARED, PLACED, EPOCH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Where the zero of traces is put in time, in nanoseconds since 1970."""

    now_ns: int
    """When the last of them ends, where nothing else is asked for."""
    started_ns: int | None = None
    """When the first of them began."""

    def zero_ns(self, members: Sequence[Member]) -> int:
        """Return the zero that the traces have in common."""
        if self.started_ns is not None:
            return self.started_ns
        ends_ns = (_start_ns(member) + lasts_ns(member.trace) for member in members)
        return max(self.now_ns - max(ends_ns, default=0), 1)  # a span at 0 is not valid


def json_lines(members: Sequence[Member], fidelity: Fidelity, clock: Clock) -> Iterator[bytes]:
    """Return lines of JSON. Raise UnusableInput where the library for it is missing."""
    _require_library()
    return (as_json_line(data) for data in messages(members, fidelity, clock))


def protobuf(members: Sequence[Member], fidelity: Fidelity, clock: Clock) -> Iterator[bytes]:
    """Return a message in pieces; the rest is as with `json_lines`."""
    _require_library()
    return (as_protobuf(data) for data in messages(members, fidelity, clock))


def as_protobuf(data: trace_pb2.TracesData) -> bytes:
    """Return a message as it is sent."""
    encoded: bytes = data.SerializeToString(deterministic=True)
    return encoded


def as_json_line(data: trace_pb2.TracesData) -> bytes:
    """Return a message as a line of JSON, where ids are hexadecimal digits and not, as in protobuf's own, base64."""
    from google.protobuf.json_format import MessageToDict

    fields: dict[str, Any] = MessageToDict(data, use_integers_for_enums=True)
    for resource in fields["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                span.update({name: b64decode(span[name]).hex() for name in _IDS if name in span})
    return orjson.dumps(fields) + b"\n"


def messages(members: Sequence[Member], fidelity: Fidelity, clock: Clock) -> Iterator[trace_pb2.TracesData]:
    """Yield the spans of traces as messages of at most `MOST_SPANS`, and note what is kept."""
    zero_ns = clock.zero_ns(members)
    seen: Counter[str] = Counter()
    for member in members:
        trace = member.trace
        note(trace, fidelity)
        spans = spans_of(trace, header=_place(member), salt=str(seen[trace.trace_id] or ""))
        seen[trace.trace_id] += 1
        start_ns = zero_ns + _start_ns(member)
        for first in range(0, len(spans), MOST_SPANS):
            yield _message(spans[first : first + MOST_SPANS], start_ns)


def note(trace: Trace, fidelity: Fidelity) -> None:
    """Note what is kept of a trace."""
    timed = [event for event in trace.events if isinstance(event, Call | Embedding | ToolCall | Wait)]
    moments = sum(isinstance(event, Message | ParallelEnd | DropKvCache) for event in trace.events)
    fidelity.note(EVENTS, len(trace.events) - moments)
    fidelity.note(MOMENTS, moments)
    fidelity.note(SHARED, len(trace.shared_prefixes))
    fidelity.note(PLACED, sum(event.at_ms is None or event.duration_ms is None for event in timed))
    fidelity.note(EPOCH)


def _place(member: Member) -> Attributes:
    """Return what its corpus says of a trace."""
    place: Attributes = {}
    if member.start_ms is not None:
        place[names.START_MS] = member.start_ms
    if member.ranks is not None:
        place[names.RANKS] = member.ranks
    return place


def _start_ns(member: Member) -> int:
    return round((member.start_ms or 0.0) * _NS_PER_MS)


def _message(spans: Sequence[Span], zero_ns: int) -> trace_pb2.TracesData:
    from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource
    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, TracesData

    scope = InstrumentationScope(name=names.SCOPE_NAME, version=__version__)
    written = ScopeSpans(scope=scope, spans=[_span(span, zero_ns) for span in spans], schema_url=names.SCHEMA_URL)
    resource = Resource(attributes=_key_values({names.SERVICE_NAME: SERVICE}))
    return TracesData(resource_spans=[ResourceSpans(resource=resource, scope_spans=[written])])


def _span(span: Span, zero_ns: int) -> trace_pb2.Span:
    from opentelemetry.proto.trace.v1 import trace_pb2

    kinds = {"internal": trace_pb2.Span.SPAN_KIND_INTERNAL, "client": trace_pb2.Span.SPAN_KIND_CLIENT}
    written = trace_pb2.Span(
        trace_id=span.trace_id,
        span_id=span.span_id,
        parent_span_id=span.parent_id or b"",
        flags=_SAMPLED,
        name=span.name,
        kind=kinds[span.kind],
        start_time_unix_nano=zero_ns + span.start_ns,
        end_time_unix_nano=zero_ns + span.end_ns,
        attributes=_key_values(span.attributes),
        events=[
            trace_pb2.Span.Event(
                time_unix_nano=zero_ns + event.at_ns, name=event.name, attributes=_key_values(event.attributes)
            )
            for event in span.events
        ],
    )
    if span.is_error:
        written.status.code = trace_pb2.Status.STATUS_CODE_ERROR
    return written


def _key_values(attributes: Attributes) -> list[common_pb2.KeyValue]:
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue

    return [KeyValue(key=name, value=_any_value(value)) for name, value in attributes.items()]


def _any_value(value: Value) -> common_pb2.AnyValue:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue

    match value:
        case bool():  # before int, which it is one of
            return AnyValue(bool_value=value)
        case int():
            return AnyValue(int_value=value)
        case float():
            return AnyValue(double_value=value)
        case str():
            return AnyValue(string_value=value)
        case tuple():
            return AnyValue(array_value=ArrayValue(values=[_any_value(item) for item in value]))


def _require_library() -> None:
    if find_spec("opentelemetry.proto") is None:
        raise UnusableInput("OTLP is written with opentelemetry-proto, which is missing: pip install 'rotoscope[otlp]'")
