from __future__ import annotations

import orjson
import pytest
from chat_wire import Wire, delta, sse, usage, user

from rotoscope.recorder import Exchange
from rotoscope.recorder.sse import LARGEST_EVENT_BYTES


def test_an_exchange_of_no_call_forwards_what_comes() -> None:
    exchange = Exchange(b"body")
    exchange.response(200, at_s=0.0, content_type="text/event-stream")

    assert exchange.upstream_body == b"body"
    assert exchange.chunk(b"data: {}\n\n", at_s=1.0) == b"data: {}\n\n"
    assert exchange.end(at_s=2.0) == b""
    assert not exchange.recorded


def ends_written(wire: Wire) -> int:
    return wire.journal.getvalue().count(b'"record":"end"')


SAID = sse(delta({"content": "hi"}), delta({}, finish="stop"))
USED = sse({"choices": [], "usage": usage(7, 2)})
DONE = sse("[DONE]")


def test_end_of_a_stream_is_written_before_its_terminal_event_is_forwarded() -> None:
    wire = Wire()
    exchange = wire.ask([user("hello")], at=0.0, stream=True)
    exchange.response(200, at_s=101.0, content_type="text/event-stream")

    assert exchange.chunk(SAID + USED, at_s=102.0) == SAID
    assert ends_written(wire) == 0
    assert exchange.chunk(DONE, at_s=103.0) == DONE
    assert ends_written(wire) == 1
    assert exchange.end(at_s=109.0) == b""
    assert ends_written(wire) == 1
    (call,) = wire.calls()
    assert (call.finish_reason, call.prompt_tokens, call.completion_tokens, call.duration_ms) == ("stop", 7, 2, 3000)


@pytest.mark.parametrize("leaves", ["cancelled", "failed"])
def test_what_breaks_off_behind_the_terminal_event_is_written_once(leaves: str) -> None:
    wire = Wire()
    exchange = wire.ask([user("hello")], at=0.0, stream=True)
    exchange.response(200, at_s=101.0, content_type="text/event-stream")
    exchange.chunk(SAID + USED + DONE, at_s=102.0)

    getattr(exchange, leaves)(at_s=103.0)

    assert ends_written(wire) == 1
    assert [call.finish_reason for call in wire.calls()] == ["stop"]


def test_failure_of_the_recorder_behind_the_terminal_event_does_not_end_the_call_again() -> None:
    wire = Wire()
    exchange = wire.ask([user("hello")], stream=True)
    exchange.response(200, at_s=101.0, content_type="text/event-stream")
    exchange.chunk(SAID + USED + DONE, at_s=102.0)
    endless = b"x" * (LARGEST_EVENT_BYTES + 1)

    assert exchange.chunk(endless, at_s=103.0) == endless
    exchange.end(at_s=104.0)

    assert ends_written(wire) == 1
    assert [call.finish_reason for call in wire.calls()] == ["stop"]


def test_usage_that_comes_behind_the_terminal_event_is_waited_for_and_withheld() -> None:
    wire = Wire()
    exchange = wire.ask([user("hello")], stream=True)
    exchange.response(200, at_s=101.0, content_type="text/event-stream")

    assert exchange.chunk(SAID + DONE, at_s=102.0) == SAID + DONE
    assert exchange.chunk(USED, at_s=103.0) == b""
    exchange.end(at_s=104.0)

    assert [call.prompt_tokens for call in wire.calls()] == [7]


def test_a_stream_that_is_a_list_is_heard_as_it_comes() -> None:
    wire = Wire()
    body = orjson.dumps({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]})
    exchange = wire.recorder.request("/v1beta/models/m:streamGenerateContent", body, at_s=wire.now_s)
    exchange.response(200, at_s=wire.now_s, content_type="application/json; charset=UTF-8")
    exchange.chunk(b'[{"candidates":[{"content":{"parts":[{"text":"Hel"}]}}]}', at_s=wire.now_s + 1)
    exchange.chunk(b',\n{"candidates":[{"content":{"parts":[{"text":"lo"}]}}]}', at_s=wire.now_s + 2)
    exchange.cancelled(at_s=wire.now_s + 3)
    (call,) = wire.calls()

    assert (call.finish_reason, call.ttft_ms, call.duration_ms) == ("cancelled", 1000, 3000)
    assert call.completion_tokens > 0
