"""The spans of a run that was recorded from outside: one for each thing in its trace that took time.

The run is the root, an agent. Each region is a span below the agent of the branch that it stands on, and each of its
branches on which something happened an agent below it; calls, embeddings, tools and waits are below the agent of their
branch. What takes no time is an event: a message of the call that it was sent with, a join of its region.

Every field of every event is in an attribute (`conventions.py`), so that the trace can be made of its spans again.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from rotoscope.sdk.otlp import conventions as names
from rotoscope.sdk.otlp.attributes import (
    FAILED,
    Attributes,
    event_attributes,
    header_attributes,
    shared_prefix_attributes,
)
from rotoscope.sdk.otlp.placing import Extent, Places, Timed
from rotoscope.sdk.otlp.spans import SPAN_ID_BYTES, TRACE_ID_BYTES
from rotoscope.traces.model import (
    Branch,
    Call,
    DropKvCache,
    Embedding,
    Message,
    ParallelEnd,
    ParallelStart,
    ToolCall,
    Trace,
    TraceEvent,
    Wait,
)

ROOT_NAME = "root"
_JOIN = names.OWN + names.EVENT_TYPES[ParallelEnd]
_WAIT_KIND = names.attribute_of(Wait, "kind")
_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanEvent:
    """Something that happened during a span and took no time."""

    name: str
    at_ns: int
    """From the beginning of the trace."""
    attributes: Attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A span as OpenTelemetry has it, but for times, which are from the beginning of the trace."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes | None
    name: str
    kind: Literal["internal", "client"] = "internal"
    start_ns: int
    end_ns: int
    attributes: Attributes
    events: tuple[SpanEvent, ...] = ()
    is_error: bool = False


def spans_of(trace: Trace, *, header: Attributes | None = None, salt: str = "") -> list[Span]:
    """Return the spans of a valid trace, each behind its parent; the same trace gives the same spans.

    `header` are further attributes of the root. Ids follow from the trace's and from `salt`.
    """
    making = _Making(trace, Places.of(trace), f"{trace.trace_id} {salt}")
    return list(making.spans(header or {}))


def lasts_ns(trace: Trace) -> int:
    """Return when the root of a trace's spans ends, from its beginning."""
    return _ns(Places.of(trace).branches[None].end_ms)


@dataclass(slots=True)
class _Making:
    trace: Trace
    places: Places
    key: str
    moments: defaultdict[str, list[tuple[str, Attributes]]] = field(default_factory=lambda: defaultdict(list))
    """Events of spans, with their names, by what they are events of."""

    def spans(self, header: Attributes) -> Iterator[Span]:
        self._find_moments()
        yield self._run(header)
        entered: set[Branch] = set()
        for index, event in enumerate(self.trace.events):
            if event.branch is not None and event.branch not in entered:
                entered.add(event.branch)
                yield self._branch(event.branch)
            match event:
                case Call() | Embedding() | ToolCall() | Wait():
                    yield self._timed(index, event)
                case ParallelStart():
                    yield self._region(index, event)

    def _find_moments(self) -> None:
        """Find what takes no time: what comes before a call is of that call, what comes before none of its branch."""
        waiting: defaultdict[Branch | None, list[tuple[str, Attributes]]] = defaultdict(list)
        for index, event in enumerate(self.trace.events):
            match event:
                case Message() | DropKvCache():
                    waiting[event.branch].append(self._moment(index, event))
                case ParallelEnd():
                    self.moments[_region_key(event.region)].append(self._moment(index, event))
                case Call():
                    self.moments[_event_key(index)] = waiting.pop(event.branch, [])
        for branch, moments in waiting.items():
            self.moments[_agent_key(branch)] += moments

    def _moment(self, index: int, event: TraceEvent) -> tuple[str, Attributes]:
        return names.OWN + names.EVENT_TYPES[type(event)], self._attributes(index, event)

    def _attributes(self, index: int, event: TraceEvent) -> Attributes:
        return event_attributes(index, event, trace_id=self.trace.trace_id)

    def _run(self, header: Attributes) -> Span:
        shared = [(names.SHARED_PREFIX, shared_prefix_attributes(prefix)) for prefix in self.trace.shared_prefixes]
        self.moments[_agent_key(None)][:0] = shared
        attributes = _agent(ROOT_NAME) | {names.EVENT_TYPE: names.RUN} | header_attributes(self.trace) | header
        return self._span(_agent_key(None), None, self.places.branches[None], attributes)

    def _branch(self, branch: Branch) -> Span:
        region, child = branch
        attributes = _agent(f"{region}.{child}") | {names.EVENT_TYPE: names.BRANCH, f"{names.OWN}branch": branch}
        return self._span(_agent_key(branch), _region_key(region), self.places.branches[branch], attributes)

    def _region(self, index: int, event: ParallelStart) -> Span:
        extent = self.places.regions[event.region]
        return self._span(_region_key(event.region), _agent_key(event.branch), extent, self._attributes(index, event))

    def _timed(self, index: int, event: Timed) -> Span:
        attributes = self._attributes(index, event)
        span = self._span(_event_key(index), _agent_key(event.branch), self.places.events[index], attributes)
        if isinstance(event, Call | Embedding):
            span = replace(span, kind="client")
        return replace(span, is_error=isinstance(event, Call) and event.finish_reason in FAILED)

    def _span(self, key: str, parent: str | None, extent: Extent, attributes: Attributes) -> Span:
        start_ns, end_ns = _ns(extent.start_ms), _ns(extent.end_ms)
        return Span(
            trace_id=_digest(self.key, TRACE_ID_BYTES),
            span_id=self._id(key),
            parent_id=None if parent is None else self._id(parent),
            name=_name(attributes),
            start_ns=start_ns,
            end_ns=end_ns,
            attributes=attributes,
            events=tuple(
                SpanEvent(name=name, at_ns=end_ns if name == _JOIN else start_ns, attributes=told)
                for name, told in self.moments[key]
            ),
        )

    def _id(self, key: str) -> bytes:
        return _digest(f"{self.key} {key}", SPAN_ID_BYTES)


def _agent(name: str) -> Attributes:
    return {names.OPERATION_NAME: names.INVOKE_AGENT, names.AGENT_NAME: name}


def _name(attributes: Attributes) -> str:
    """Return the name that the conventions give a span, or one of ours."""
    first = attributes.get(names.OPERATION_NAME, attributes[names.EVENT_TYPE])
    which = (names.AGENT_NAME, names.REQUEST_MODEL, names.TOOL_NAME, _WAIT_KIND)
    return " ".join(str(word) for word in (first, *(attributes[name] for name in which if name in attributes)))


def _agent_key(branch: Branch | None) -> str:
    return "root" if branch is None else f"branch {branch[0]}.{branch[1]}"


def _region_key(region: int) -> str:
    return f"region {region}"


def _event_key(index: int) -> str:
    return f"event {index}"


def _digest(key: str, size: int) -> bytes:
    """Return an id, which must not be all zeros."""
    digest = hashlib.sha256(key.encode()).digest()[:size]
    return bytes([*digest[:-1], digest[-1] | 1])


def _ns(ms: float) -> int:
    return round(ms * _NS_PER_MS)
