from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import context
from opentelemetry.trace import SpanKind
from sdk_doubles import Spans, provided_by
from transcripts import TRANSCRIPTS, Transcript

from rotoscope import trace_agent
from rotoscope.sdk.outgoing import Listener, Outgoing, Request
from rotoscope.sdk.spanned import with_call_spans
from rotoscope.sdk.spans import counts, current_traceparent

URL = "https://somewhere.test"
CHAT = "/v1/chat/completions"
ANSWER = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "a secret"}, "finish_reason": "length"}],
    "usage": {
        "prompt_tokens": 9,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 1},
    },
}


def asked(**fields: Any) -> bytes:
    return orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "a secret"}], **fields})


def heard(
    listener: Listener, body: bytes, *, path: str = CHAT, headers: Mapping[str, str] = {}, method: str = "POST"
) -> Outgoing | None:
    return listener(Request(method, URL + path, headers, body))


def call(listener: Listener, answer: bytes, **fields: Any) -> tuple[bytes, bytes]:
    """Make a call and return the body that was sent and the answer that the client got."""
    outgoing = heard(listener, asked(**fields))
    assert outgoing is not None
    is_stream = bool(fields.get("stream"))
    outgoing.response(200, "text/event-stream" if is_stream else "application/json")
    return outgoing.body, outgoing.chunk(answer) + outgoing.end()


def told(spans: Spans) -> dict[str, Any]:
    [span] = spans.ended
    return dict(span.attributes or {})


def test_call_is_told_of_by_model_usage_and_how_it_ended(spans: Spans) -> None:
    answer = orjson.dumps(ANSWER)

    sent, got = call(with_call_spans(), answer)

    assert (sent, got) == (asked(), answer)
    [span] = spans.ended
    assert (span.name, span.kind) == ("chat m", SpanKind.CLIENT)
    assert told(spans) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.response.finish_reasons": ("length",),
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.usage.output_tokens": 4,
        "gen_ai.usage.cache_read.input_tokens": 2,
        "gen_ai.usage.reasoning.output_tokens": 1,
    }


@given(transcript=st.sampled_from(TRANSCRIPTS), cuts=st.lists(st.integers(0, 2000), max_size=6))
@settings(max_examples=150, deadline=None)
def test_every_answer_is_told_of_as_it_is_recorded_and_passes_unchanged(
    transcript: Transcript, cuts: list[int]
) -> None:
    spans, lost_before = Spans(), counts.lost
    edges = sorted({0, len(transcript.answer), *(cut for cut in cuts if cut < len(transcript.answer))})

    with provided_by(spans.provider):
        outgoing = heard(with_call_spans(), transcript.body, path=transcript.path)
        assert outgoing is not None
        outgoing.response(transcript.status, transcript.content_type)
        got = b"".join(outgoing.chunk(transcript.answer[start:end]) for start, end in pairwise(edges))
        got += outgoing.end()

    assert got == transcript.forwarded
    seen = told(spans)
    recorded = transcript.calls[0] if len(transcript.calls) == 1 else {}  # the usage of several is shared out
    for field, name in (("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens")):
        if field in recorded:
            assert seen.get(f"gen_ai.usage.{name}") == recorded[field]
    reasons = [call["finish_reason"] for call in transcript.calls]
    if not {"error", "unknown"} & set(reasons):
        assert list(seen["gen_ai.response.finish_reasons"]) == reasons
    if transcript.status >= 400:
        assert seen["error.type"] == str(transcript.status)
    else:
        assert "error.type" not in seen or "error" in reasons
        assert "error.type" in seen or "error_in_the_stream" not in transcript.name
    assert counts.lost == lost_before


STREAM = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}\n\n'
DONE = b"data: [DONE]\n\n"


def test_stream_is_asked_for_its_usage_and_the_client_gets_what_it_asked_for(spans: Spans) -> None:
    sent, got = call(with_call_spans(), STREAM + USAGE + DONE, stream=True)

    assert orjson.loads(sent)["stream_options"] == {"include_usage": True}
    assert got == STREAM + DONE
    seen = told(spans)
    assert (seen["gen_ai.usage.input_tokens"], seen["gen_ai.usage.output_tokens"]) == (9, 4)
    assert seen["gen_ai.request.stream"] is True
    assert seen["gen_ai.response.time_to_first_chunk"] >= 0


def test_stream_is_not_asked_where_that_is_not_wanted_or_the_client_asks(spans: Spans) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}}

    assert call(with_call_spans(asks_usage=False), STREAM + DONE, stream=True) == (asked(stream=True), STREAM + DONE)
    assert call(with_call_spans(), STREAM + USAGE + DONE, **options) == (asked(**options), STREAM + USAGE + DONE)


def test_server_that_refuses_the_question_is_asked_no_more(spans: Spans) -> None:
    listener = with_call_spans()
    outgoing = heard(listener, asked(stream=True))
    assert outgoing is not None

    outgoing.take_back()
    outgoing.response(200, "text/event-stream")

    assert outgoing.body == asked(stream=True)
    assert outgoing.chunk(STREAM + USAGE + DONE) + outgoing.end() == STREAM + USAGE + DONE
    assert call(listener, STREAM + DONE, stream=True)[0] == asked(stream=True)
    assert len(spans.ended) == 2


@pytest.mark.parametrize(
    ("end", "error"), [("failed", "connection_error"), ("cancelled", None), ("refused", "429"), ("whole", None)]
)
def test_call_ends_with_its_answer_however_that_ends(end: str, error: str | None, spans: Spans) -> None:
    outgoing = heard(with_call_spans(), asked(stream=True))
    assert outgoing is not None

    outgoing.response(429 if end == "refused" else 200, "text/event-stream")
    outgoing.chunk(STREAM)
    assert spans.ended == []
    {"failed": outgoing.failed, "cancelled": outgoing.cancelled}.get(end, outgoing.end)()
    outgoing.cancelled()

    assert told(spans).get("error.type") == error


def test_call_without_an_answer_is_told_of(spans: Spans) -> None:
    outgoing = heard(with_call_spans(), asked())
    assert outgoing is not None

    outgoing.failed()

    assert told(spans)["error.type"] == "connection_error"


@pytest.mark.parametrize(
    "inside",
    [
        {"gen_ai.operation.name": "chat"},
        {"gen_ai.operation.name": "text_completion"},
        {"openinference.span.kind": "LLM"},
        {"llm.request.type": "chat"},
        {"gen_ai.operation.name": "chat.completions"},
        {"langfuse.observation.type": "generation"},
    ],
)
def test_call_that_has_a_span_of_its_client_s_instrumentation_gets_none_of_ours(
    inside: dict[str, str], spans: Spans
) -> None:
    tracer = spans.provider.get_tracer("theirs")

    with tracer.start_as_current_span("theirs", attributes=inside):
        assert heard(with_call_spans(), asked()) is None
    assert heard(with_call_spans(), asked()) is not None

    assert spans.names == ["theirs"]


@pytest.mark.parametrize("key", ["suppress_instrumentation", "suppress_language_model_instrumentation"])
def test_where_opentelemetry_is_told_to_be_silent_there_is_no_span(key: str, spans: Spans) -> None:
    token = context.attach(context.set_value(key, True))
    try:
        assert heard(with_call_spans(), asked()) is None
    finally:
        context.detach(token)


def test_what_is_no_call_and_what_is_not_wanted_has_no_span(spans: Spans, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = with_call_spans()

    assert heard(listener, asked(), path="/v1/models") is None
    assert heard(listener, b"no JSON") is None
    assert heard(listener, asked(), method="GET") is None
    assert heard(listener, b"gzip", headers={"content-encoding": "gzip"}) is None
    with provided_by(None):
        assert heard(listener, asked()) is None
    monkeypatch.setenv("ROTOSCOPE_CALL_SPANS", "0")
    assert heard(listener, asked()) is None


class Other:
    """Another listener, which keeps what it hears and holds a word back."""

    def __init__(self, request: Request) -> None:
        self.listens = True
        self.headers = {"traceparent": current_traceparent()}
        self.body = request.body
        self.told: list[Any] = []

    def take_back(self) -> None:
        self.told.append("taken back")

    def response(self, status: int, content_type: str) -> None:
        self.told.append(status)

    def chunk(self, data: bytes) -> bytes:
        self.told.append(data)
        return data.upper()

    def end(self) -> bytes:
        self.told.append("end")
        return b"!"

    def failed(self) -> None:
        self.told.append("failed")

    def cancelled(self) -> None:
        self.told.append("cancelled")


def test_other_listener_hears_all_and_its_headers_name_the_call(spans: Spans) -> None:
    others: list[Other] = []

    def other(request: Request) -> Other:
        others.append(Other(request))
        return others[-1]

    outgoing = heard(with_call_spans(other), asked(stream=True))
    assert outgoing is not None
    outgoing.take_back()
    outgoing.response(200, "text/event-stream")
    assert outgoing.chunk(STREAM) == STREAM.upper()
    assert outgoing.end() == b"!"
    for stop in ("failed", "cancelled"):
        stopped = heard(with_call_spans(other), asked())
        getattr(stopped, stop)()

    assert [one.told for one in others] == [["taken back", 200, STREAM, "end"], ["failed"], ["cancelled"]]
    context_of_first = spans.ended[0].get_span_context()
    assert context_of_first is not None
    assert outgoing.headers["traceparent"].split("-")[2] == f"{context_of_first.span_id:016x}"


def test_other_listener_that_raises_costs_only_itself(spans: Spans) -> None:
    def other(request: Request) -> Outgoing:
        raise OSError("broken")

    assert call(with_call_spans(other), orjson.dumps(ANSWER))[1] == orjson.dumps(ANSWER)
    assert len(spans.ended) == 1


def test_embedding_is_told_of_by_model_and_usage(spans: Spans) -> None:
    body = orjson.dumps({"model": "m", "input": ["a secret"]})
    answer = orjson.dumps({"data": [{"embedding": [0.5]}], "usage": {"prompt_tokens": 3, "total_tokens": 3}})

    outgoing = heard(with_call_spans(), body, path="/v1/embeddings")
    assert outgoing is not None
    outgoing.response(200, "application/json")

    assert outgoing.body is body
    assert outgoing.chunk(answer) + outgoing.end() == answer
    assert spans.names == ["embeddings m"]
    assert told(spans) == {
        "gen_ai.operation.name": "embeddings",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
        "gen_ai.usage.input_tokens": 3,
    }
    assert heard(with_call_spans(), b"{}", path="/v1/embeddings") is None


def test_call_stands_below_the_agent_that_makes_it(spans: Spans) -> None:
    @trace_agent(name="agent")
    def agent() -> None:
        call(with_call_spans(), orjson.dumps(ANSWER))

    agent()

    assert spans.parent_of("chat m") == "invoke_agent agent"


def test_nothing_that_is_said_is_in_the_span(spans: Spans) -> None:
    call(with_call_spans(), orjson.dumps(ANSWER))
    call(with_call_spans(), STREAM.replace(b"hi", b"a secret") + DONE, stream=True)
    refused = heard(with_call_spans(), asked())
    assert refused is not None
    refused.response(400, "application/json")
    refused.chunk(b'{"error": {"message": "a secret", "code": "a secret", "type": "a secret"}}')
    refused.end()

    assert len(spans.ended) == 3
    assert not [span for span in spans.ended if "secret" in span.to_json() + repr(vars(span))]
