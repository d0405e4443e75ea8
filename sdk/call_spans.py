"""Spans of calls to models, as the HTTP clients of this process make them: model, usage, times, and never what is said.

A call gets none where the client's own instrumentation has one for it already, where OpenTelemetry is told to be silent,
and where `ROTOSCOPE_CALL_SPANS` says no. Each try of a client that tries again is a call of its own. Bodies are read by
the recorder's own readers, and none of their text outlives the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rotoscope.recorder.dialects.answer import Dialect
from rotoscope.recorder.dialects.domain import model_of
from rotoscope.recorder.dialects.registry import dialect_of
from rotoscope.recorder.dialects.request import NotACall
from rotoscope.recorder.dialects.request import Request as Asked
from rotoscope.recorder.dialects.stream_options import with_usage
from rotoscope.recorder.encodings import Undecodable, decoded
from rotoscope.sdk import conventions as names
from rotoscope.sdk.heard_answers import HeardAnswer
from rotoscope.sdk.outgoing import Listener, Outgoing, Request
from rotoscope.sdk.scopes import clock
from rotoscope.sdk.spans import counts
from rotoscope.traces.journal import DialectName

if TYPE_CHECKING:
    from rotoscope.sdk.live_spans import LiveSpan

_OPERATIONS: dict[DialectName, str] = {"completions": names.TEXT_COMPLETION, "gemini": names.GENERATE_CONTENT}
_PROVIDERS: dict[DialectName, str] = {"messages": "anthropic", "gemini": "gcp.gen_ai"}
"""By the interface; who it is that speaks it cannot be known."""
_INFERENCE = (names.CHAT, names.TEXT_COMPLETION, names.GENERATE_CONTENT)
_SILENCE = ("suppress_instrumentation", "suppress_language_model_instrumentation")
"""Keys by which a context says that there are to be no spans."""


def heard_with_span(request: Request, listener: Listener | None, refusing: set[str] | None) -> Outgoing | None:
    """Let a listener hear a request, and make a span of it if it is a call that has none.

    `refusing` are the places that refuse to be asked for the usage of response streams; None where none is to be asked.
    """
    call = _begun(request)
    if call is None:
        return None if listener is None else listener(request)
    span, asked, dialect = call
    heard = None
    if listener is not None:
        span.attach()
        try:
            heard = listener(request)
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            counts.lose(error)
        span.detach()
    return CallSpan(request, span, asked, dialect, heard=heard, refusing=refusing)


class CallSpan:
    """A request with a span, and what else hears it."""

    def __init__(
        self,
        request: Request,
        span: LiveSpan,
        asked: Asked,
        dialect: Dialect,
        *,
        heard: Outgoing | None,
        refusing: set[str] | None,
    ) -> None:
        self.listens = True
        self._span, self._heard, self._start_s = span, heard, clock()
        self._first_s: float | None = None
        self._is_stream = asked.is_stream
        self._is_over = False
        self.headers: Mapping[str, str] = {} if heard is None else heard.headers
        self._came = self.body = request.body if heard is None else heard.body
        self._place, self._refusing, self._is_taken_back = request.url, refusing, False
        is_as_it_came = self.body is request.body and "content-encoding" not in request.headers
        if asked.is_without_usage and is_as_it_came and refusing is not None and request.url not in refusing:
            self.body = with_usage(request.body, has_stream_options=asked.has_stream_options)
        self._answer = HeardAnswer(dialect, asked, withholds=self.body is not self._came)

    def __repr__(self) -> str:
        return "CallSpan()"

    def take_back(self) -> None:
        """Send it as it came, to the span's own question for usage and the other listener's alike."""
        self._is_taken_back = self.body is not self._came
        self.body = self._came
        self._answer.withhold_nothing()
        if self._heard is not None:
            self._heard.take_back()

    def response(self, status: int, content_type: str) -> None:
        """Tell that the answer begins."""
        self._answer.response(status, content_type)
        if self._is_taken_back and status < 400 and self._refusing is not None:
            self._refusing.add(self._place)
        if self._heard is not None:
            self._heard.response(status, content_type)

    def chunk(self, data: bytes) -> bytes:
        """Take in some of the answer and return what the client is to get of it now."""
        if self._first_s is None:
            self._first_s = clock()
        kept = self._answer.chunk(data)
        return kept if self._heard is None else self._heard.chunk(kept)

    def end(self) -> bytes:
        """Tell that the answer is whole and return what was still held back."""
        kept = self._answer.end()
        self._end("")
        if self._heard is None:
            return kept
        return (self._heard.chunk(kept) if kept else b"") + self._heard.end()

    def failed(self) -> None:
        """Tell that no more will come."""
        self._end("connection_error")
        if self._heard is not None:
            self._heard.failed()

    def cancelled(self) -> None:
        """Tell that the client does not wait for the rest: what has come of the answer is told."""
        self._end("")
        if self._heard is not None:
            self._heard.cancelled()

    def _end(self, error_type: str) -> None:
        if self._is_over:
            return
        self._is_over = True
        try:
            self._span.tell(self._told())
            self._span.end_with(self._answer.error_type or error_type)
        except Exception as failure:  # noqa: BLE001 - the agent must not be hurt
            counts.lose(failure)
        self._answer.forget()

    def _told(self) -> dict[str, str | bool | int | float | tuple[str, ...]]:
        usage = self._answer.usage
        numbers = {
            names.INPUT_TOKENS: usage.prompt_tokens,
            names.OUTPUT_TOKENS: usage.completion_tokens,
            names.CACHE_READ_TOKENS: usage.cached_tokens,
            names.REASONING_TOKENS: usage.reasoning_tokens,
            names.TIME_TO_FIRST_CHUNK: self._first_s - self._start_s if self._is_stream and self._first_s else None,
            names.FINISH_REASONS: self._answer.finish_reasons or None,
        }
        return {name: value for name, value in numbers.items() if value is not None}


def _begun(request: Request) -> tuple[LiveSpan, Asked, Dialect] | None:
    """Begin the span of a request; None where it is no call, or is to have no span. Never raises."""
    path = request.url.partition("?")[0].rstrip("/")
    dialect = dialect_of(path)
    if dialect is None:
        return None
    try:
        if not _is_ours():
            return None
        body = decoded(request.body, request.headers.get("content-encoding", "").strip().lower())
        asked = dialect.read(path, body)
        return _span(path, asked, dialect), asked, dialect
    except (NotACall, Undecodable):
        return None
    except Exception as error:  # noqa: BLE001 - the agent must not be hurt
        counts.lose(error)
        return None


def _span(path: str, asked: Asked, dialect: Dialect) -> LiveSpan:
    from rotoscope.sdk.live_spans import begun_call

    named = model_of(path, asked.body)
    model = named if isinstance(named, str) else ""
    attributes: dict[str, str | bool] = {names.PROVIDER_NAME: _PROVIDERS.get(dialect.name, "openai")}
    if model:
        attributes[names.REQUEST_MODEL] = model
    if asked.is_stream:
        attributes[names.REQUEST_STREAM] = True
    return begun_call(_OPERATIONS.get(dialect.name, names.CHAT), model, attributes)


def _is_ours() -> bool:
    """Tell whether nobody else has made a span of this call, or has forbidden any."""
    from opentelemetry import trace
    from opentelemetry.context import get_value

    if any(get_value(key) for key in _SILENCE):
        return False
    told = getattr(trace.get_current_span(), "attributes", None) or {}
    is_inference = told.get(names.OPERATION_NAME) in _INFERENCE or told.get("llm.request.type") is not None
    return not is_inference and told.get("openinference.span.kind") != "LLM"
