"""What happens to each request, drawn from a seed: how its client behaves, and how its server does.

A plan goes to the server in the header of its request, so that both sides act on it without a word between them. In an
answer that ends, the number of completion tokens is the number of the request in its run, so that a trace tells which
calls it holds.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, TypeVar

from scripts.soak.dialects import SPOKEN

HEADER = "x-soak"
SLOW_ANSWER_BYTES = 300_000
BIG_BODY_BYTES = (20 << 20, 100 << 20)

Client = Literal[
    "reads",
    "reads slowly",
    "sends slowly",
    "leaves before the answer",
    "leaves in the answer",
    "leaves at the end",
    "sends half a header",
    "sends half a body",
    "says too short a length",
    "says too long a length",
    "sends no call",
]
Server = Literal[
    "answers",
    "breaks off",
    "resets in the answer",
    "closes at once",
    "fails",
    "refuses, then answers",
    "refuses",
    "never answers",
    "stops in the answer",
    "answers garbage too",
    "tells of an error",
    "answers before the body has come",
]
Framing = Literal["length", "chunked", "close"]
NoCall = Literal["HEAD /", "GET /v1/models", "POST /v1/unknown", "OPTIONS /v1/chat/completions"]

CLIENTS: dict[Client, int] = {
    "reads": 620,
    "reads slowly": 20,
    "sends slowly": 40,
    "leaves before the answer": 50,
    "leaves in the answer": 80,
    "leaves at the end": 50,
    "sends half a header": 20,
    "sends half a body": 30,
    "says too short a length": 15,
    "says too long a length": 15,
    "sends no call": 60,
}
"""In a thousand requests."""
SERVERS: dict[Server, int] = {
    "answers": 820,
    "breaks off": 20,
    "resets in the answer": 30,
    "closes at once": 20,
    "fails": 30,
    "refuses, then answers": 40,
    "refuses": 10,
    "answers garbage too": 20,
    "tells of an error": 10,
}
"""In a thousand requests of clients that wait for their answer."""

T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """What happens to one request."""

    run: str
    number: int
    """In its run, from 1."""
    dialect: str
    client: Client
    server: Server
    seed: int
    is_stream: bool = False
    asks_usage: bool = False
    framing: Framing = "length"
    is_zipped: bool = False
    resets: bool = False
    """Whether a client that leaves resets its connection."""
    is_fresh: bool = False
    """Whether it takes a new connection."""
    is_chunked: bool = False
    """Whether the body of the request has no length."""
    is_named_by_path: bool = False
    filler_bytes: int = 0
    """How much is added to the request."""
    answer_bytes: int = 0
    """How much is added to the answer."""
    no_call: NoCall = "HEAD /"
    attempt: int = 0

    @property
    def key(self) -> str:
        """What the request is called on both sides."""
        return f"{self.run}.{self.number}.{self.attempt}"

    @property
    def may_lose_usage(self) -> bool:
        """Whether the gateway asks for usage in the client's place, and withholds it."""
        return self.is_stream and not self.asks_usage and self.dialect in ("chat", "completions")

    @property
    def is_sent_again(self) -> bool:
        """Whether the gateway sends it once more as it came, as it is refused with what was added."""
        return self.may_lose_usage and self.server == "refuses" and self.client != "sends no call"


def header_of(plan: Plan, body_digest: str) -> str:
    """Return a plan as the value of a header, with the digest of the body that the server should get.

    Where the body is to come a second time as the client sent it, its digest stands behind that.
    """
    return json.dumps(asdict(plan) | {"body_digest": body_digest})


def plan_of(header: bytes) -> tuple[Plan, str]:
    """Read a plan back."""
    fields = json.loads(header)
    digest = fields.pop("body_digest")
    return Plan(**fields), digest


@dataclass(frozen=True)
class Weather:
    """How hostile a soak is."""

    is_fair: bool = False
    """Whether all goes well."""
    big_share: float = 0.0
    """How many of the requests have tens of megabytes."""


def draw(chance: random.Random, run: str, number: int, *, dialect: str, weather: Weather) -> Plan:
    """Draw what happens to a request."""
    spoken = SPOKEN[dialect]
    if weather.is_fair:
        is_stream = spoken.can_stream and chance.random() < 0.6
        filler_bytes = BIG_BODY_BYTES[1] if chance.random() < weather.big_share else 0
        seed = chance.getrandbits(30)
        return Plan(run, number, dialect, "reads", "answers", seed, is_stream=is_stream, filler_bytes=filler_bytes)
    client = _weighted(chance, CLIENTS)
    is_stream = spoken.can_stream and chance.random() < 0.6
    is_big = chance.random() < weather.big_share
    if is_big and client not in ("reads", "sends half a body", "leaves before the answer"):
        client = "reads"
    return Plan(
        run=run,
        number=number,
        dialect=dialect,
        client=client,
        server=_server(chance, client, is_stream=is_stream, is_big=is_big),
        seed=chance.getrandbits(30),
        is_stream=is_stream,
        asks_usage=chance.random() < 0.5,
        framing=chance.choice(("length", "chunked", "chunked", "close")),
        is_zipped=not is_stream and chance.random() < 0.05,
        resets=chance.random() < 0.5,
        is_fresh=chance.random() < 0.1,
        is_chunked=not is_big and chance.random() < 0.1,
        is_named_by_path=chance.random() < 0.3,
        filler_bytes=chance.randint(*BIG_BODY_BYTES) if is_big else 0,
        answer_bytes=SLOW_ANSWER_BYTES if client == "reads slowly" else 0,
        no_call=chance.choice(("HEAD /", "GET /v1/models", "POST /v1/unknown", "OPTIONS /v1/chat/completions")),
    )


def _server(chance: random.Random, client: Client, *, is_stream: bool, is_big: bool) -> Server:
    match client:
        case "leaves before the answer":
            return "never answers"
        case "leaves in the answer":
            return "stops in the answer" if chance.random() < 0.5 else "answers"
        case "reads" if is_big and chance.random() < 0.2:
            return "answers before the body has come"
        case "reads" | "reads slowly" | "sends slowly":
            server = _weighted(chance, SERVERS)
            needs_stream = server in ("answers garbage too", "tells of an error")
            return "answers" if needs_stream and not is_stream else server
        case _:
            return "answers"


def _weighted(chance: random.Random, weights: dict[T, int]) -> T:
    return chance.choices(list(weights), list(weights.values()))[0]


def cut(chance: random.Random, data: bytes, most: int) -> Sequence[bytes]:
    """Cut bytes into some pieces, anywhere."""
    borders = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randint(0, most)))
    starts, ends = [0, *borders], [*borders, len(data)]
    return [data[start:end] for start, end in zip(starts, ends, strict=True) if end > start]
