"""Spans in the tracer provider of the process.

They follow the GenAI conventions that `SCHEMA_URL` names, and hold names and the types of errors: no argument, result or
message. A span is attached only while code of its own runs, and is detached only in the context in which it was attached.
"""

from __future__ import annotations

from contextvars import ContextVar, Token

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach, get_current
from opentelemetry.trace import Status, StatusCode, Tracer, TracerProvider, set_span_in_context

from rotoscope import __version__
from rotoscope.sdk import spans
from rotoscope.sdk.spans import counts

SCHEMA_URL = "https://opentelemetry.io/schemas/gen-ai/0.1.0"

_NAMED_BY = {"invoke_agent": "gen_ai.agent.name", "execute_tool": "gen_ai.tool.name"}
_FAILED = Status(StatusCode.ERROR)

_here: ContextVar[object] = ContextVar("rotoscope_span_is_attached_here")
"""Its tokens tell whether the code has come into another context since; OpenTelemetry would log that."""


class LiveSpan:
    """A span that is under way."""

    __slots__ = ("_inside", "_span", "_tokens", "context")

    def __init__(self, span: trace.Span, above: Context | None) -> None:
        self._span = span
        self.context = self._inside = set_span_in_context(span, above)
        self._tokens: tuple[Token[object], Token[Context]] | None = None

    def attach(self) -> None:
        self._tokens = _here.set(self), attach(self._inside)

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

    def end(self, error: BaseException | None) -> None:
        counts.open -= 1
        try:
            if error is not None:
                self._span.set_attribute("error.type", type(error).__qualname__)
                self._span.set_status(_FAILED)
            self._span.end()
        except Exception as failure:  # noqa: BLE001 - the agent must not be hurt
            counts.lose(failure)


def begun(operation: str, name: str, parent: spans.Span | None) -> LiveSpan:
    """Begin a span; it may raise what the provider raises."""
    above = parent.context if isinstance(parent, LiveSpan) else None
    attributes = {"gen_ai.operation.name": operation, _NAMED_BY[operation]: name} if operation in _NAMED_BY else None
    span = _tracer().start_span(f"{operation} {name}" if name else operation, above, attributes=attributes)
    counts.open += 1
    return LiveSpan(span, above)


_known: tuple[TracerProvider, Tracer] | None = None


def _tracer() -> Tracer:
    """Return our tracer of the provider that there is now."""
    global _known
    provider = trace.get_tracer_provider()
    if _known is None or _known[0] is not provider:
        _known = (provider, provider.get_tracer("rotoscope", __version__, SCHEMA_URL))
    return _known[1]
