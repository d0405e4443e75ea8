from __future__ import annotations

import orjson
import pytest

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


@pytest.mark.parametrize("own", [b"null", b"{}", b'{"include_usage": false, "x": "\xc3\xa9"}', b"7"])
def test_all_but_the_options_stays_as_it_is(own: bytes) -> None:
    body = (
        b'{"seed": 18446744073709551617, "u": "\\u00e9", "m": {"stream_options": 1}, "stream_options": %b , "t": 1.0} '
    )
    sent = with_usage(body % own, has_stream_options=True)
    before, _, after = sent.partition(b'"stream_options": {')

    assert before == body.partition(b'"stream_options": %b')[0]
    assert after.endswith(b' , "t": 1.0} ')
    assert usage_asked(orjson.loads(sent))


def test_options_whose_place_is_not_found_are_written_anew() -> None:
    sent = with_usage(b'{"stream\\u005foptions":{"x":1}}', has_stream_options=True)

    assert orjson.loads(sent) == {"stream_options": {"x": 1, "include_usage": True}}
