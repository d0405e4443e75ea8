"""Clients of HTTP/1 and HTTP/2 that ask by TLS, through a proxy or not, and leave when a test wants them to."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import h2.config
import h2.connection
import h2.errors
import h2.events
from intercept.fronts import fingerprint

Headers = Sequence[tuple[str, str]]
VERSIONS = ("1.1", "2")


class Answer(Protocol):
    """An answer that is coming."""

    status: int
    headers: Headers
    """Names in lower case."""

    async def piece(self) -> bytes:
        """Return what comes next of the body, nothing at its end."""

    async def leave(self) -> None:
        """Want no more of it."""

    async def go_away(self) -> None:
        """End its connection."""


@dataclass(frozen=True)
class Whole:
    """An answer that has come."""

    status: int
    headers: Headers
    body: bytes

    @property
    def spoken(self) -> str:
        """The version that the server was spoken to in."""
        return dict(self.headers)["x-spoken"]


@dataclass
class Connection:
    """A connection to the server of a URL, by TLS where that says so."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    authority: str
    certificate: str = ""
    """The fingerprint of the server's certificate."""
    http2: h2.connection.H2Connection | None = None
    """The state of HTTP/2, once something was asked in it."""

    async def ask(self, method: str, path: str, headers: Headers = (), body: bytes = b"") -> Answer:
        """Send a request, and return its answer when it begins."""
        selected = self.writer.get_extra_info("ssl_object")
        if selected is not None and selected.selected_alpn_protocol() == "h2":
            return await _Http2(self).ask(method, path, headers, body)
        return await _Http1(self).ask(method, path, headers, body)

    async def ask_whole(self, method: str, path: str, headers: Headers = (), body: bytes = b"") -> Whole:
        """Send a request, and return its answer when it has come."""
        answer = await self.ask(method, path, headers, body)
        pieces = []
        while piece := await answer.piece():
            pieces.append(piece)
        return Whole(answer.status, answer.headers, b"".join(pieces))


@contextlib.asynccontextmanager
async def connected(
    url: str,
    version: str,
    *,
    trusted: Path | str,
    proxy: str | None = None,
    alpn: Sequence[str] | None = None,
    name: str | None = None,
    own: Path | None = None,
) -> AsyncIterator[Connection]:
    """Connect to the server of a URL, and ask there for one of another `name`, with a certificate of its `own`, if given.

    Raises ssl.SSLError where its certificate is not trusted.
    """
    target = urlsplit(url)
    assert target.hostname is not None
    first = urlsplit(proxy) if proxy else target
    reader, writer = await asyncio.open_connection(first.hostname, first.port, limit=1 << 24)
    try:
        certificate = ""
        if proxy:
            await _tunnel(reader, writer, target.netloc, first.netloc.rpartition("@")[0])
        if target.scheme == "https":
            context = ssl.create_default_context(cafile=trusted)
            context.set_alpn_protocols(alpn or (["h2"] if version == "2" else ["http/1.1"]))
            if own is not None:
                context.load_cert_chain(own)
            await writer.start_tls(context, server_hostname=name or target.hostname)
            certificate = fingerprint(writer.get_extra_info("ssl_object").getpeercert(binary_form=True))
        yield Connection(reader, writer, target.netloc, certificate)
    finally:
        writer.transport.abort()


async def _tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authority: str, user: str) -> None:
    token = base64.b64encode(user.encode()).decode()
    with_user = f"Proxy-Authorization: Basic {token}\r\n" if user else ""
    writer.write(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{with_user}\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n")[0]:
        raise ConnectionRefusedError(head)


class _Http1:
    """One answer of HTTP/1."""

    status = 0
    headers: Headers = ()

    def __init__(self, connection: Connection) -> None:
        self._reader, self._writer = connection.reader, connection.writer
        self._authority = connection.authority
        self._left: int | None = None
        """Bytes that are still to come; None where they come in chunks."""

    async def ask(self, method: str, path: str, headers: Headers, body: bytes) -> _Http1:
        lines = [("Host", self._authority), *headers]
        if body:
            lines.append(("Content-Length", str(len(body))))
        head = "".join(f"{name}: {value}\r\n" for name, value in lines)
        self._writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        await self._writer.drain()
        first, *rest = (await self._reader.readuntil(b"\r\n\r\n")).decode().rstrip().split("\r\n")
        self.status = int(first.split()[1])
        pairs = (line.split(":", 1) for line in rest)
        self.headers = [(name.lower(), value.strip()) for name, value in pairs]
        length = dict(self.headers).get("content-length")
        self._left = None if "transfer-encoding" in dict(self.headers) else int(length or 0)
        return self

    async def piece(self) -> bytes:
        if self._left is None:
            size = int((await self._reader.readline()).strip(), 16)
            return (await self._reader.readexactly(size + 2))[:size]
        piece = await self._reader.read(min(self._left, 1 << 16))
        self._left -= len(piece)
        return piece

    async def leave(self) -> None:
        self._writer.transport.abort()

    async def go_away(self) -> None:
        self._writer.close()


class _Http2:
    """One answer of HTTP/2."""

    status = 0
    headers: Headers = ()

    def __init__(self, connection: Connection) -> None:
        self._reader, self._writer = connection.reader, connection.writer
        self._authority = connection.authority
        if connection.http2 is None:
            connection.http2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
            connection.http2.initiate_connection()
        self._state = connection.http2
        self._stream = 0
        self._pieces: list[bytes] = []
        self._is_over = False

    async def ask(self, method: str, path: str, headers: Headers, body: bytes) -> _Http2:
        self._stream = self._state.get_next_available_stream_id()
        lines = [(":method", method), (":path", path), (":scheme", "https"), (":authority", self._authority)]
        lines += [(name.lower(), value) for name, value in headers]
        if body:
            lines.append(("content-length", str(len(body))))
        self._state.send_headers(self._stream, lines, end_stream=not body)
        while body:
            size = min(
                self._state.local_flow_control_window(self._stream), self._state.max_outbound_frame_size, len(body)
            )
            if size:
                self._state.send_data(self._stream, body[:size], end_stream=size == len(body))
                body = body[size:]
            else:
                await self._advance()
        while not self.status:
            await self._advance()
        return self

    async def piece(self) -> bytes:
        while not self._pieces and not self._is_over:
            await self._advance()
        return self._pieces.pop(0) if self._pieces else b""

    async def leave(self) -> None:
        self._state.reset_stream(self._stream, h2.errors.ErrorCodes.CANCEL)
        self._writer.write(self._state.data_to_send())
        await self._writer.drain()

    async def go_away(self) -> None:
        """End the connection, as clients of HTTP/2 do that want nothing more."""
        self._state.close_connection()
        self._writer.write(self._state.data_to_send())
        await self._writer.drain()
        self._writer.close()

    async def _advance(self) -> None:
        """Send what is to be sent, and take in what comes next."""
        self._writer.write(self._state.data_to_send())
        await self._writer.drain()
        data = await self._reader.read(1 << 16)
        assert data, "the connection was closed"
        for event in self._state.receive_data(data):
            self._take(event)
        self._writer.write(self._state.data_to_send())

    def _take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.ResponseReceived():
                lines = [(name, value) for name, value in event.headers]
                self.status = int(dict(lines)[":status"])
                self.headers = [line for line in lines if not line[0].startswith(":")]
            case h2.events.DataReceived():
                self._pieces.append(event.data)
                self._state.acknowledge_received_data(event.flow_controlled_length, self._stream)
            case h2.events.StreamEnded():
                self._is_over = True
            case h2.events.StreamReset():
                raise ConnectionError("the stream was reset")
