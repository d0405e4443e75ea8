"""A server that does what the plan of each request says, in a process of its own: answers, and all that can go wrong."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import json
import multiprocessing
import random
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from scripts.soak.dialects import SPOKEN, Said, event, is_usage_alone
from scripts.soak.plans import HEADER, Plan, cut, plan_of

HELD_S = 120.0
"""A connection that nobody closes for so long has been forgotten."""
PAUSE_S = 0.01
_LINE_LIMIT = 1 << 18
_GARBAGE = (
    b"data: {not json\n\n",
    b": a comment\n\n",
    b"data: \xff\xfe\x00\n\n",
    b"event: odd\n\n",
    b"data: 7\n\n",
    b"retry: 5\r\n\r\n",
    b'data: {"unknown": []}\n\n',
)


@dataclass
class Seen:
    """What the server knows of the run of a soak."""

    requests: int = 0
    repeated: int = 0
    """Requests that came twice: the gateway may repeat none."""
    changed: list[str] = field(default_factory=list)
    """Requests whose body is not what it should be."""
    held: int = 0
    """Connections that were held until they were closed."""
    holding: int = 0
    """Those that are being held."""
    forgotten: int = 0
    """Those that nobody closed."""
    digests: dict[str, bytes] = field(default_factory=dict)
    """By key, of the body of each answer that was sent whole, usage aside that is withheld."""
    keys: set[str] = field(default_factory=set)
    again: set[str] = field(default_factory=set)
    """Those that came a second time, as they were refused with what the gateway had added."""


def digest_of(data: bytes) -> bytes:
    """Return a short digest of a body."""
    return hashlib.sha256(data).digest()[:8]


def said_of(plan: Plan, prompt_tokens: int = 1) -> Said:
    """Return what the answer to a request says: as many words as its number."""
    chance = random.Random(plan.seed)
    words = [f"w{chance.randrange(1000)} " for _ in range(plan.number)]
    step = max(1, len(words) // 12)
    pieces = ["".join(words[start : start + step]) for start in range(0, len(words), step)]
    if plan.answer_bytes:
        pieces.extend(["lorem ipsum " * 400] * (plan.answer_bytes // 4800))
    return Said(pieces, max(2, prompt_tokens), plan.number, f"resp_{plan.key}")


class Server:
    """Acts on plans."""

    def __init__(self) -> None:
        self.seen = Seen()
        self._open: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection."""
        try:
            while await self._request(reader, writer):
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection goes on."""
        method, headers = _head(await reader.readuntil(b"\r\n\r\n"))
        self.seen.requests += 1
        if HEADER.encode() not in headers:
            await _read_body(reader, headers)
            _send_whole(writer, 200, b"", framing="length")
            return True
        plan, expected = plan_of(headers[HEADER.encode()])
        is_again = plan.key in self.seen.keys
        self.seen.repeated += is_again and (not plan.is_sent_again or plan.key in self.seen.again)
        (self.seen.again if is_again else self.seen.keys).add(plan.key)
        if plan.server == "answers before the body has come":
            _send_whole(writer, 413, b'{"error": {"message": "too large"}}', framing="close")
            return False
        size, digest, tail = await _read_body(reader, headers)
        if expected and digest.hex() != expected.split()[is_again and plan.is_sent_again]:
            self.seen.changed.append(plan.key)
        if plan.client == "sends no call":
            _send_whole(
                writer, 200, b"" if method == b"HEAD" else b'{"data": []}', framing="length", is_head=method == b"HEAD"
            )
            return True
        return await self._act(plan, size, tail, reader, writer)

    async def _act(
        self, plan: Plan, size: int, tail: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        match plan.server:
            case "never answers":
                return await self._hold(reader)
            case "closes at once":
                return False
            case "fails" | "refuses":
                return self._refuse(
                    plan, 400 if plan.server == "refuses" else (500, 502, 503, 529)[plan.seed % 4], writer
                )
            case "refuses, then answers" if plan.attempt == 0:
                return self._refuse(plan, 429, writer)
            case _:
                return await self._answer(plan, size // 4, b"include_usage" in tail, reader, writer)

    def _refuse(self, plan: Plan, status: int, writer: asyncio.StreamWriter) -> bool:
        body = b"<html>no</html>" if plan.seed % 3 == 0 else b'{"error": {"message": "no", "type": "t", "code": 7}}'
        self.seen.digests[plan.key] = digest_of(body)
        _send_whole(writer, status, body, framing="length")
        return True

    async def _answer(
        self,
        plan: Plan,
        prompt_tokens: int,
        tells_usage: bool,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        chance = random.Random(plan.seed)
        pieces = list(_pieces(plan, said_of(plan, prompt_tokens), tells_usage=tells_usage))
        sent, forwarded = (
            b"".join(piece for piece, _ in pieces),
            b"".join(piece for piece, is_kept in pieces if is_kept),
        )
        framing = "chunked" if plan.is_stream and plan.framing == "length" else plan.framing
        kind = b"text/event-stream" if plan.is_stream else b"application/json"
        data = gzip.compress(sent, 1) if plan.is_zipped else sent
        extra = b"Content-Encoding: gzip\r\n" if plan.is_zipped else b""
        writer.write(_answer_head(200, kind, framing, len(data), extra))
        stop = len(data) if plan.server not in _CUT else chance.randrange(int(len(data) * 0.6) + 1)
        for piece in cut(chance, data[:stop], 6):
            _send(writer, piece, framing)
            await writer.drain()
            if chance.random() < 0.3:
                await asyncio.sleep(chance.random() * PAUSE_S)
        if plan.server == "stops in the answer":
            return await self._hold(reader)
        if plan.server == "resets in the answer":
            reset(writer)
        if plan.server in _CUT:
            return False
        self.seen.digests[plan.key] = digest_of(forwarded if plan.may_lose_usage else sent)
        if plan.client == "leaves at the end" and plan.is_stream:
            return await self._hold(reader)
        if framing == "chunked":
            writer.write(b"0\r\n\r\n")
        return framing != "close"

    async def _hold(self, reader: asyncio.StreamReader) -> bool:
        """Wait until the other side closes."""
        self.seen.held += 1
        self.seen.holding += 1
        try:
            async with asyncio.timeout(HELD_S):
                await reader.read(1)
        except TimeoutError:
            self.seen.forgotten += 1
        except ConnectionError:
            pass
        finally:
            self.seen.holding -= 1
        return False


_CUT = ("breaks off", "resets in the answer", "stops in the answer")


def _pieces(plan: Plan, said: Said, *, tells_usage: bool) -> Iterator[tuple[bytes, bool]]:
    """Yield an answer in its events, and whether each reaches a client that did not ask for usage."""
    spoken = SPOKEN[plan.dialect]
    if not plan.is_stream:
        yield json.dumps(spoken.whole(said)).encode(), True
        return
    chance = random.Random(plan.seed + 1)
    events = spoken.events(said)
    if plan.server == "tells of an error":
        events = [
            *events[: len(events) // 2],
            event({"type": "error", "error": {"message": "no", "type": "t"}}, "error"),
        ]
    for data in events:
        if plan.server == "answers garbage too" and chance.random() < 0.5:
            yield chance.choice(_GARBAGE), True
        is_usage = is_usage_alone(data)
        if tells_usage or not is_usage:
            yield data, not is_usage


def _head(data: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    first, *lines = data.split(b"\r\n")
    pairs = (line.partition(b":") for line in lines if line)
    return first.partition(b" ")[0], {name.strip().lower(): value.strip() for name, _, value in pairs}


async def _read_body(reader: asyncio.StreamReader, headers: dict[bytes, bytes]) -> tuple[int, bytes, bytes]:
    """Return size, digest and last bytes of a body."""
    size, digest, tail = 0, hashlib.sha256(), b""

    async def take(length: int) -> None:
        nonlocal size, tail
        while length:
            data = await reader.read(min(length, 1 << 18))
            if not data:
                raise asyncio.IncompleteReadError(b"", length)
            digest.update(data)
            size, length, tail = size + len(data), length - len(data), (tail + data)[-256:]

    if b"chunked" in headers.get(b"transfer-encoding", b""):
        while length := int((await reader.readline()).partition(b";")[0], 16):
            await take(length)
            await reader.readexactly(2)
        await reader.readline()
    else:
        await take(int(headers.get(b"content-length", b"0")))
    return size, digest.digest()[:8], tail


def _answer_head(status: int, kind: bytes, framing: str, length: int, extra: bytes = b"") -> bytes:
    lines = {
        "length": b"Content-Length: %d\r\n" % length,
        "chunked": b"Transfer-Encoding: chunked\r\n",
        "close": b"Connection: close\r\n",
    }
    return b"HTTP/1.1 %d X\r\nContent-Type: %b\r\n%b%b\r\n" % (status, kind, lines[framing], extra)


def _send_whole(writer: asyncio.StreamWriter, status: int, body: bytes, *, framing: str, is_head: bool = False) -> None:
    writer.write(_answer_head(status, b"application/json", framing, len(body)) + (b"" if is_head else body))


def _send(writer: asyncio.StreamWriter, data: bytes, framing: str) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data) if framing == "chunked" else data)


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection so that the other side gets a reset."""
    raw = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _run(pipe: Connection) -> None:
    """Serve until told to end; answer each question with what was seen."""

    async def main() -> None:
        ended, server = asyncio.Event(), Server()

        def answer() -> None:
            try:
                asked = pipe.recv()
            except EOFError:
                asked = "end"
            if asked == "end":
                ended.set()
                asyncio.get_running_loop().remove_reader(pipe.fileno())
            else:
                pipe.send(server.seen)

        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=_LINE_LIMIT, backlog=1024)
        pipe.send(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}")
        asyncio.get_running_loop().add_reader(pipe.fileno(), answer)
        await ended.wait()
        listening.close()

    asyncio.run(main())
    sys.stdout.flush()


@dataclass(frozen=True)
class Upstream:
    """The server in its process."""

    origin: str
    _pipe: Connection

    def seen(self) -> Seen:
        """Return what it has seen so far."""
        self._pipe.send("seen")
        seen: Seen = self._pipe.recv()
        return seen


@contextlib.contextmanager
def upstream() -> Iterator[Upstream]:
    """Run the server."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    child = spawn.Process(target=_run, args=(theirs,), daemon=True)
    child.start()
    theirs.close()
    try:
        yield Upstream(ours.recv(), ours)
    finally:
        with contextlib.suppress(OSError):
            ours.send("end")
        child.join(10)
        if child.is_alive():
            child.kill()
