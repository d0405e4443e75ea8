"""What the client receives, byte for byte and as it comes, and what the trace says of calls that end oddly."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import struct
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import zstandard
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import (
    CHAT,
    PATIENCE_S,
    STREAMED,
    STREAMED_WITH_USAGE,
    WHOLE,
    RawUpstream,
    chat_answer,
    chat_chunk,
    exchange_bytes,
    recording,
    serving,
    serving_bytes,
    sse,
    usage_chunk,
)

from rotoscope.traces.model import Call

STREAM_HEADERS = {"Content-Type": "text/event-stream"}

_PART = st.binary(max_size=40)
_STREAM_PIECES = st.sampled_from(
    [
        sse(chat_chunk({"content": "hällo"})),
        sse(usage_chunk()),
        sse("[DONE]"),
        sse({"error": {"message": "overloaded", "type": "server_error"}}),
        b": ping\n\n",
        b"event: x\r\ndata: 1\r\n\r\n",
        b"\n",
        b"data",
        b": {}",
    ]
)


def chunked(pieces: list[bytes]) -> bytes:
    """Return a body in chunked transfer encoding, one chunk a piece."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces if piece) + b"0\r\n\r\n"


def unchunked(body: bytes) -> bytes:
    """Return the data of a body in chunked transfer encoding."""
    data = b""
    while True:
        size, _, body = body.partition(b"\r\n")
        if int(size, 16) == 0:
            return data
        data, body = data + body[: int(size, 16)], body[int(size, 16) + 2 :]


def parsed(answer: bytes) -> tuple[bytes, list[bytes], bytes]:
    """Return status line, header lines but for the connection's, and body."""
    head, _, body = answer.partition(b"\r\n\r\n")
    line, *headers = head.split(b"\r\n")
    is_chunked = any(header.lower() == b"transfer-encoding: chunked" for header in headers)
    hop = (b"connection:", b"transfer-encoding:", b"keep-alive:")
    return line, [h for h in headers if not h.lower().startswith(hop)], unchunked(body) if is_chunked else body


def through_gateway(answer: bytes, request: bytes) -> bytes:
    """Return what a client gets through the gateway when the upstream gives `answer`."""

    async def run() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            async with serving_bytes(RawUpstream(answer)) as origin, recording(origin, Path(folder) / "j") as gateway:
                return await exchange_bytes(gateway.origin, request)

    return asyncio.run(run())


def get(path: str = "/v1/models", method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()


def post(body: dict[str, Any], path: str = CHAT) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(content) + content


def test_answer_of_unknown_length_ends_the_connection_of_a_client_of_http_1_0() -> None:
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked([b"one", b"two"])
    request = b"GET /v1/models HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"

    async def run() -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            async with serving_bytes(RawUpstream(answer)) as origin, recording(origin, Path(folder) / "j") as gateway:
                return await asyncio.wait_for(exchange_bytes(gateway.origin, request), PATIENCE_S)

    assert asyncio.run(run()).endswith(b"\r\n\r\nonetwo")


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Odd:  spaced \r\n\r\nhi",
        b"HTTP/1.1 418 I'm A Teapot, Really\r\nSet-Cookie: a=1\r\nset-cookie: b=2\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\nServer: llama\r\nDate: today\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n",
        b"HTTP/1.1 307 Away\r\nLocation: http://127.0.0.1:1/elsewhere\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Encoding: br\r\nContent-Length: 3\r\n\r\n\x00\x01\x02",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked([b"one", b"two"]),
        b"HTTP/1.1 200 OK\r\n\r\nuntil the connection ends",
        b"HTTP/1.0 200 OK\r\n\r\nold",
    ],
)
def test_answer_that_is_not_recorded_is_the_one_that_the_upstream_gave(answer: bytes) -> None:
    line, headers, body = parsed(answer)

    got_line, got_headers, got_body = parsed(through_gateway(answer, get()))

    assert got_line.partition(b" ")[2] == line.partition(b" ")[2]
    assert [header.replace(b":  spaced ", b": spaced") for header in headers] == got_headers
    assert got_body == body


def test_answer_to_head_has_the_length_and_no_body() -> None:
    answer = through_gateway(b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n", get(method="HEAD"))

    assert parsed(answer) == (b"HTTP/1.1 200 OK", [b"Content-Length: 1234"], b"")


@settings(max_examples=25, deadline=None)
@given(pieces=st.lists(_PART, max_size=6), path=st.sampled_from(["/v1/models", "/anything", CHAT]))
def test_any_body_cut_anywhere_passes_unchanged(pieces: list[bytes], path: str) -> None:
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(pieces)

    assert parsed(through_gateway(answer, post(WHOLE, path)))[2] == b"".join(pieces)


@settings(max_examples=25, deadline=None)
@given(pieces=st.lists(_STREAM_PIECES | _PART, max_size=8))
def test_stream_whose_usage_the_client_asked_for_passes_unchanged(pieces: list[bytes]) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

    answer = through_gateway(head + chunked(pieces), post(STREAMED_WITH_USAGE))

    assert parsed(answer)[2] == b"".join(pieces)


@pytest.mark.parametrize("length_known", [True, False])
def test_only_the_usage_that_the_client_did_not_ask_for_is_missing_from_a_stream(length_known: bool) -> None:
    before = sse(chat_chunk({"role": "assistant"}), chat_chunk({"content": "hi"}), chat_chunk({}, "stop"))
    after = sse("[DONE]")
    body = before + sse(usage_chunk()) + after
    framing = b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    if not length_known:
        framing = b"Transfer-Encoding: chunked\r\n\r\n" + chunked([body[:70], body[70:71], body[71:]])

    answer = through_gateway(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + framing, post(STREAMED))

    _, headers, got = parsed(answer)
    assert got == before + after
    assert headers == [b"Content-Type: text/event-stream"]


@pytest.mark.parametrize(("encoding", "pack"), [(b"gzip", gzip.compress), (b"zstd", zstandard.compress)])
def test_an_encoding_that_was_not_asked_for_reaches_the_client_as_text_and_is_recorded(
    encoding: bytes, pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    whole = json.dumps(chat_answer()).encode()
    packed = pack(whole)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: %b\r\n" % encoding
    upstream = RawUpstream(head + b"Content-Length: %d\r\n\r\n" % len(packed) + packed)

    async def run() -> tuple[bytes, list[Call]]:
        async with serving_bytes(upstream) as origin, recording(origin, tmp_path / "journal") as gateway:
            answer = await exchange_bytes(gateway.origin, post(WHOLE))
            return answer, await gateway.calls()

    answer, calls = asyncio.run(run())

    assert parsed(answer) == (b"HTTP/1.1 200 OK", [b"Content-Type: application/json"], whole)
    assert [(call.prompt_tokens, call.completion_tokens) for call in calls] == [(20, 5)]


def test_encoding_that_cannot_be_read_passes_unchanged_and_is_told(tmp_path: Path) -> None:
    upstream = RawUpstream(b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 4\r\n\r\n\x28\xb5\x2f\xfd")

    async def run() -> tuple[bytes, list[str]]:
        async with serving_bytes(upstream) as origin, recording(origin, tmp_path / "journal") as gateway:
            return await exchange_bytes(gateway.origin, post(WHOLE)), gateway.notices

    answer, notices = asyncio.run(run())

    assert parsed(answer)[1:] == ([b"Content-Encoding: br", b"Content-Length: 4"], b"\x28\xb5\x2f\xfd")
    assert len(notices) == 1


Client = Callable[[aiohttp.ClientSession, str], Awaitable[None]]


def recorded(
    upstream: Callable[[web.Request], Awaitable[web.StreamResponse]], client: Client, journal: Path
) -> list[Call]:
    """Let a client talk to an upstream through the gateway; return the recorded calls."""

    async def run() -> list[Call]:
        async with serving(upstream) as origin, recording(origin, journal) as gateway:
            async with aiohttp.ClientSession() as session:
                await client(session, gateway.origin + CHAT)
            return await gateway.calls()

    return asyncio.run(run())


async def start_stream(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers=STREAM_HEADERS)
    await response.prepare(request)
    return response


@pytest.mark.parametrize("body", [STREAMED, STREAMED_WITH_USAGE])
def test_each_event_arrives_before_the_upstream_sends_the_next(body: dict[str, Any], tmp_path: Path) -> None:
    events = [sse(chat_chunk({"content": word})) for word in ("one", "two", "three")] + [sse("[DONE]")]
    arrived = [asyncio.Event() for _ in events]

    async def upstream(request: web.Request) -> web.StreamResponse:
        response = await start_stream(request)
        for event, seen in zip(events, arrived, strict=True):
            await response.write(event)
            await asyncio.wait_for(seen.wait(), PATIENCE_S)
        return response

    async def client(session: aiohttp.ClientSession, url: str) -> None:
        async with session.post(url, json=body) as answer:
            for event, seen in zip(events, arrived, strict=True):
                assert await answer.content.readexactly(len(event)) == event
                seen.set()

    recorded(upstream, client, tmp_path / "journal")


def test_header_arrives_before_the_first_event(tmp_path: Path) -> None:
    header_arrived = asyncio.Event()

    async def upstream(request: web.Request) -> web.StreamResponse:
        response = await start_stream(request)
        await asyncio.wait_for(header_arrived.wait(), PATIENCE_S)
        await response.write(sse("[DONE]"))
        return response

    async def client(session: aiohttp.ClientSession, url: str) -> None:
        async with session.post(url, json=STREAMED) as answer:
            header_arrived.set()
            await answer.read()

    recorded(upstream, client, tmp_path / "journal")


@pytest.mark.parametrize("begun", [False, True])
def test_client_that_hangs_up_ends_the_call_upstream(begun: bool, tmp_path: Path) -> None:
    arrived, cancelled = asyncio.Event(), asyncio.Event()

    async def upstream(request: web.Request) -> web.StreamResponse:
        await request.read()
        try:
            if begun:
                response = await start_stream(request)
                await response.write(sse(chat_chunk({"content": "one"})))
            arrived.set()
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError("unreachable")

    async def client(session: aiohttp.ClientSession, url: str) -> None:
        async def ask() -> None:
            async with session.post(url, json=STREAMED) as answer:
                await answer.content.readuntil(b"\n\n")
                await answer.read()

        asking = asyncio.create_task(ask())
        await arrived.wait()
        if begun:
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        await asyncio.wait_for(cancelled.wait(), PATIENCE_S)

    (call,) = recorded(upstream, client, tmp_path / "journal")

    assert call.finish_reason == "cancelled"


def test_client_that_leaves_right_after_the_last_event_made_a_complete_call(tmp_path: Path) -> None:
    left = asyncio.Event()

    async def upstream(request: web.Request) -> web.StreamResponse:
        response = await start_stream(request)
        await response.write(sse(chat_chunk({"content": "hi"}), chat_chunk({}, "stop"), usage_chunk(), "[DONE]"))
        try:
            await asyncio.Event().wait()  # it never ends the body
        finally:
            left.set()
        return response

    async def client(session: aiohttp.ClientSession, url: str) -> None:
        async with session.post(url, json=STREAMED) as answer:
            await answer.content.readuntil(b"[DONE]\n\n")
            answer.close()
        await asyncio.wait_for(left.wait(), PATIENCE_S)

    (call,) = recorded(upstream, client, tmp_path / "journal")

    assert (call.finish_reason, call.prompt_tokens, call.completion_tokens) == ("stop", 20, 5)


async def gateway_error(origin: str, journal: Path) -> tuple[int, dict[str, Any], list[str], list[Call]]:
    """Make two equal calls to an upstream that cannot answer; return the second one's error and what was told."""
    async with recording(origin, journal) as gateway, aiohttp.ClientSession() as session:
        for _ in range(2):
            async with session.post(gateway.origin + CHAT, json=WHOLE) as answer:
                status, error = answer.status, (await answer.json())["error"]
        return status, error, gateway.notices, await gateway.calls()


def test_refused_connection_is_a_502_in_the_form_that_clients_read(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        origin = f"http://127.0.0.1:{unused.getsockname()[1]}"
        status, error, notices, _ = asyncio.run(gateway_error(origin, tmp_path / "journal"))

    assert status == 502
    assert error == {
        "message": "rotoscope: the gateway could not reach the upstream server: the connection was refused",
        "type": "gateway_error",
        "param": None,
        "code": None,
    }
    assert notices == [f"a call failed: upstream {origin}: the connection was refused"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(b"", "it closed the connection without an answer"), (b"SSH-2.0-OpenSSH\r\n\r\n", "its answer is no HTTP")],
)
def test_upstream_that_gives_no_answer_is_a_502_with_its_reason(answer: bytes, reason: str, tmp_path: Path) -> None:
    async def run() -> tuple[int, dict[str, Any], list[str], list[Call]]:
        async with serving_bytes(RawUpstream(answer)) as origin:
            return await gateway_error(origin, tmp_path / "journal")

    status, error, notices, _ = asyncio.run(run())

    assert status == 502
    assert error["message"].endswith(reason)
    assert len(notices) == 1


@pytest.mark.parametrize("framing", [b"Transfer-Encoding: chunked\r\n\r\n100\r\n", b"Content-Length: 1000\r\n\r\n"])
def test_answer_that_breaks_off_breaks_off_for_the_client_too(framing: bytes, tmp_path: Path) -> None:
    event = sse(chat_chunk({"content": "one"}))
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + framing + event

    async def run() -> tuple[bytes, bool, list[Call]]:
        async with serving_bytes(RawUpstream(answer)) as origin, recording(origin, tmp_path / "journal") as gateway:
            got, broke_off = b"", False
            async with aiohttp.ClientSession() as session, session.post(gateway.origin + CHAT, json=WHOLE) as response:
                try:
                    async for data in response.content.iter_any():
                        got += data
                except aiohttp.ClientPayloadError:
                    broke_off = True
            return got, broke_off, await gateway.calls()

    got, broke_off, calls = asyncio.run(run())

    assert got == event
    assert broke_off
    assert [call.finish_reason for call in calls] == ["error"]


def test_connection_reset_in_mid_stream_reaches_the_client(tmp_path: Path) -> None:
    async def upstream(request: web.Request) -> web.StreamResponse:
        response = await start_stream(request)
        await response.write(sse(chat_chunk({"content": "one"})))
        assert request.transport is not None
        connection: socket.socket = request.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.transport.abort()
        return response

    async def client(session: aiohttp.ClientSession, url: str) -> None:
        with pytest.raises(aiohttp.ClientPayloadError):
            async with session.post(url, json=STREAMED) as answer:
                await answer.read()

    (call,) = recorded(upstream, client, tmp_path / "journal")

    assert call.finish_reason == "error"


def test_error_inside_a_stream_passes_like_any_event(tmp_path: Path) -> None:
    body = sse(chat_chunk({"content": "one"}), {"error": {"message": "overloaded", "type": "server_error"}})
    got: list[bytes] = []

    async def upstream(request: web.Request) -> web.StreamResponse:
        response = await start_stream(request)
        await response.write(body)
        return response

    async def client(session: aiohttp.ClientSession, url: str) -> None:
        async with session.post(url, json=STREAMED) as answer:
            got.append(await answer.read())

    recorded(upstream, client, tmp_path / "journal")

    assert got == [body]
