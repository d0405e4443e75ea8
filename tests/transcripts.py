"""Transcripts: a request and the bytes of its answer as a server may send them, and what is to be recorded of them.

A file has the request's path, its body, status and content type of the answer, what is expected, an empty line, and the
answer. In the answer ␍ stands for a carriage return, and what stands between ⟦ and ⟧ is withheld from the client.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

FOLDER = Path(__file__).parent / "recorder" / "dialects" / "transcripts"


@dataclass(frozen=True)
class Transcript:
    name: str
    path: str
    body: bytes
    status: int
    content_type: str
    answer: bytes
    forwarded: bytes
    calls: tuple[dict[str, Any], ...]
    """Fields of the end of each call; `sent_back` is what a client appends to go on."""

    @property
    def dialect(self) -> str:
        return self.name.partition("_")[0]


def read_transcript(path: Path) -> Transcript:
    head, _, answer = path.read_text(encoding="utf-8").partition("\n\n")
    asked, body, told, expected = head.split("\n")
    status, _, content_type = told.partition(" ")
    raw = answer.replace("␍", "\r")
    before, _, rest = raw.partition("⟦")
    withheld, _, behind = rest.partition("⟧")
    return Transcript(
        name=path.stem,
        path=asked.removeprefix("POST "),
        body=body.encode(),
        status=int(status),
        content_type=content_type,
        answer=(before + withheld + behind).encode(),
        forwarded=(before + behind).encode(),
        calls=tuple(orjson.loads(expected)["calls"]),
    )


TRANSCRIPTS = tuple(map(read_transcript, sorted(FOLDER.glob("*.txt"))))
