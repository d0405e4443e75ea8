from __future__ import annotations

from multidict import CIMultiDict

from rotoscope.proxy.headers import end_to_end, in_one_spelling


def test_lines_keep_order_spelling_and_number() -> None:
    raw = [(b"X-b", b"1"), (b"x-A", b"caf\xc3\xa9"), (b"Set-Cookie", b"a"), (b"set-cookie", b"b"), (b"Empty", b"")]

    kept = end_to_end(raw)

    assert [(name.encode(), value.encode()) for name, value in kept.items()] == raw


def test_repeated_name_takes_its_first_spelling() -> None:
    headers = CIMultiDict([("X-Twice", "1"), ("Other", "2"), ("x-twice", "3")])

    assert list(in_one_spelling(headers).items()) == [("X-Twice", "1"), ("Other", "2"), ("X-Twice", "3")]


def test_lines_of_one_connection_are_dropped_with_those_that_it_lists() -> None:
    raw = [
        (b"Connection", b"close, X-Hop"),
        (b"connection", b"other"),
        (b"Keep-Alive", b"timeout=5"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Upgrade", b"h2c"),
        (b"X-Hop", b"1"),
        (b"OTHER", b"2"),
        (b"X-End", b"3"),
    ]

    assert list(end_to_end(raw).items()) == [("X-End", "3")]


def test_further_lines_are_left_out_by_name() -> None:
    raw = [(b"Host", b"gateway"), (b"Content-Length", b"3"), (b"Accept", b"*/*")]

    assert list(end_to_end(raw, without={b"host", b"content-length"}).items()) == [("Accept", "*/*")]
