"""What passes through an interception by TLS, over HTTP/1 and HTTP/2: every byte, as it comes, until a client leaves."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from event_loops import in_event_loop
from intercept.answering import EVENT_STREAM, JSON, Server, body_of
from intercept.asking import VERSIONS, Headers, connected
from intercept.fronts import Front
from intercept.opened import opened
from loopback import CHAT, STREAMED, STREAMED_WITH_USAGE, WHOLE, chat_answer, chat_chunk, sse, usage_chunk
from mitmproxy import ctx, tcp

from rotoscope.proxy.intercept.hosts import Hosts, chosen_hosts

BIG_BYTES = 8 << 20

both_versions = pytest.mark.parametrize("version", VERSIONS)


@both_versions
@in_event_loop
async def test_the_first_event_is_at_the_client_before_the_server_sends_the_second(
    front: Front, tmp_path: Path, version: str
) -> None:
    has_first = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers=EVENT_STREAM)
        await response.prepare(request)
        await response.write(sse(chat_chunk({"content": "one"})))
        await has_first.wait()
        await response.write(sse(chat_chunk({"content": "two"}, "stop"), usage_chunk(), "[DONE]"))
        return response

    async with front.of(answer), opened(front, tmp_path / "journal") as one, one.connected(version) as client:
        came = await client.ask("POST", CHAT, JSON, body_of(STREAMED_WITH_USAGE))
        first = await came.piece()
        has_first.set()
        rest = b""
        while piece := await came.piece():
            rest += piece
        (call,) = await one.calls()

    assert first == sse(chat_chunk({"content": "one"}))
    assert rest == sse(chat_chunk({"content": "two"}, "stop"), usage_chunk(), "[DONE]")
    assert dict(came.headers)["x-spoken"] == version
    assert (call.prompt_tokens, call.completion_tokens, call.finish_reason) == (20, 5, "stop")


@both_versions
@in_event_loop
async def test_a_client_that_leaves_is_left_at_the_server_at_once(front: Front, tmp_path: Path, version: str) -> None:
    is_left = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers=EVENT_STREAM)
        await response.prepare(request)
        await response.write(sse(chat_chunk({"content": "one two three"})))
        try:
            await asyncio.Event().wait()
        finally:
            is_left.set()
        raise AssertionError

    async with front.of(answer), opened(front, tmp_path / "journal") as one, one.connected(version) as client:
        came = await client.ask("POST", CHAT, JSON, body_of(STREAMED))
        await came.piece()
        await came.leave()
        await is_left.wait()
        (call,) = await one.calls()

    assert call.finish_reason == "cancelled"
    assert call.completion_tokens > 0


@both_versions
@in_event_loop
async def test_a_client_that_ends_its_connection_is_no_failure_of_the_server(
    front: Front, tmp_path: Path, version: str
) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers=EVENT_STREAM)
        await response.prepare(request)
        await response.write(sse(chat_chunk({"content": "one two three"})))
        await asyncio.Event().wait()
        raise AssertionError

    async with front.of(answer), opened(front, tmp_path / "journal") as one, one.connected(version) as client:
        came = await client.ask("POST", CHAT, JSON, body_of(STREAMED))
        await came.piece()
        await came.go_away()
        (call,) = await one.calls()

    assert call.finish_reason == "cancelled"
    assert one.notices == []


@both_versions
@in_event_loop
async def test_an_answer_is_whole_when_its_length_has_come(front: Front, tmp_path: Path, version: str) -> None:
    whole = body_of(chat_answer())

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(whole))})
        await response.prepare(request)
        await response.write(whole)
        await asyncio.Event().wait()  # over HTTP/2 its end is yet to come
        raise AssertionError

    async with front.of(answer), opened(front, tmp_path / "journal") as one, one.connected(version) as client:
        came = await client.ask("POST", CHAT, JSON, body_of(WHOLE))
        assert await came.piece() == whole
        await came.go_away()
        (call,) = await one.calls()

    assert (call.prompt_tokens, call.completion_tokens, call.finish_reason) == (20, 5, "stop")


@both_versions
@in_event_loop
async def test_what_client_and_server_see_is_what_they_see_without_us(
    front: Front, tmp_path: Path, version: str
) -> None:
    server = Server(body_of(chat_answer()), **{"x-two": "a, b", "ETag": '"e"', "Set-Cookie": "c=d"})
    headers = [*JSON, ("Accept-Encoding", "gzip"), ("x-note", "ü"), ("cookie", "a=b"), ("authorization", "Bearer k")]
    path = f"{CHAT}?note=%C3%BC%2F&empty="

    async with front.of(server.answer), opened(front, tmp_path / "journal") as one:
        async with connected(front.url, version, trusted=front.certificates.authority) as client:
            direct = await client.ask_whole("POST", path, headers, body_of(WHOLE))
        async with one.connected(version) as client:
            through = await client.ask_whole("POST", path, [*headers, ("x-rotoscope-run", "mine")], body_of(WHOLE))

    assert through == direct
    without, within = server.asked
    assert (within[0], within[2]) == (without[0], without[2])
    assert within[1] == [
        (name, b"identity") if name == b"accept-encoding" else (name, value) for name, value in without[1]
    ]
    assert one.notices == []


@both_versions
@in_event_loop
async def test_what_is_no_call_passes_as_it_is(front: Front, tmp_path: Path, version: str) -> None:
    server = Server(gzip.compress(b"models"), "application/json", **{"Content-Encoding": "gzip"})
    headers = [("Accept-Encoding", "gzip")]

    async with front.of(server.answer), opened(front, tmp_path / "journal") as one:
        async with connected(front.url, version, trusted=front.certificates.authority) as client:
            direct = await client.ask_whole("GET", "/v1/models", headers)
        async with one.connected(version) as client:
            through = await client.ask_whole("GET", "/v1/models", [*headers, ("x-rotoscope-run", "mine")])
        calls = await one.calls()

    assert through == direct
    assert server.asked[0] == server.asked[1]
    assert calls == []


@in_event_loop
async def test_calls_that_are_open_when_recording_ends_are_given_time_to_end(front: Front, tmp_path: Path) -> None:
    is_ending = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers=EVENT_STREAM)
        await response.prepare(request)
        await response.write(sse(chat_chunk({"content": "one"})))
        await is_ending.wait()
        await response.write(sse(chat_chunk({}, "stop"), usage_chunk(), "[DONE]"))
        return response

    async with front.of(answer), opened(front, tmp_path / "journal") as one, one.connected("1.1") as client:
        came = await client.ask("POST", CHAT, JSON, body_of(STREAMED))
        ending = asyncio.create_task(one.calls())
        await asyncio.sleep(0)
        is_ending.set()
        while await came.piece():
            pass
        (call,) = await ending

    assert call.finish_reason == "stop"


@both_versions
@in_event_loop
async def test_bodies_of_many_megabytes_pass_whole(front: Front, tmp_path: Path, version: str) -> None:
    text = "x" * BIG_BYTES
    server = Server(body_of(chat_answer(text)))
    sent = body_of({"model": "m", "messages": [{"role": "user", "content": text}]})

    async with front.of(server.answer), opened(front, tmp_path / "journal") as one:
        async with one.connected(version) as client:
            through = await client.ask_whole("POST", CHAT, JSON, sent)
        (call,) = await one.calls()

    assert through.body == body_of(chat_answer(text))
    assert server.asked[0][2] == sent
    assert (call.prompt_tokens, call.finish_reason) == (20, "stop")


@both_versions
@in_event_loop
async def test_a_compressed_request_is_heard_and_passes_as_it_came(front: Front, tmp_path: Path, version: str) -> None:
    server = Server(body_of(chat_answer()))
    headers: Headers = [*JSON, ("content-encoding", "gzip")]
    packed = gzip.compress(body_of(WHOLE))

    async with front.of(server.answer), opened(front, tmp_path / "journal") as one:
        async with one.connected(version) as client:
            await client.ask_whole("POST", CHAT, headers, packed)
        calls = await one.calls()

    (_, lines, body) = server.asked[0]
    # aiohttp's server unpacks what it hands out; that it had to shows in the header.
    assert (body, dict(lines)[b"content-encoding"]) == (body_of(WHOLE), b"gzip")
    assert dict(lines)[b"content-length"] == str(len(packed)).encode()
    assert len(calls) == 1


@both_versions
@in_event_loop
async def test_an_answer_that_comes_compressed_all_the_same_is_heard_and_passes_as_it_is(
    front: Front, tmp_path: Path, version: str
) -> None:
    packed = gzip.compress(body_of(chat_answer(prompt_tokens=777)))
    server = Server(packed, **{"Content-Encoding": "gzip"})

    async with front.of(server.answer), opened(front, tmp_path / "journal") as one:
        async with one.connected(version) as client:
            through = await client.ask_whole("POST", CHAT, JSON, body_of(WHOLE))
        (call,) = await one.calls()

    assert through.body == packed
    assert dict(through.headers)["content-encoding"] == "gzip"
    assert call.prompt_tokens == 777


@in_event_loop
async def test_a_server_that_breaks_off_breaks_off_for_the_client_too(front: Front, tmp_path: Path) -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers=EVENT_STREAM)
        await response.prepare(request)
        await response.write(sse(chat_chunk({"content": "one"})))
        assert request.transport is not None
        request.transport.abort()
        return response

    async with front.of(answer), opened(front, tmp_path / "journal") as one:
        async with one.connected("1.1") as client:
            came = await client.ask("POST", CHAT, JSON, body_of(STREAMED_WITH_USAGE))
            first = await came.piece()
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError, ValueError)):
                await came.piece()
        (call,) = await one.calls()

    assert first == sse(chat_chunk({"content": "one"}))
    assert call.finish_reason == "error"
    assert one.notices == ["a call failed: its server broke off, or could not be reached"]


@both_versions
@in_event_loop
async def test_an_answer_that_cannot_be_unpacked_breaks_off_for_the_client(
    front: Front, tmp_path: Path, version: str
) -> None:
    has_first = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers=EVENT_STREAM | {"Content-Encoding": "gzip"})
        await response.prepare(request)
        await response.write(gzip.compress(sse(chat_chunk({"content": "one"})))[:-8])
        await has_first.wait()
        await response.write(bytes(1000))
        await asyncio.Event().wait()
        raise AssertionError

    async with front.of(answer), opened(front, tmp_path / "journal") as one:
        async with one.connected(version) as client:
            came = await client.ask("POST", CHAT, JSON, body_of(STREAMED))
            first = await came.piece()
            has_first.set()
            with pytest.raises((AssertionError, ConnectionError, ValueError, asyncio.IncompleteReadError)):
                await came.piece()
        (call,) = await one.calls()

    assert first == sse(chat_chunk({"content": "one"}))
    assert call.finish_reason == "error"
    assert one.notices == ["a call failed: its body is not what its encoding says"]


@in_event_loop
async def test_a_plain_request_through_the_proxy_is_heard(front: Front, tmp_path: Path) -> None:
    server = Server(body_of(chat_answer()))

    async with front.of(server.answer):
        origin = front.origin_file.read_text()
        url = origin.replace("127.0.0.1", "localhost")
        hosts = Hosts((url.removeprefix("http://"),))
        async with (
            opened(front, tmp_path / "journal", hosts=hosts) as one,
            connected(one.proxy, "1.1", trusted="") as client,
        ):
            through = await client.ask_whole("POST", f"{url}{CHAT}", JSON, body_of(WHOLE))
            (call,) = await one.calls()

    assert json.loads(through.body) == chat_answer()
    assert server.asked[0][0] == f"POST {CHAT}"
    assert call.prompt_tokens == 20


@in_event_loop
async def test_a_host_that_is_an_address_is_opened(front: Front, tmp_path: Path) -> None:
    server, address = Server(body_of(chat_answer())), f"127.0.0.1:{front.port}"

    async with front.of(server.answer), opened(front, tmp_path / "journal", hosts=chosen_hosts([address])) as one:
        asking = connected(f"https://{address}", "1.1", trusted=one.authority.certificate, proxy=one.proxy)
        async with asking as client:
            through = await client.ask_whole("POST", CHAT, JSON, body_of(WHOLE))
        calls = await one.calls()

    assert (through.status, len(calls)) == (200, 1)


@in_event_loop
async def test_a_web_socket_passes_and_is_said_to_be_unrecorded(front: Front, tmp_path: Path) -> None:
    tunnels: list[tcp.TCPFlow] = []

    class Keeps:
        def tcp_start(self, flow: tcp.TCPFlow) -> None:
            tunnels.append(flow)

    async with opened(front, tmp_path / "journal") as one:
        ctx.master.addons.add(Keeps())
        context = ssl.create_default_context(cafile=one.authority.certificate)
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"{front.url}/v1/realtime", proxy=one.proxy, ssl=context) as socket,
        ):
            await socket.send_str("hello")
            heard = await socket.receive_str()

    assert heard == "hello"
    assert [flow.messages for flow in tunnels] == [[]]
    assert one.notices == ["a WebSocket was passed on unrecorded: only HTTP is recorded"]
