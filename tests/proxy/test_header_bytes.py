from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from loopback import RawUpstream, exchange_bytes, recording, serving_bytes
from multidict import CIMultiDict

from rotoscope.proxy.header_bytes import serialized

REQUEST = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nX-Title: caf\xe9\r\nX-Other: caf\xc3\xa9\r\nConnection: close\r\n\r\n"
ANSWER = b"HTTP/1.1 200 d\xe9j\xe0 vu\r\nX-Odd: \xff\xfe \xc3\xa9\r\nContent-Length: 0\r\n\r\n"


def test_bytes_that_are_no_utf_8_pass_in_both_directions(tmp_path: Path) -> None:
    async def run() -> tuple[bytes, bytes]:
        upstream = RawUpstream(ANSWER)
        async with serving_bytes(upstream) as origin, recording(origin, tmp_path / "journal") as gateway:
            return await exchange_bytes(gateway.origin, REQUEST), upstream.requests[0]

    answer, request = asyncio.run(run())

    assert b"\r\nX-Title: caf\xe9\r\nX-Other: caf\xc3\xa9\r\n" in request
    assert answer.startswith(b"HTTP/1.1 200 d\xe9j\xe0 vu\r\nX-Odd: \xff\xfe \xc3\xa9\r\n")


@pytest.mark.parametrize("value", ["plain\r\nX: 1", "caf\udce9\r\nX: 1", "caf\udce9\0"])
def test_no_line_ends_early(value: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)header"):
        serialized("HTTP/1.1 200 OK", CIMultiDict({"X-Odd": value}))
