from __future__ import annotations

import gzip
import itertools
import json
import zlib

import pytest
from event_loops import in_event_loop
from simulated import Client, simulated

BODY = json.dumps({"prompt": "Hi", "max_tokens": 1}).encode()
RAW_DEFLATE = zlib.compress(BODY)[2:-4]


async def status_and_message(client: Client, data: bytes, encoding: str) -> tuple[int, str]:
    headers = {"content-encoding": encoding, "content-type": "application/json"}
    async with client.session.post(client.url + "/v1/completions", data=data, headers=headers) as response:
        answer = await response.json()
        return response.status, answer.get("error", {}).get("message", "")


@in_event_loop
async def test_compressed_bodies_are_read() -> None:
    sent = [
        (gzip.compress(BODY), "gzip"),
        (gzip.compress(BODY), "X-GZIP"),
        (gzip.compress(BODY[:5]) + gzip.compress(BODY[5:]), "gzip"),
        (zlib.compress(BODY), "deflate"),
        (RAW_DEFLATE, "deflate"),
        (gzip.compress(zlib.compress(BODY)), "deflate, gzip"),
        (BODY, "identity"),
    ]

    async with simulated() as client:
        assert {await status_and_message(client, *body) for body in sent} == {(200, "")}


@pytest.mark.parametrize(
    ("data", "encoding", "status"),
    [
        (b"CANARY{bad json", "gzip", 400),
        (b"CANARY{bad json", "deflate", 400),
        (b"", "gzip", 400),
        (gzip.compress(BODY)[:-12], "gzip", 400),
        (gzip.compress(BODY)[:-3], "gzip", 400),
        (gzip.compress(BODY) + b"CANARY", "gzip", 400),
        (zlib.compress(BODY)[:-8], "deflate", 400),
        (zlib.compress(BODY) + b"CANARY", "deflate", 400),
        (BODY, "CANARY", 415),
        (BODY, "br", 415),
    ],
    ids=itertools.count(),  # gzip writes the time, which differs between processes that run tests
)
@in_event_loop
async def test_a_body_that_is_not_what_it_says_is_refused_and_the_server_goes_on(
    data: bytes, encoding: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with simulated() as client:
        answered, message = await status_and_message(client, data, encoding)
        assert await status_and_message(client, BODY, "identity") == (200, "")

    assert answered == status
    assert "content-encoding" in message
    assert "CANARY" not in message
    assert not caplog.records


@in_event_loop
async def test_a_small_body_that_grows_beyond_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rotoscope.replayer.simulator.server._LARGEST_BODY_BYTES", 1000)
    async with simulated() as client:
        answered, message = await status_and_message(client, gzip.compress(b" " * 1001), "gzip")

    assert (answered, message) == (413, "the body has more than 1000 bytes")
