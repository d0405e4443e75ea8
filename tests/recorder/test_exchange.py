from __future__ import annotations

import orjson
from chat_wire import Wire

from rotoscope.recorder import Exchange


def test_an_exchange_of_no_call_forwards_what_comes() -> None:
    exchange = Exchange(b"body")
    exchange.response(200, at_s=0.0, content_type="text/event-stream")

    assert exchange.upstream_body == b"body"
    assert exchange.chunk(b"data: {}\n\n", at_s=1.0) == b"data: {}\n\n"
    assert exchange.end(at_s=2.0) == b""
    assert not exchange.recorded


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
