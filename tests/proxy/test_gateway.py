"""What the upstream receives, and how the gateway starts, stops and speaks."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
import zstandard
from aiohttp import web
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

from rotoscope.proxy.gateway import Gateway
from rotoscope.proxy.upstream import open_session, upstream_given
from rotoscope.recorder.recorded_run import Run
from rotoscope.traces.model import Call, Embedding

EMPTY_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def received(request: bytes, journal: Path) -> tuple[bytes, list[bytes], bytes]:
    """Send a raw request through a gateway; return line, header lines and body as the upstream received them."""

    async def run() -> bytes:
        upstream = RawUpstream(EMPTY_ANSWER)
        async with serving_bytes(upstream) as origin, recording(origin, journal) as gateway:
            await exchange_bytes(gateway.origin, request)
        (message,) = upstream.requests
        return message

    head, _, body = asyncio.run(run()).partition(b"\r\n\r\n")
    line, *headers = head.split(b"\r\n")
    return line, headers, body


@pytest.mark.parametrize(
    "line",
    [
        b"GET /v1/models?a=%2F&b=a+b;c=%zz&key=%C3%A9 HTTP/1.1",
        b"DELETE /v1/./files//x/../y%20z HTTP/1.1",
        b"HEAD / HTTP/1.1",
        b"PATCH /anything HTTP/1.1",
        b"OPTIONS /v1/chat/completions HTTP/1.1",
        b"LOCK /odd HTTP/1.1",
    ],
)
def test_method_path_and_query_arrive_as_they_were_sent(line: bytes, tmp_path: Path) -> None:
    request = line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    assert received(request, tmp_path / "journal")[0] == line


def test_header_lines_arrive_but_for_those_of_the_connection(tmp_path: Path) -> None:
    lines = [b"x-Api-KEY: secret", b"Accept-Encoding: br, gzip", b"X-Twice: 1", b"X-Twice: 2", b"Cookie: a=b"]
    request = b"\r\n".join([b"GET /v1/models HTTP/1.1", b"Host: localhost", *lines, b"Connection: close", b"", b""])

    _, headers, _ = received(request, tmp_path / "journal")

    assert [header for header in headers if not header.startswith(b"Host: 127.0.0.1:")] == lines


def test_recorded_call_asks_for_identity_encoding_and_keeps_every_other_line(tmp_path: Path) -> None:
    body = json.dumps(WHOLE).encode()
    lines = [b"Authorization: Bearer secret", b"Content-Type: application/json"]
    request = b"\r\n".join(
        [
            b"POST /v1/chat/completions HTTP/1.1",
            b"Host: localhost",
            *lines,
            b"accept-encoding: gzip, zstd",
            b"Content-Length: %d" % len(body),
            b"Connection: close",
            b"",
            body,
        ]
    )

    _, headers, arrived = received(request, tmp_path / "journal")

    assert arrived == body
    assert [header for header in headers if not header.startswith((b"Host:", b"Content-Length:"))] == [
        *lines,
        b"Accept-Encoding: identity",
    ]


@pytest.mark.parametrize("path", ["/v1/embeddings", CHAT])
def test_body_of_100_mb_arrives_whole(path: str, tmp_path: Path) -> None:
    body = bytes(range(256)) * (100 * 1024 * 4)
    arrived: list[str] = []

    async def digest(request: web.Request) -> web.Response:
        arrived.append(hashlib.sha256(await request.read()).hexdigest())
        return web.Response()

    async def run() -> int:
        async with (
            serving(digest) as origin,
            recording(origin, tmp_path / "journal") as gateway,
            aiohttp.ClientSession() as client,
            client.post(gateway.origin + path, data=io.BytesIO(body)) as answer,
        ):
            return answer.status

    assert asyncio.run(run()) == 200
    assert arrived == [hashlib.sha256(body).hexdigest()]


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.compress)])
@pytest.mark.parametrize("body", [WHOLE, STREAMED])
def test_compressed_request_is_recorded_and_arrives_as_it_came_unless_usage_is_asked_for(
    encoding: str, pack: Callable[[bytes], bytes], body: dict[str, Any], tmp_path: Path
) -> None:
    packed = pack(json.dumps(body).encode())
    whole = json.dumps(chat_answer()).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    upstream = RawUpstream(head + b"Content-Length: %d\r\n\r\n" % len(whole) + whole)

    async def run() -> list[Call]:
        async with serving_bytes(upstream) as origin, recording(origin, tmp_path / "journal") as gateway:
            await exchange_bytes(gateway.origin, packed_request(encoding, packed))
            return await gateway.calls()

    calls = asyncio.run(run())
    lines, _, arrived = upstream.requests[0].partition(b"\r\n\r\n")

    assert [call.prompt_tokens for call in calls] == [20]
    if body is WHOLE:
        assert f"Content-Encoding: {encoding}".encode() in lines
        assert arrived == packed
    else:
        assert b"Content-Encoding" not in lines
        assert json.loads(arrived) == STREAMED_WITH_USAGE


def packed_request(encoding: str, body: bytes) -> bytes:
    head = f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Encoding: {encoding}\r\n"
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


@pytest.mark.parametrize(
    ("encoding", "body"), [("br", b"x"), ("gzip", b"x"), ("zstd", b"x"), ("gzip", gzip.compress(b"{}", mtime=0)[:-9])]
)
def test_request_that_cannot_be_unpacked_passes_unrecorded_and_that_is_told(
    encoding: str, body: bytes, tmp_path: Path
) -> None:
    upstream = RawUpstream(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    async def run() -> tuple[bytes, list[str], list[Call]]:
        async with serving_bytes(upstream) as origin, recording(origin, tmp_path / "journal") as gateway:
            answer = await exchange_bytes(gateway.origin, packed_request(encoding, body))
            return answer, gateway.notices, await gateway.calls()

    answer, notices, calls = asyncio.run(run())

    assert answer.endswith(b"{}")
    assert upstream.requests[0].endswith(body)
    assert (len(notices), calls) == (1, [])


def test_upload_passes_as_it_comes(tmp_path: Path) -> None:
    first_arrived = asyncio.Event()

    async def upstream(request: web.Request) -> web.Response:
        first = await request.content.readany()
        first_arrived.set()
        return web.Response(body=first + await request.content.read())

    async def parts() -> Any:
        yield b"first"
        await asyncio.wait_for(first_arrived.wait(), PATIENCE_S)
        yield b" second"

    async def run() -> bytes:
        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        async with (
            serving(upstream) as origin,
            recording(origin, tmp_path / "journal") as gateway,
            aiohttp.ClientSession() as client,
            client.post(gateway.origin + "/v1/files", data=parts(), headers=headers) as answer,
        ):
            return await answer.read()

    assert asyncio.run(run()) == b"first second"


@pytest.mark.parametrize("target", [b"http://127.0.0.1:1/v1/models", b"@127.0.0.1:1/v1", b"*"])
def test_target_that_is_no_path_is_refused_and_reaches_nobody(target: bytes, tmp_path: Path) -> None:
    async def run() -> tuple[bytes, list[bytes]]:
        upstream = RawUpstream(EMPTY_ANSWER)
        async with serving_bytes(upstream) as origin, recording(origin, tmp_path / "journal") as gateway:
            request = b"OPTIONS " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            return await exchange_bytes(gateway.origin, request), upstream.requests

    answer, requests = asyncio.run(run())

    assert answer.split()[1].startswith(b"4")
    assert requests == []


def test_requests_of_many_clients_share_kept_connections(tmp_path: Path) -> None:
    peers: list[Any] = []

    async def upstream(request: web.Request) -> web.Response:
        peers.append(request.transport and request.transport.get_extra_info("peername"))
        await request.read()
        return web.json_response(chat_answer())

    async def run() -> None:
        async with serving(upstream) as origin, recording(origin, tmp_path / "journal") as gateway:
            for _ in range(3):
                async with aiohttp.ClientSession() as client, client.post(gateway.origin + CHAT, json=WHOLE) as answer:
                    await answer.read()

    asyncio.run(run())

    assert len(peers) == 3
    assert len(set(peers)) == 1


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_request_is_sent_once_even_into_a_kept_connection_that_the_upstream_closes(method: str, tmp_path: Path) -> None:
    seen: list[bytes] = []

    async def upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", b""):
            head = await reader.readuntil(b"\r\n\r\n")
            seen.append(head.split(b" ")[1])
            writer.write(answer)
        writer.close()

    async def run() -> list[int]:
        server = await asyncio.start_server(upstream, "127.0.0.1", 0)
        origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, recording(origin, tmp_path / "journal") as gateway, aiohttp.ClientSession() as client:
            statuses = []
            for path in ("/first", "/second"):
                async with client.request(method, gateway.origin + path) as answer:
                    statuses.append(answer.status)
            return statuses

    assert asyncio.run(run()) == [200, 502]
    assert seen == [b"/first", b"/second"]


def test_client_that_wants_to_be_asked_for_its_body_is_asked(tmp_path: Path) -> None:
    body = json.dumps(WHOLE).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nExpect: 100-continue\r\n"
    upstream = RawUpstream(EMPTY_ANSWER)

    async def run() -> bytes:
        async with serving_bytes(upstream) as origin, recording(origin, tmp_path / "journal") as gateway:
            host, port = gateway.origin.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body))
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            writer.write(body)
            answer = await reader.read()
            writer.close()
            return answer

    assert asyncio.run(run()).startswith(b"HTTP/1.1 200 OK")
    assert upstream.requests[0].endswith(body)
    assert b"Expect" not in upstream.requests[0]


class NoRuns:
    """Cannot begin a run, as when no descriptor is left."""

    def find(self, headers: Mapping[str, str], body: bytes, *, name: str, port: str) -> Run:
        """Fail."""
        raise OSError("secret")


def test_call_passes_unrecorded_when_no_run_can_begin() -> None:
    async def upstream(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    async def run() -> tuple[list[bytes], list[str]]:
        notices: list[str] = []
        async with serving(upstream) as origin, open_session(chosen := upstream_given(origin)) as session:
            gateway = Gateway(chosen, NoRuns(), session=session, notice=notices.append)
            await gateway.start()
            async with aiohttp.ClientSession(gateway.origin) as client:
                answers = [await (await client.post(CHAT, data=body)).read() for body in (b"one", b"two")]
            await gateway.stop(drain_s=0.0)
            return answers, notices

    answers, notices = asyncio.run(run())

    assert answers == [b"one", b"two"]
    assert notices == ["requests are passed on unrecorded: no run can begin (OSError)"]


def test_stop_lets_open_requests_end(tmp_path: Path) -> None:
    arrived, may_end = asyncio.Event(), asyncio.Event()

    async def upstream(_: web.Request) -> web.Response:
        arrived.set()
        await may_end.wait()
        return web.Response(text="done")

    async def run() -> str:
        async with (
            serving(upstream) as origin,
            recording(origin, tmp_path / "journal") as gateway,
            aiohttp.ClientSession() as client,
        ):
            request = asyncio.create_task(client.get(gateway.origin + "/slow"))
            await arrived.wait()
            stopping = asyncio.create_task(gateway.gateway.stop(drain_s=PATIENCE_S))
            may_end.set()
            answer = await request
            text = await answer.text()
            await stopping
            return text

    assert asyncio.run(run()) == "done"


def test_stop_cuts_calls_that_do_not_end(tmp_path: Path) -> None:
    arrived, cut = asyncio.Event(), asyncio.Event()

    async def upstream(request: web.Request) -> web.Response:
        await request.read()
        arrived.set()
        try:
            await asyncio.Event().wait()
        finally:
            cut.set()
        return web.Response()

    async def run() -> list[Call]:
        async with (
            serving(upstream) as origin,
            recording(origin, tmp_path / "journal") as gateway,
            aiohttp.ClientSession() as client,
        ):
            request = asyncio.create_task(client.post(gateway.origin + CHAT, json=WHOLE))
            await arrived.wait()
            await gateway.gateway.stop(drain_s=0.0)
            with pytest.raises(aiohttp.ClientError):
                await request
            await asyncio.wait_for(cut.wait(), PATIENCE_S)
            return await gateway.calls()

    assert [call.finish_reason for call in asyncio.run(run())] == ["cancelled"]


def test_many_calls_wait_at_the_upstream_at_once(tmp_path: Path) -> None:
    calls = 150
    arrived, all_arrived = [0], asyncio.Event()

    async def upstream(request: web.Request) -> web.Response:
        await request.read()
        arrived[0] += 1
        if arrived[0] == calls:
            all_arrived.set()
        await asyncio.wait_for(all_arrived.wait(), PATIENCE_S)
        return web.json_response(chat_answer())

    async def run() -> int:
        async with (
            serving(upstream) as origin,
            recording(origin, tmp_path / "journal") as gateway,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client,
        ):
            await asyncio.gather(*(client.post(gateway.origin + CHAT, json=WHOLE) for _ in range(calls)))
            return len(await gateway.calls())

    assert asyncio.run(run()) == calls


def test_header_lines_of_100_kb_pass_both_ways(tmp_path: Path) -> None:
    line = b"X-Long: " + b"x" * 100_000
    upstream = RawUpstream(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + line + b"\r\n\r\n")

    async def run() -> bytes:
        async with serving_bytes(upstream) as origin, recording(origin, tmp_path / "journal") as gateway:
            return await exchange_bytes(
                gateway.origin, b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + line + b"\r\n\r\n"
            )

    assert line in asyncio.run(run()).split(b"\r\n")
    assert line in upstream.requests[0].split(b"\r\n")


def test_cookies_of_one_client_are_not_sent_for_another(tmp_path: Path) -> None:
    upstream = RawUpstream(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nContent-Length: 0\r\n\r\n")
    request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

    async def run() -> None:
        async with serving_bytes(upstream) as origin:
            named = origin.replace("127.0.0.1", "localhost")  # aiohttp keeps no cookies of addresses
            async with recording(named, tmp_path / "journal") as gateway:
                for _ in range(2):
                    await exchange_bytes(gateway.origin, request)

    asyncio.run(run())

    assert not any(b"cookie" in message.lower() for message in upstream.requests)


LOOK: Any = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


async def tool_server(request: web.Request) -> web.StreamResponse:
    """Answer with two parallel tool calls when there are tools, else with text; in a stream when asked for one."""
    body = await request.json()
    calls = [
        {"index": i, "id": f"call_{i}", "type": "function", "function": {"name": "look", "arguments": '{"a": "é"}'}}
        for i in range(2)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls} if "tools" in body else {"content": "héllo"}
    if not body.get("stream"):
        whole = chat_answer()
        whole["choices"][0]["message"] |= message
        return web.json_response(whole)
    events: list[Any] = [chat_chunk({"role": "assistant"}), chat_chunk(message), chat_chunk({}, "stop")]
    if (body.get("stream_options") or {}).get("include_usage"):
        events.append(usage_chunk())
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for event in events:
        await response.write(sse(event))
    await response.write(sse("[DONE]"))
    return response


def asked_by_sync_client(base_url: str, **arguments: Any) -> Any:
    """Return what the openai client makes of an answer."""
    with openai.OpenAI(api_key="key", base_url=base_url, max_retries=0) as client:
        answer: Any = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "x"}], **arguments
        )
        return [chunk.model_dump() for chunk in answer] if arguments.get("stream") else answer.model_dump()


async def asked_by_async_client(base_url: str, **arguments: Any) -> Any:
    """Return the same through the client for asyncio."""
    async with openai.AsyncOpenAI(api_key="key", base_url=base_url, max_retries=0) as client:
        answer: Any = await client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "x"}], **arguments
        )
        return [chunk.model_dump() async for chunk in answer] if arguments.get("stream") else answer.model_dump()


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("tools", [{}, {"tools": [LOOK]}])
@pytest.mark.parametrize(
    "stream", [{}, {"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}], ids=str
)
def test_openai_client_gets_what_it_gets_without_the_gateway(
    stream: dict[str, Any], tools: dict[str, Any], is_async: bool, tmp_path: Path
) -> None:
    async def ask(origin: str) -> Any:
        arguments = stream | tools
        if is_async:
            return await asked_by_async_client(origin + "/v1", **arguments)
        return await asyncio.to_thread(asked_by_sync_client, origin + "/v1", **arguments)

    async def run() -> tuple[Any, Any, list[Call]]:
        async with serving(tool_server) as origin, recording(origin, tmp_path / "journal") as gateway:
            direct, through = await ask(origin), await ask(gateway.origin)
            return direct, through, await gateway.calls()

    direct, through, calls = asyncio.run(run())

    assert through == direct
    assert [(call.prompt_tokens, call.completion_tokens, len(call.tool_calls)) for call in calls] == [
        (20, 5, 2 if tools else 0)
    ]


def test_embeddings_are_heard_and_are_no_calls(tmp_path: Path) -> None:
    async def embed(request: web.Request) -> web.StreamResponse:
        if request.path == CHAT:
            return web.json_response(chat_answer())
        return web.json_response({"data": [{"embedding": [0.5]}], "usage": {"prompt_tokens": 7, "total_tokens": 7}})

    async def run() -> tuple[int, list[Embedding]]:
        async with (
            serving(embed) as origin,
            recording(origin, tmp_path / "journal") as gateway,
            aiohttp.ClientSession(gateway.origin) as client,
        ):
            for path, body in ((CHAT, WHOLE), ("/v1/embeddings", {"model": "m", "input": "hello"})):
                async with client.post(path, json=body) as response:
                    await response.read()
            await gateway.gateway.stop(drain_s=PATIENCE_S)
            trace = gateway.recorder.close()
            assert trace is not None
            return gateway.gateway.calls, [event for event in trace.events if isinstance(event, Embedding)]

    calls, embeddings = asyncio.run(run())

    assert calls == 1
    assert [embedding.prompt_tokens for embedding in embeddings] == [7]
