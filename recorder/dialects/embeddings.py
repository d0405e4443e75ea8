"""Embedding requests, which have no stream: how long the text is, and what the server counted of it.

An answer is mostly numbers and may be long, so only its start and its end are kept until it is over.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from rotoscope.recorder.dialects.request import NotACall
from rotoscope.recorder.dialects.wire_json import parsed_body

ID_BYTES = 4
"""A token id is counted as text of so many bytes."""
KEPT_BYTES = 8192
"""How much of an answer's start and end is kept; its counts stand there."""

_ENDINGS = ("/embeddings", ":embedContent", ":batchEmbedContents")
_COUNTS = re.compile(rb'"usage(?:Metadata)?"\s*:\s*(?=\{)')
_PROMPT = ("prompt_tokens", "input_tokens", "promptTokenCount", "total_tokens", "totalTokenCount")
_TEXTS = ("input", "content", "requests", "texts", "inputs")


def is_embedding(path: str) -> bool:
    """Return whether requests to a path, without query and last slash, embed texts."""
    return path.endswith(_ENDINGS)


def embedded_bytes(body: bytes) -> tuple[int, dict[str, Any]]:
    """Return how many bytes of text a request embeds, and its body. Raises NotACall."""
    request = parsed_body(body)
    if not any(request.get(name) for name in _TEXTS):
        raise NotACall("the body has nothing to embed")
    return sum(_bytes(request.get(name)) for name in _TEXTS), request


def _bytes(value: Any) -> int:
    """Return the size of the texts and token ids in a value; the names of fields are none."""
    if isinstance(value, str):
        return len(value.encode())
    if isinstance(value, bool) or not isinstance(value, int | list | dict):
        return 0
    if isinstance(value, int):
        return ID_BYTES
    return sum(map(_bytes, value if isinstance(value, list) else _parts(value)))


def _parts(value: dict[str, Any]) -> list[Any]:
    return [value.get(name) for name in ("content", "parts", "text")]


@dataclass(slots=True)
class EmbeddingAnswer:
    """The start and the end of an answer."""

    start: bytes = field(default=b"", repr=False)
    end: bytes = field(default=b"", repr=False)

    def take(self, data: bytes) -> None:
        """Take in bytes as they arrive."""
        if len(self.start) < KEPT_BYTES:
            self.start += data[: KEPT_BYTES - len(self.start)]
        self.end = (self.end + data)[-KEPT_BYTES:]

    @property
    def prompt_tokens(self) -> int | None:
        """Return what the server counted, None where it tells nothing."""
        for kept in (self.end, self.start):
            for found in _COUNTS.finditer(kept):
                tokens = _tokens(kept[found.end() :])
                if tokens is not None:
                    return tokens
        return None


def _tokens(data: bytes) -> int | None:
    """Return the tokens of the prompt in an object at the start of some bytes."""
    try:
        counts, _ = json.JSONDecoder().raw_decode(data.decode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    told = [counts.get(name) for name in _PROMPT] if isinstance(counts, dict) else []
    return next((x for x in told if isinstance(x, int) and not isinstance(x, bool) and x >= 0), None)
