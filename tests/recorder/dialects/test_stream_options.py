from __future__ import annotations

import orjson

from rotoscope.recorder.dialects.stream_options import usage_asked, with_usage


def test_a_stream_is_made_to_report_usage_and_stays_as_it_is_otherwise() -> None:
    body = b'{"stream": true, "messages": [ {"role":"user","content":"h\\u00e4"} ] }\n'

    assert with_usage(body, has_stream_options=False) == body[:-2] + b',"stream_options":{"include_usage":true}}\n'


def test_other_stream_options_are_kept() -> None:
    body = b'{"stream":true,"stream_options":{"x":1,"include_usage":false}}'

    assert orjson.loads(with_usage(body, has_stream_options=True))["stream_options"] == {"x": 1, "include_usage": True}


def test_stream_options_that_are_null_are_filled() -> None:
    body = b'{"stream":true,"stream_options":null}'

    assert orjson.loads(with_usage(body, has_stream_options=True))["stream_options"] == {"include_usage": True}


def test_only_a_request_that_says_so_asks_for_usage() -> None:
    assert usage_asked({"stream_options": {"include_usage": True}})
    assert not usage_asked({"stream_options": {"include_usage": False}})
    assert not usage_asked({"stream_options": None})
