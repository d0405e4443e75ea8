"""An interception behind which there is another proxy, with a password, as companies have them."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web
from event_loops import in_event_loop
from intercept.asking import VERSIONS
from intercept.fronts import Front
from intercept.opened import opened
from loopback import CHAT, STREAMED, WHOLE, chat_answer, chat_chunk, sse

from rotoscope.proxy.intercept.hosts import Hosts

JSON = [("content-type", "application/json")]
PASSWORD = "secret of the proxy"
TOKEN = base64.b64encode(f"me:{PASSWORD}".encode())

both_versions = pytest.mark.parametrize("version", VERSIONS)


@dataclass
class OtherProxy:
    """Lets those through to a server that know the password."""

    url: str = ""
    connected: list[bytes] = field(default_factory=list)
    """Where to, for each connection that passed."""
    refused: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        head = await reader.readuntil(b"\r\n\r\n")
        method, target = head.split(b" ")[:2]
        if method != b"CONNECT" or b"Proxy-Authorization: Basic " + TOKEN not in head:
            self.refused += 1
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        self.connected.append(target)
        host, port = target.decode().rsplit(":", 1)
        other_reader, other_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_copy(reader, other_writer), _copy(other_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def other_proxy() -> AsyncIterator[OtherProxy]:
    """Run a proxy that asks for a password; its URL holds that."""
    proxy = OtherProxy()
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    async with server:
        proxy.url = f"http://me:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield proxy


async def answer(_: web.Request) -> web.StreamResponse:
    return web.json_response(chat_answer())


@both_versions
@in_event_loop
async def test_the_proxy_of_the_environment_is_gone_through(front: Front, tmp_path: Path, version: str) -> None:
    async with (
        other_proxy() as proxy,
        front.of(answer),
        opened(front, tmp_path / "journal", environment={"https_proxy": proxy.url}) as one,
    ):
        async with one.connected(version) as client:
            through = await client.ask_whole("POST", CHAT, JSON, json.dumps(WHOLE).encode())
        (call,) = await one.calls()

    assert json.loads(through.body) == chat_answer()
    assert (proxy.connected, proxy.refused) == ([f"localhost:{front.port}".encode()], 0)
    assert call.prompt_tokens == 20


@in_event_loop
async def test_the_proxy_of_the_mode_is_gone_through(front: Front, tmp_path: Path) -> None:
    async with (
        other_proxy() as proxy,
        front.of(answer),
        opened(front, tmp_path / "journal", mode=f"upstream:{proxy.url}") as one,
        one.connected("1.1") as client,
    ):
        through = await client.ask_whole("POST", CHAT, JSON, json.dumps(WHOLE).encode())

    assert through.status == 200
    assert proxy.refused == 0


@in_event_loop
async def test_what_is_not_opened_goes_through_it_too(front: Front, tmp_path: Path) -> None:
    async with (
        other_proxy() as proxy,
        front.of(answer),
        opened(front, tmp_path / "journal", hosts=Hosts(), environment={"https_proxy": proxy.url}) as one,
        one.connected_closed() as client,
    ):
        through = await client.ask_whole("POST", CHAT, JSON, json.dumps(WHOLE).encode())
        certificate = client.certificate

    assert (through.status, certificate) == (200, front.certificates.fingerprint)
    assert (proxy.connected, proxy.refused) == ([f"localhost:{front.port}".encode()], 0)


@both_versions
@in_event_loop
async def test_what_is_sent_once_more_goes_through_it_too(front: Front, tmp_path: Path, version: str) -> None:
    said = sse(chat_chunk({"content": "one"}), chat_chunk({}, "stop"), "[DONE]")

    async def refuse(request: web.Request) -> web.StreamResponse:
        if b"stream_options" in await request.read():
            return web.json_response({"error": "stream_options"}, status=400)
        return web.Response(body=said, headers={"Content-Type": "text/event-stream"})

    async with (
        other_proxy() as proxy,
        front.of(refuse),
        opened(front, tmp_path / "journal", environment={"https_proxy": proxy.url}) as one,
        one.connected(version) as client,
    ):
        through = await client.ask_whole("POST", CHAT, JSON, json.dumps(STREAMED).encode())

    assert (through.status, through.body) == (200, said)
    assert (len(proxy.connected), proxy.refused) == (2, 0)


@in_event_loop
async def test_a_wrong_password_is_not_told(front: Front, tmp_path: Path) -> None:
    async with other_proxy() as proxy:
        url = proxy.url.replace("me:", "wrong:")
        async with (
            opened(front, tmp_path / "journal", environment={"https_proxy": url}) as one,
            one.connected("1.1") as client,
        ):
            through = await client.ask_whole("POST", CHAT, JSON, json.dumps(WHOLE).encode())

    assert through.status == 502
    assert proxy.refused > 0
    assert [line for line in one.notices if PASSWORD in line or "wrong" in line] == []
