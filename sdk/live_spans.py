"""Spans in the tracer provider of the process.

They follow the GenAI conventions that `SCHEMA_URL` names, and hold names and the types of errors: no argument, result or
message. A span is attached only while code of its own runs, and is detached only in the context in which it was attached.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextvars import ContextVar, Token
from typing import NamedTuple

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, TracerProvider, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from rotoscope import __version__
from rotoscope.sdk import conventions as names
from rotoscope.sdk import forks, spans
from rotoscope.sdk.here import TRACEPARENT_VARIABLE
from rotoscope.sdk.spans import counts

Attributes = Mapping[str, str | bool | int | float | tuple[str, ...]]


class _Kind(NamedTuple):
    """What all spans of an operation have in common."""

    attributes: dict[str, str]
    named_by: str = ""


_KINDS = {
    names.INVOKE_AGENT: _Kind({names.OPERATION_NAME: names.INVOKE_AGENT}, names.AGENT_NAME),
    names.EXECUTE_TOOL: _Kind(
        {names.OPERATION_NAME: names.EXECUTE_TOOL, names.TOOL_TYPE: "function"}, named_by=names.TOOL_NAME
    ),
    names.PARALLEL: _Kind({names.EVENT_TYPE: names.PARALLEL}),
    names.BRANCH: _Kind({names.EVENT_TYPE: names.BRANCH}),
}
"""The conventions have no word for the last two."""

_FAILED = Status(StatusCode.ERROR)

_here: ContextVar[object] = ContextVar("rotoscope_span_is_attached_here")
"""Its tokens tell whether the code has come into another context since; OpenTelemetry would log that."""


class LiveSpan:
    """A span that is under way."""

    __slots__ = ("_forks", "_inside", "_span", "_tokens", "context")

    def __init__(self, span: trace.Span, above: Context | None) -> None:
        self._span = span
        self._forks = forks.depth
        self.context = self._inside = set_span_in_context(span, above)
        self._tokens: tuple[Token[object], Token[Context]] | None = None

    def attach(self) -> None:
        try:
            self._tokens = _here.set(self), attach(self._inside)
        except Exception as failure:  # noqa: BLE001 - the agent must not be hurt
            counts.lose(failure)

    def detach(self) -> None:
        if self._tokens is None:
            return
        (here, token), self._tokens = self._tokens, None
        try:
            _here.reset(here)
        except ValueError:
            return
        self._inside = get_current()  # what the code has attached itself and comes back to
        detach(token)

    def tell(self, attributes: Attributes) -> None:
        """Tell more of it."""
        try:
            self._span.set_attributes(attributes)
        except Exception as failure:  # noqa: BLE001 - the agent must not be hurt
            counts.lose(failure)

    def end(self, error: BaseException | None) -> None:
        self.end_with("" if error is None else type(error).__qualname__)

    def end_with(self, error_type: str) -> None:
        """End it; `error_type` is empty where it did not fail."""
        if self._forks != forks.depth:  # it ends in the process that began it
            return
        counts.open -= 1
        try:
            if error_type:
                self._span.set_attribute(names.ERROR_TYPE, error_type)
                self._span.set_status(_FAILED)
            self._span.end()
        except Exception as failure:  # noqa: BLE001 - the agent must not be hurt
            counts.lose(failure)


def begun(operation: str, name: str, parent: spans.Span | None) -> LiveSpan:
    """Begin a span; it may raise what the provider raises."""
    kind = _KINDS[operation]
    attributes = {**kind.attributes, kind.named_by: name} if kind.named_by else kind.attributes
    above = parent.context if isinstance(parent, LiveSpan) else _above_the_process(operation)
    return _begun(f"{operation} {name}" if name else operation, above, SpanKind.INTERNAL, attributes)


def begun_call(operation: str, model: str, attributes: Attributes) -> LiveSpan:
    """Begin the span of a call to a model, below the current one; it may raise what the provider raises."""
    named: Attributes = {names.OPERATION_NAME: operation, **attributes}
    return _begun(f"{operation} {model}" if model else operation, None, SpanKind.CLIENT, named)


def _begun(name: str, above: Context | None, kind: SpanKind, attributes: Attributes) -> LiveSpan:
    span = _tracer().start_span(name, above, kind, attributes)
    counts.begin()
    return LiveSpan(span, above)


def _above_the_process(operation: str) -> Context | None:
    """Return where an agent stands that is inside of no span: below that of the process that began this one."""
    if operation != names.INVOKE_AGENT or trace.get_current_span() is not trace.INVALID_SPAN:
        return None
    traceparent = os.environ.get(TRACEPARENT_VARIABLE)
    return _propagator.extract({"traceparent": traceparent}, get_current()) if traceparent else None


_propagator = TraceContextTextMapPropagator()
_known: tuple[TracerProvider, Tracer] | None = None


def _tracer() -> Tracer:
    """Return our tracer of the provider that there is now."""
    global _known
    provider = trace.get_tracer_provider()
    if _known is None or _known[0] is not provider:
        _known = (provider, provider.get_tracer(names.SCOPE_NAME, __version__, names.SCHEMA_URL))
    return _known[1]
