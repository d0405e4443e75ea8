"""What stands between a client and its listener."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import pytest
from sdk_worlds import Overheard

from rotoscope.recorder.encodings import Undecodable
from rotoscope.sdk.outgoing import Outgoing, Request
from rotoscope.sdk.spans import counts
from rotoscope.sdk.transports.hearing import Hearing, hearing_of

CASES = [
    ("", 200, "text/event-stream", frozenset[str](), frozenset({"content-length"})),
    ("identity", 200, "application/json", frozenset[str](), frozenset[str]()),
    ("gzip", 200, "text/event-stream", frozenset[str](), frozenset({"content-length", "content-encoding"})),
    ("secret", 200, "text/event-stream", frozenset[str](), frozenset[str]()),
]


def overheard(body: bytes = b"said", *, withholds: bytes = b"") -> Overheard:
    return Overheard(Request("POST", "http://server/", {}, b"said"), body, {}, withholds=withholds)


@pytest.mark.parametrize(("encoding", "status", "kind", "untrue", "untrue_where_added"), CASES)
def test_header_lines_that_are_no_longer_true(
    encoding: str, status: int, kind: str, untrue: frozenset[str], untrue_where_added: frozenset[str]
) -> None:
    came = b"said"
    unchanged, changed = Hearing(overheard(came), came), Hearing(overheard(b"said more"), came)

    assert unchanged.answer(status, kind, encoding) == untrue
    assert changed.answer(status, kind, encoding) == untrue_where_added


def test_an_encoding_that_cannot_be_read_is_not_heard_and_passes() -> None:
    hearing = Hearing(outgoing := overheard(), b"said")
    hearing.answer(200, "text/plain", "secret")

    assert hearing.chunk(b"packed") == b"packed"
    assert hearing.end() == b""
    assert outgoing.story == ["response", "failed"]


@pytest.mark.parametrize("wbits", [zlib.MAX_WBITS, -zlib.MAX_WBITS])
def test_deflate_is_read_in_both_of_its_formats(wbits: int) -> None:
    packer = zlib.compressobj(wbits=wbits)
    packed = packer.compress(b"what was said " * 99) + packer.flush()
    came = b"said"
    hearing = Hearing(outgoing := overheard(came), came)
    hearing.answer(200, "text/plain", "deflate")
    for i in range(0, len(packed), 3):
        assert hearing.chunk(packed[i : i + 3]) == packed[i : i + 3]

    assert outgoing.text == b"what was said " * 99


def test_an_answer_that_is_not_what_its_encoding_says_passes_as_it_came() -> None:
    came = b"said"
    hearing = Hearing(outgoing := overheard(came), came)
    hearing.answer(200, "text/plain", "gzip")

    assert hearing.chunk(b"no gzip") == b"no gzip"
    assert outgoing.story == ["response", "failed"]


def test_where_it_is_to_be_plain_the_client_has_to_be_told() -> None:
    hearing = Hearing(overheard(b"said more"), b"said")
    hearing.answer(200, "text/event-stream", "gzip")

    with pytest.raises(Undecodable):
        hearing.chunk(b"no gzip")


def test_what_comes_behind_the_end_is_not_heard() -> None:
    hearing = Hearing(outgoing := overheard(), b"said")
    hearing.answer(200, "text/plain")
    hearing.end()
    hearing.cancelled()
    hearing.failed()

    assert outgoing.story == ["response", "end"]


@pytest.mark.parametrize(
    ("error", "is_impatient", "told"),
    [
        (ConnectionError(), False, "failed"),
        (TimeoutError(), False, "cancelled"),
        (ConnectionError(), True, "cancelled"),
        (KeyboardInterrupt(), False, "cancelled"),
        (GeneratorExit(), False, "cancelled"),
    ],
)
def test_who_ended_a_request(error: BaseException, is_impatient: bool, told: str) -> None:
    hearing = Hearing(outgoing := overheard(), b"said")
    hearing.stopped(error, is_impatient=is_impatient)

    assert outgoing.story == [told]


class Raises:
    """Raises whatever it is told or asked, but for what a request needs."""

    headers: Mapping[str, str] = {}
    body = b"said more"
    listens = True

    def _raise(self, *args: Any) -> Any:
        raise RuntimeError

    take_back = response = chunk = end = failed = cancelled = _raise


def test_a_listener_that_raises_hurts_nobody_and_is_counted() -> None:
    def raises(request: Request) -> Outgoing:
        raise RuntimeError

    def request() -> Request:
        return Request("POST", "http://server/", {}, b"said")

    failed = counts.failed
    assert hearing_of(None, request) is None
    assert hearing_of(raises, request) is None
    assert counts.failed == failed + 1


def test_an_outgoing_that_raises_hurts_nobody() -> None:
    came = b"said"
    hearing = Hearing(Raises(), came)

    assert hearing.is_refused(422)
    assert hearing.body is came
    hearing = Hearing(Raises(), came)
    hearing.answer(200, "text/event-stream")
    assert hearing.chunk(b"data") == b"data"
    assert hearing.end() == b""
