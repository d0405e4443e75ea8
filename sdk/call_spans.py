"""Spans of calls to models, as the HTTP clients of this process make them: model, usage, times, and never what is said.

A call gets none where the client's own instrumentation has one for it already, where OpenTelemetry is told to be silent,
and where `ROTOSCOPE_CALL_SPANS` says no. Each try of a client that tries again is a call of its own. Bodies are read by
the recorder's own readers, and none of their text outlives the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rotoscope.recorder.dialects.answer import Dialect
from rotoscope.recorder.dialects.domain import model_of
from rotoscope.recorder.dialects.embeddings import embedded_bytes, is_embedding
from rotoscope.recorder.dialects.registry import dialect_of
from rotoscope.recorder.dialects.request import NotACall
from rotoscope.recorder.dialects.request import Request as Asked
from rotoscope.recorder.dialects.stream_options import with_usage
from rotoscope.recorder.encodings import Undecodable, decoded
from rotoscope.sdk import conventions as names
from rotoscope.sdk.heard_answers import HeardAnswer, HeardEmbedding
from rotoscope.sdk.outgoing import Listener, Outgoing, Request
from rotoscope.sdk.scopes import clock
from rotoscope.sdk.spans import counts
from rotoscope.traces.journal import DialectName

if TYPE_CHECKING:
    from rotoscope.sdk.live_spans import LiveSpan

_OPERATIONS: dict[DialectName, str] = {"completions": names.TEXT_COMPLETION, "gemini": names.GENERATE_CONTENT}
_PROVIDERS: dict[DialectName, str] = {"messages": "anthropic", "gemini": "gcp.gen_ai"}
"""By the interface; who it is that speaks it cannot be known."""
_TOLD = {
    names.OPERATION_NAME: (
        *(names.CHAT, names.TEXT_COMPLETION, names.GENERATE_CONTENT, names.EMBEDDINGS),
        *("chat.completions", "chat.streaming_completions", "text.completions", "text.streaming_completions"),
    ),
    "openinference.span.kind": ("LLM", "EMBEDDING"),
    "langfuse.observation.type": ("generation", "embedding"),
}
"""By which words spans of others say that they are of calls; the longer ones are Semantic Kernel's."""
_SILENCE = ("suppress_instrumentation", "suppress_language_model_instrumentation")
"""Keys by which a context says that there are to be no spans."""


def heard_with_span(request: Request, listener: Listener | None, refusing: set[str] | None) -> Outgoing | None:
    """Let a listener hear a request, and make a span of it if it is a call that has none.

    `refusing` are the places that refuse to be asked for the usage of response streams; None where none is to be asked.
    """
    begun = _begun(request)
    if begun is None:
        return None if listener is None else listener(request)
    call, span = begun
    heard = None
    if listener is not None:
        span.attach()
        try:
            heard = listener(request)
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            counts.lose(error)
        span.detach()
    return CallSpan(request, call, span, heard=heard, refusing=refusing)


@dataclass(frozen=True, slots=True)
class _Call:
    """What a request asks for."""

    operation: str
    provider: str
    model: str
    dialect: Dialect | None = None
    """None for embeddings, which no dialect is for."""
    asked: Asked | None = field(default=None, repr=False)
    """What the dialect reads in it. It holds text, and is dropped when the call has begun."""

    def answer(self, *, withholds: bool) -> HeardAnswer | HeardEmbedding:
        if self.dialect is None or self.asked is None:
            return HeardEmbedding()
        return HeardAnswer(self.dialect, self.asked, withholds=withholds)


class CallSpan:
    """A request with a span, and what else hears it."""

    def __init__(
        self,
        request: Request,
        call: _Call,
        span: LiveSpan,
        *,
        heard: Outgoing | None,
        refusing: set[str] | None,
    ) -> None:
        self.listens = True
        self._span, self._heard, self._start_s = span, heard, clock()
        self._first_s: float | None = None
        asked = call.asked
        self._is_stream = asked is not None and asked.is_stream
        self._is_over = False
        self.headers: Mapping[str, str] = {} if heard is None else heard.headers
        self._came = self.body = request.body if heard is None else heard.body
        self._place, self._refusing, self._is_taken_back = request.url, refusing, False
        if asked is not None and self._may_ask(request, asked):
            self.body = with_usage(request.body, has_stream_options=asked.has_stream_options)
        self._answer = call.answer(withholds=self.body is not self._came)

    def _may_ask(self, request: Request, asked: Asked) -> bool:
        """Tell whether the usage of a response stream is asked for by nobody, and may be asked for here."""
        is_as_it_came = self.body is request.body and "content-encoding" not in request.headers
        is_allowed = self._refusing is not None and request.url not in self._refusing
        return asked.is_without_usage and is_as_it_came and is_allowed

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


def _begun(request: Request) -> tuple[_Call, LiveSpan] | None:
    """Begin the span of a request; None where it is no call, or is to have no span. Never raises."""
    path = request.url.partition("?")[0].rstrip("/")
    dialect = dialect_of(path)
    if dialect is None and not is_embedding(path):
        return None
    try:
        if not _is_ours():
            return None
        body = decoded(request.body, request.headers.get("content-encoding", "").strip().lower())
        call = _embedding(path, body) if dialect is None else _call(path, body, dialect)
        return call, _span(call)
    except (NotACall, Undecodable):
        return None
    except Exception as error:  # noqa: BLE001 - the agent must not be hurt
        counts.lose(error)
        return None


def _call(path: str, body: bytes, dialect: Dialect) -> _Call:
    asked = dialect.read(path, body)
    operation = _OPERATIONS.get(dialect.name, names.CHAT)
    return _Call(operation, _PROVIDERS.get(dialect.name, "openai"), _model(path, asked.body), dialect, asked)


def _embedding(path: str, body: bytes) -> _Call:
    _, asked = embedded_bytes(body)
    return _Call(
        names.EMBEDDINGS, "openai" if path.endswith("/embeddings") else _PROVIDERS["gemini"], _model(path, asked)
    )


def _model(path: str, body: Mapping[str, Any]) -> str:
    named = model_of(path, body)
    return named if isinstance(named, str) else ""


def _span(call: _Call) -> LiveSpan:
    from rotoscope.sdk.live_spans import begun_call

    attributes: dict[str, str | bool] = {names.PROVIDER_NAME: call.provider}
    if call.model:
        attributes[names.REQUEST_MODEL] = call.model
    if call.asked is not None and call.asked.is_stream:
        attributes[names.REQUEST_STREAM] = True
    return begun_call(call.operation, call.model, attributes)


def _is_ours() -> bool:
    """Tell whether nobody else has made a span of this call, or has forbidden any."""
    from opentelemetry import trace
    from opentelemetry.context import get_value

    if any(get_value(key) for key in _SILENCE):
        return False
    told = getattr(trace.get_current_span(), "attributes", None) or {}
    return told.get("llm.request.type") is None and not any(told.get(name) in words for name, words in _TOLD.items())
