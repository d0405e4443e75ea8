from __future__ import annotations

from rotoscope.recorder import Exchange


def test_an_exchange_of_no_call_forwards_what_comes() -> None:
    exchange = Exchange(b"body")
    exchange.response(200, at_s=0.0, content_type="text/event-stream")

    assert exchange.upstream_body == b"body"
    assert exchange.chunk(b"data: {}\n\n", at_s=1.0) == b"data: {}\n\n"
    assert exchange.end(at_s=2.0) == b""
    assert not exchange.recorded
