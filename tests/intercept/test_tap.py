"""What a recorder hears of an answer that passes mitmproxy."""

from __future__ import annotations

import io
import json

import pytest
from loopback import CHAT, STREAMED, WHOLE, chat_answer, chat_chunk, sse, usage_chunk
from mitmproxy import http

from rotoscope.proxy.intercept.again import Came
from rotoscope.proxy.intercept.tap import Tap
from rotoscope.recorder.recorded_run import Run
from rotoscope.recorder.recorder import Recorder
from rotoscope.traces.journal_files import JournalWriter


def recorder() -> Recorder:
    return Recorder(JournalWriter(io.BytesIO()))


def tap_of(recorder: Recorder, body: object) -> Tap:
    exchange = recorder.request(CHAT, data := json.dumps(body).encode(), at_s=0.0)
    came = Came(http.Headers(), data) if exchange.upstream_body != data else None
    return Tap(exchange, Run(recorder), as_it_came=came, client_id="", clock=lambda: 1.0)


def head(headers: dict[str, str]) -> http.Response:
    response = http.Response.make(200)
    response.headers = http.Headers(**{name.replace("-", "_"): value for name, value in headers.items()})
    return response


def test_an_answer_has_ended_when_its_length_has_come() -> None:
    of = recorder()
    tap, whole = tap_of(of, WHOLE), json.dumps(chat_answer()).encode()
    response = head({"content-type": "application/json", "content-length": str(len(whole))})
    tap.begin(response, is_http11=False)
    assert callable(response.stream)

    passed = [*response.stream(whole[:20]), *response.stream(whole[20:])]
    tap.break_off(by_client=True)

    assert b"".join(passed) == whole
    trace = of.close()
    assert trace is not None
    assert [(call.completion_tokens, call.finish_reason) for call in trace.calls()] == [(5, "stop")]


def test_an_answer_that_is_shorter_than_its_length_was_left() -> None:
    of = recorder()
    tap, whole = tap_of(of, WHOLE), json.dumps(chat_answer()).encode()
    response = head({"content-type": "application/json", "content-length": str(len(whole))})
    tap.begin(response, is_http11=False)
    assert callable(response.stream)

    response.stream(whole[:-1])
    tap.break_off(by_client=True)

    trace = of.close()
    assert trace is not None
    assert [call.finish_reason for call in trace.calls()] == ["cancelled"]


@pytest.mark.parametrize("length", [True, False])
def test_what_was_asked_for_by_the_recorder_does_not_pass_whether_its_length_is_told_or_not(length: bool) -> None:
    of = recorder()
    tap, events = tap_of(of, STREAMED), [sse(chat_chunk({"content": "one"}, "stop")), sse(usage_chunk(), "[DONE]")]
    told = {"content-length": str(len(b"".join(events)))} if length else {}
    response = head({"content-type": "text/event-stream"} | told)
    tap.begin(response, is_http11=True)
    assert callable(response.stream)

    passed = b"".join(piece for data in (*events, b"") for piece in response.stream(data))

    assert passed == events[0] + sse("[DONE]")
    assert "content-length" not in response.headers
    trace = of.close()
    assert trace is not None
    assert [call.finish_reason for call in trace.calls()] == ["stop"]


def test_a_last_event_that_is_not_ended_passes_too() -> None:
    tap, said = tap_of(recorder(), STREAMED), sse(chat_chunk({"content": "one"})) + b"data: [DONE]"
    response = head({"content-type": "text/event-stream"})
    tap.begin(response, is_http11=True)
    assert callable(response.stream)

    assert b"".join(piece for data in (said, b"") for piece in response.stream(data)) == said
