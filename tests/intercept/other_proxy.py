"""A proxy of somebody else's, that wants a password."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

PASSWORD = "secret of the proxy"
TOKEN = base64.b64encode(f"me:{PASSWORD}".encode())


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
