"""Clients of a soak, on raw connections: they ask, read, dawdle, and leave at any moment, as their plans say."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace

from scripts.soak.dialects import SPOKEN, SYSTEM, Question, Turn
from scripts.soak.ledger import Outcome, RunLedger
from scripts.soak.plans import HEADER, Plan, Weather, cut, draw, header_of
from scripts.soak.upstream import digest_of, reset, said_of

LONGEST_S = 300.0
"""A call that takes as long hangs."""
PAUSE_S = 0.02
USAGE_ADDITION = b',"stream_options":{"include_usage":true}'
SESSION_HEADER = "x-claude-code-session-id"
RUN_HEADER = "x-rotoscope-run"
_PIECE_BYTES = 1 << 18
_READ_BYTES = 1 << 16
_END_MARKS = {
    "chat": b"[DONE]",
    "completions": b"[DONE]",
    "messages": b'"message_stop"',
    "responses": b'"response.completed"',
    "gemini": b'"finishReason"',
}


class Broken(Exception):
    """An answer ended before its end."""


@dataclass(frozen=True)
class Canaries:
    """Texts that must be in nothing that is written, by where they are put."""

    system: str
    user: str
    key: str
    session: str
    query: str
    header: str

    @classmethod
    def drawn(cls, chance: random.Random) -> Canaries:
        """Make some."""
        return cls(*(f"canary-{chance.getrandbits(48):012x}-{name}" for name in cls.__dataclass_fields__))

    def all(self) -> list[str]:
        """Return them all."""
        return [self.system, self.user, self.key, self.session, self.query, self.header]


@dataclass
class Run:
    """A run of a soak: its name, its numbers and what its clients know."""

    ledger: RunLedger
    numbers: Iterator[int]
    canaries: Canaries
    weather: Weather
    digests: dict[str, bytes]
    """By key, of each whole answer; of all runs together."""
    told: Callable[[Outcome, str], None]
    """Told of each request that has ended, with what was wrong."""
    most_turns: int = 12
    """How long its longest conversations grow."""


@dataclass
class Client:
    """One client of a run: a connection, and a conversation that grows."""

    address: tuple[str, int]
    run: Run
    chance: random.Random
    _reader: asyncio.StreamReader | None = None
    _writer: asyncio.StreamWriter | None = None
    _dialect: str = ""
    _turns: list[Turn] = field(default_factory=list)
    _previous: str = ""
    _length: int = 0

    async def work(self) -> None:
        """Make calls until the run has no number left."""
        try:
            for number in self.run.numbers:
                await self._call(number)
        finally:
            self._close()

    async def _call(self, number: int) -> None:
        if len(self._turns) > 2 * self._length or not self._dialect:
            self._begin()
        plan = draw(self.chance, self.run.ledger.name, number, dialect=self._dialect, weather=self.run.weather)
        text = (
            f"{number}: {self.run.canaries.user} "
            + "and then? " * self.chance.randint(2, 200)
            + "x" * plan.filler_bytes
        )
        turn: Turn = ("user", text)
        body = self._body(plan, turn)
        self.run.ledger.open.add(number)
        outcome = await self._outcome(plan, body)
        if plan.server == "refuses, then answers" and outcome == "refused":
            plan = replace(plan, attempt=1)
            outcome = await self._outcome(plan, body)
        self.run.ledger.open.discard(number)
        if plan.filler_bytes or plan.answer_bytes:
            self._dialect = ""
        elif outcome == "whole":
            said = said_of(plan)
            self._turns += [turn, ("assistant", said.text)]
            self._previous = said.name if self._dialect == "responses" else ""
        elif self.chance.random() < 0.3:
            self._turns.append(turn)
            self._previous = ""

    def _begin(self) -> None:
        """Begin a conversation."""
        self._dialect = self.chance.choice(list(SPOKEN))
        self._turns, self._previous, self._length = [], "", self.chance.choice((1, 1, 3, self.run.most_turns))

    def _body(self, plan: Plan, turn: Turn) -> bytes:
        if plan.client == "sends no call":
            return b'{"some": "thing"}' if plan.no_call.startswith("POST") else b""
        goes_on = self._previous and self.chance.random() < 0.5
        question = Question(
            SYSTEM + self.run.canaries.system,
            [turn] if goes_on else [*self._turns, turn],
            plan.is_stream,
            plan.asks_usage,
            self._previous if goes_on else "",
        )
        return json.dumps(SPOKEN[plan.dialect].body(question)).encode()

    async def _outcome(self, plan: Plan, body: bytes) -> Outcome:
        try:
            async with asyncio.timeout(LONGEST_S):
                outcome, reason = await self._perform(plan, body)
        except TimeoutError:
            outcome, reason = "broken", "hangs"
            self._close()
        self.run.ledger.note(outcome, plan.number, is_embedding=plan.dialect == "embeddings" and outcome != "broken")
        self.run.told(outcome, f"{reason}: {plan}" if reason else "")
        return outcome

    async def _perform(self, plan: Plan, body: bytes) -> tuple[Outcome, str]:
        if plan.is_fresh:
            self._close()
        head = self._head(plan, body)
        try:
            if plan.client in ("sends half a header", "sends half a body", "says too long a length"):
                return await self._send_a_part(plan, head, body)
            await self._send(plan, head, body)
        except (ConnectionError, OSError) as error:
            self._close()
            if plan.client == "says too short a length":
                return "unrecorded", ""
            return "broken", f"the request could not be sent ({type(error).__name__})"
        match plan.client:
            case "sends no call":
                return await self._read_no_call(plan)
            case "says too short a length":
                await self._read_anything(plan)
                return "unrecorded", ""
            case "leaves before the answer":
                await asyncio.sleep(self.chance.random() * PAUSE_S)
                self._leave(plan)
                return "unsure", ""
            case _:
                return await self._read(plan)

    async def _send_a_part(self, plan: Plan, head: bytes, body: bytes) -> tuple[Outcome, str]:
        """Send what is no whole request, and leave."""
        data = head + body if plan.client != "sends half a header" else head[:-2]
        if plan.client != "says too long a length":
            data = data[: self.chance.randrange(1 if plan.client == "sends half a header" else len(head), len(data))]
        for piece in cut(self.chance, data, 2):
            await self._write(piece)
        await asyncio.sleep(self.chance.random() * PAUSE_S)
        self._leave(plan)
        return "unrecorded", ""

    async def _send(self, plan: Plan, head: bytes, body: bytes) -> None:
        data = head + (_chunked(self.chance, body) if _has_chunks(plan) else body)
        pieces = cut(self.chance, data, 12) if plan.client == "sends slowly" else [data]
        for piece in pieces:
            await self._write(piece)
            if plan.client == "sends slowly":
                await asyncio.sleep(self.chance.random() * PAUSE_S / 4)

    async def _write(self, data: bytes) -> None:
        if self._writer is None:
            self._reader, self._writer = await self._connect()
        for start in range(0, len(data), _PIECE_BYTES):
            self._writer.write(data[start : start + _PIECE_BYTES])
            await self._writer.drain()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raw = socket.socket()
        raw.setblocking(False)
        if self.chance.random() < 0.2:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await asyncio.get_running_loop().sock_connect(raw, self.address)
        return await asyncio.open_connection(sock=raw, limit=_READ_BYTES)

    def _head(self, plan: Plan, body: bytes) -> bytes:
        canaries, spoken = self.run.canaries, SPOKEN[plan.dialect]
        method, path = "POST", spoken.path_of(is_stream=plan.is_stream)
        if plan.client == "sends no call":
            method, path = plan.no_call.split()
        path += ("&" if "?" in path else "?") + f"key={canaries.query}"
        expected = self._expected(plan, body) if plan.client != "says too short a length" else ""
        lines = [f"{HEADER}: {header_of(plan, expected)}", f"authorization: Bearer {canaries.key}"]
        lines += [f"x-app: {canaries.header}", "host: 127.0.0.1", "content-type: application/json"]
        if self.run.ledger.kind == "session":
            lines.append(f"{SESSION_HEADER}: {canaries.session}-{self.run.ledger.name}")
        elif self.run.ledger.kind == "name" and plan.is_named_by_path:
            path = f"/run/{self.run.ledger.name}{path}"
        elif self.run.ledger.kind == "name":
            lines.append(f"{RUN_HEADER}: {self.run.ledger.name}")
        lines.append(
            "transfer-encoding: chunked" if _has_chunks(plan) else f"content-length: {_told_length(plan, body)}"
        )
        return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode()

    @staticmethod
    def _expected(plan: Plan, body: bytes) -> str:
        """Return the digest of the body that the server should get, and of that which it gets then, if any."""
        if plan.may_lose_usage and plan.client != "sends no call":
            asking = digest_of(body[:-1] + USAGE_ADDITION + b"}").hex()
            return f"{asking} {digest_of(body).hex()}" if plan.is_sent_again else asking
        return digest_of(body).hex()

    async def _read(self, plan: Plan) -> tuple[Outcome, str]:
        """Read an answer, all of it or until the client leaves."""
        assert self._reader is not None
        digest, tail, status, has_ended = hashlib.sha256(), b"", 0, False
        leaves_at = self.chance.randrange(2000) if plan.client == "leaves in the answer" else None
        mark = _END_MARKS.get(plan.dialect, b"") if plan.client == "leaves at the end" and plan.is_stream else b""
        try:
            status, headers = await self._read_head()
            if leaves_at == 0 or (leaves_at is not None and plan.server == "stops in the answer"):
                return self._left(plan)
            size = 0
            async for data in self._pieces(headers, is_slow=plan.client == "reads slowly"):
                digest.update(data)
                size += len(data)
                tail = (tail + data)[-100_000:] if mark else b""
                if leaves_at is not None and size >= leaves_at:
                    return self._left(plan)
                if mark and mark in tail and data.endswith(b"\n\n"):
                    self._leave(plan)
                    break
            has_ended = True
            if plan.client == "leaves at the end":
                self._leave(plan)
            elif headers.get("connection", "") == "close":
                self._close()
        except (Broken, ConnectionError, asyncio.IncompleteReadError):
            self._close()
        return self._judged(plan, status, digest.digest()[:8] if has_ended else b"")

    def _left(self, plan: Plan) -> tuple[Outcome, str]:
        self._leave(plan)
        return ("cancelled" if plan.server == "stops in the answer" else "cut"), ""

    def _judged(self, plan: Plan, status: int, digest: bytes) -> tuple[Outcome, str]:
        """Say what became of a request whose answer was read to its end, or broke off."""
        got = f"status {status}, {'whole' if digest else 'broken off'}"
        match plan.server:
            case "refuses, then answers" if plan.attempt == 0:
                expected, outcome = status == 429 and bool(digest), "refused"
            case "refuses":
                expected, outcome = status == 400 and bool(digest), "refused"
            case "answers before the body has come":
                expected, outcome = True, "refused"
            case "fails":
                expected, outcome = status in (500, 502, 503, 529) and bool(digest), "failed"
            case "closes at once":
                return ("failed", "") if status == 502 and digest else ("broken", got)
            case "breaks off" | "resets in the answer" | "tells of an error":
                return "failed", ""
            case _:
                expected, outcome = status == 200 and bool(digest), "whole"
        if not expected:
            return "broken", got
        if digest and plan.server != "answers before the body has come":
            self.run.digests[plan.key] = digest
        return outcome, ""  # type: ignore[return-value] # one of the literals above

    async def _read_no_call(self, plan: Plan) -> tuple[Outcome, str]:
        try:
            status, headers = await self._read_head()
            if not plan.no_call.startswith("HEAD"):
                async for _ in self._pieces(headers, is_slow=False):
                    pass
        except (Broken, ConnectionError, asyncio.IncompleteReadError):
            self._close()
            return "broken", "no answer to what is no call"
        return ("unrecorded", "") if status == 200 else ("broken", f"status {status} for what is no call")

    async def _read_anything(self, plan: Plan) -> None:
        try:
            _, headers = await self._read_head()
            async for _ in self._pieces(headers, is_slow=False):
                pass
        except (Broken, ConnectionError, asyncio.IncompleteReadError):
            pass
        self._leave(plan)

    async def _read_head(self) -> tuple[int, dict[str, str]]:
        assert self._reader is not None
        first, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines if line)
        return int(first.split()[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}

    async def _pieces(self, headers: dict[str, str], *, is_slow: bool) -> AsyncIterator[bytes]:
        """Yield the body of an answer. Raises Broken where it ends too early."""
        if "transfer-encoding" in headers:
            while True:
                line = await self._line()
                async for data in self._bytes(int(line, 16), is_slow=is_slow):
                    yield data
                await self._line()
                if not int(line, 16):
                    return
        elif "content-length" in headers:
            async for data in self._bytes(int(headers["content-length"]), is_slow=is_slow):
                yield data
        else:
            assert self._reader is not None
            while data := await self._reader.read(_READ_BYTES):
                yield data
            self._close()

    async def _line(self) -> bytes:
        assert self._reader is not None
        line = await self._reader.readline()
        if not line.endswith(b"\n"):
            raise Broken
        return line.strip()

    async def _bytes(self, length: int, *, is_slow: bool) -> AsyncIterator[bytes]:
        assert self._reader is not None
        while length:
            if is_slow:
                await asyncio.sleep(PAUSE_S / 10)
            data = await self._reader.read(min(length, 8192 if is_slow else _READ_BYTES))
            if not data:
                raise Broken
            length -= len(data)
            yield data

    def _leave(self, plan: Plan) -> None:
        self.run.ledger.left.add(plan.number)
        if plan.resets and self._writer is not None:
            reset(self._writer)
        self._close()

    def _close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._reader = self._writer = None


def _has_chunks(plan: Plan) -> bool:
    return plan.is_chunked and plan.client in ("reads", "reads slowly", "sends slowly")


def _chunked(chance: random.Random, body: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in cut(chance, body, 4)) + b"0\r\n\r\n"


def _told_length(plan: Plan, body: bytes) -> int:
    match plan.client:
        case "says too short a length":
            return len(body) // 2
        case "says too long a length":
            return len(body) + 100
        case _:
            return len(body)
