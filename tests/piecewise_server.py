"""A server of bytes: each answer is planned, in its framing, its pieces and where it breaks off."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import itertools
import zlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal

from hypothesis import strategies as st
from loopback import read_message

Framing = Literal["length", "chunked", "close"]
Encoding = Literal["", "gzip", "deflate", "damaged", "unknown"]


@dataclass(frozen=True)
class Plan:
    """An answer."""

    text: bytes = b"what was said"
    cuts: tuple[int, ...] = ()
    """Where the body is cut into pieces, in bytes of what is sent."""
    status: int = 200
    kind: str = "text/plain"
    framing: Framing = "chunked"
    encoding: Encoding = ""
    breaks: bool = False
    """Whether the connection closes in the middle of the last piece."""

    @property
    def body(self) -> bytes:
        """What is sent."""
        match self.encoding:
            case "gzip":
                return gzip.compress(self.text, mtime=0)
            case "deflate":
                return zlib.compress(self.text)
            case _:
                return self.text

    @property
    def pieces(self) -> list[bytes]:
        """The body, in pieces."""
        ends = sorted({min(cut, len(self.body)) for cut in self.cuts} | {0, len(self.body)})
        return [self.body[start:end] for start, end in itertools.pairwise(ends)]

    @property
    def head(self) -> bytes:
        """Status and header lines."""
        lines = [f"HTTP/1.1 {self.status} So So", f"Content-Type: {self.kind}", "X-Told: one", "X-Told: two"]
        if self.encoding:
            lines.append(f"Content-Encoding: {'gzip' if self.encoding == 'damaged' else self.encoding}")
        if self.framing == "length":
            lines.append(f"Content-Length: {len(self.body)}")
        if self.framing == "chunked":
            lines.append("Transfer-Encoding: chunked")
        return "\r\n".join([*lines, "Connection: close", "", ""]).encode()

    def framed(self) -> list[bytes]:
        """Return what is sent behind the head, in pieces."""
        pieces = self.pieces
        if self.framing == "chunked":
            pieces = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces]
            pieces += [] if self.breaks else [b"0\r\n\r\n"]
        if self.breaks and pieces:
            pieces[-1] = pieces[-1][: len(pieces[-1]) // 2]
        return pieces


PLANS = st.builds(
    Plan,
    text=st.binary(max_size=60) | st.just(b"data: {}\n\n" * 5) | st.binary(min_size=300, max_size=300),
    cuts=st.lists(st.integers(0, 80), max_size=5).map(tuple),
    status=st.sampled_from([200, 200, 200, 400, 429, 500]),
    kind=st.sampled_from(["text/plain", "text/event-stream", "application/json"]),
    framing=st.sampled_from(["length", "chunked", "close"]),
    encoding=st.sampled_from(["", "", "gzip", "deflate", "damaged", "unknown"]),
    breaks=st.sampled_from([False, False, True]),
)


@dataclass
class PiecewiseServer:
    """Answers as planned, to one request a connection."""

    plan: Plan = field(default_factory=Plan)
    requests: list[bytes] = field(default_factory=list)
    _open: set[asyncio.Task[None] | None] = field(default_factory=set)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection."""
        self._open.add(asyncio.current_task())
        try:
            self.requests.append(await read_message(reader))
            writer.write(self.plan.head)
            for piece in self.plan.framed():
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            self._open.discard(asyncio.current_task())

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve; give the origin."""
        server = await asyncio.start_server(self.answer, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            for _ in range(10):  # a client that left at once may have been let in just now
                await asyncio.sleep(0)
            await asyncio.gather(*filter(None, self._open))
