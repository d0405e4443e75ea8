"""The trace that spans were made of by `spans_of_trace.py`, and nothing else: the same to every field.

Spans of other programs have no trace in their attributes; `is_ours` tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import orjson

from rotoscope.sdk.otlp import conventions as names
from rotoscope.traces.corpus import Member
from rotoscope.traces.errors import TraceError
from rotoscope.traces.model import FORMAT_NAME, FORMAT_VERSION, Call, TraceEvent
from rotoscope.traces.reader import kind_of, loads
from rotoscope.traces.writer import EVENT_TYPES


class ToldEvent(Protocol):
    """An event of a span."""

    @property
    def name(self) -> str: ...
    @property
    def attributes(self) -> Mapping[str, Any]: ...


class ToldSpan(Protocol):
    """A span, however it was read."""

    @property
    def attributes(self) -> Mapping[str, Any]: ...
    @property
    def events(self) -> Sequence[ToldEvent]: ...


def is_ours(spans: Iterable[ToldSpan]) -> bool:
    """Tell whether these spans of one OpenTelemetry trace are those of a trace of ours."""
    return any(span.attributes.get(names.EVENT_TYPE) == names.RUN for span in spans)


def trace_of_spans(spans: Sequence[ToldSpan], *, name: str = "") -> Member:
    """Return the trace of spans that are ours, in any order; `name` is what it is called in its file.

    Raise TraceError where some of them are missing or something was changed in them.
    """
    roots = [span for span in spans if span.attributes.get(names.EVENT_TYPE) == names.RUN]
    if len(roots) != 1:
        raise TraceError(f"expected the spans of one run, found {len(roots)}", path=name)
    [root] = roots
    header = _below(root.attributes, names.TRACE)
    expected = header.pop(names.EVENTS.removeprefix(names.TRACE), None)
    place = {field: header.pop(field, None) for field in ("start_ms", "ranks")}
    shared = [
        _below(event.attributes, f"{names.SHARED_PREFIX}.")
        for event in root.events
        if event.name == names.SHARED_PREFIX
    ]
    events = _events(spans)
    if type(expected) is not int:
        raise TraceError(f"expected an integer, found {kind_of(expected)}", path=name, field=names.EVENTS)
    if len(events) != expected:
        raise TraceError(f"expected {expected} events, found {len(events)}: some of its spans are missing", path=name)
    raw = {"format": {"name": FORMAT_NAME, "version": FORMAT_VERSION}, **header}
    trace = loads(_json(raw | {"shared_prefixes": shared, "events": events}), path=name)
    ranks = place["ranks"]
    return Member(name=name, trace=trace, start_ms=place["start_ms"], ranks=None if ranks is None else tuple(ranks))


def _json(raw: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(raw)
    except TypeError as error:
        raise TraceError("expected attributes that JSON has a form for, found others") from error


def _events(spans: Iterable[ToldSpan]) -> list[dict[str, Any]]:
    """Return the events of a trace as its file has them, in their order."""
    told = [span.attributes for span in spans]
    told += [event.attributes for span in spans for event in span.events]
    by_place = {_place(attributes): attributes for attributes in told if names.EVENT in attributes}
    return [_event(by_place[place]) for place in sorted(by_place)]


def _place(attributes: Mapping[str, Any]) -> int:
    place = attributes[names.EVENT]
    if not isinstance(place, int):
        raise TraceError(f"expected an integer, found {kind_of(place)}", field=names.EVENT)
    return place


def _event(attributes: Mapping[str, Any]) -> dict[str, Any]:
    kind = _KINDS.get(str(attributes.get(names.EVENT_TYPE)))
    if kind is None:
        raise TraceError(f"expected one of {', '.join(_KINDS)}", field=names.EVENT_TYPE)
    fields = _below(attributes, names.OWN)
    del fields["event"]
    fields["event_type"] = EVENT_TYPES[kind]
    if kind is Call:
        fields["role"] = "assistant"
        for prefix in (fields[field] for field in ("prefix", "masked") if field in fields):
            prefix.setdefault("of", None)
    carried = names.CARRIED_BY.get(kind, {})
    return fields | {field: attributes[name] for field, name in carried.items() if name in attributes}


_KINDS: dict[str, type[TraceEvent]] = {name: kind for kind, name in names.EVENT_TYPES.items()}


def _below(attributes: Mapping[str, Any], start: str) -> dict[str, Any]:
    """Return the fields whose paths stand behind `start`, those within others in mappings of their own."""
    fields: dict[str, Any] = {}
    for name, value in attributes.items():
        if name.startswith(start):
            *outer, last = name.removeprefix(start).split(".")
            inner = fields
            for field in outer:
                inner = inner.setdefault(field, {})
                if not isinstance(inner, dict):
                    raise TraceError("expected either a value or fields within", field=name)
            inner[last] = int(value) if last == "of" and isinstance(value, str) and value.isdecimal() else value
    return fields
