"""The parts of all prompts seen so far, as a tree: a part is known by its digest together with all parts before it."""

from __future__ import annotations

import orjson

from rotoscope.recorder.canonical import Part, message_part
from rotoscope.recorder.dialects import chat
from rotoscope.recorder.hashing import KeyedHash
from rotoscope.traces.journal import PartSeen

FIRST_BORDER_BYTES = 128
BORDER_STEP = 8
"""Each border is an eighth of the way further."""


def border_ends(size: int) -> list[int]:
    """Return where digests of a text of `size` bytes are taken; the last is its end."""
    ends, end = [], 0
    while end < size:
        end = min(size, end + max(FIRST_BORDER_BYTES, end // BORDER_STEP))
        ends.append(end)
    return ends


class KnownParts:
    """Number parts in the order in which they are first seen; no text is kept."""

    def __init__(self, keyed: KeyedHash) -> None:
        self._hash: KeyedHash | None = keyed
        self._digests: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self._short: dict[tuple[int | None, int], int] = {}

    def __repr__(self) -> str:
        return f"KnownParts({len(self._digests)})"

    def forget(self) -> None:
        """Drop the key and all digests."""
        self._hash = None
        self._digests.clear()
        self._numbers.clear()
        self._short.clear()

    def head_of(self, request: chat.ChatRequest) -> tuple[int, list[PartSeen]]:
        """Return the number of the last part of a prompt, and the parts that are new."""
        fresh: list[PartSeen] = []
        messages = request.messages
        leading = next(
            (i for i, m in enumerate(messages) if m.get("role") not in ("system", "developer")), len(messages)
        )
        number: int | None = None
        for message in messages[:leading]:
            number = self._message(number, message, fresh)
        if request.tools is not None:
            number = self._part(number, request.tools, fresh)
        for message in messages[leading:]:
            number = self._message(number, message, fresh)
        assert number is not None
        return number, fresh

    def behind(self, parent: int | None, part: Part) -> tuple[int, list[PartSeen]]:
        """Return the number of a part behind `parent`, and its record when it is new."""
        fresh: list[PartSeen] = []
        return self._part(parent, part, fresh), fresh

    def _message(self, parent: int | None, message: dict[str, object], fresh: list[PartSeen]) -> int:
        """Number a message, canonical form and digests being taken only when it is new.

        What is known is recognised by Python's own keyed hash, which costs little and never leaves memory.
        """
        short = (parent, hash(orjson.dumps(message)))
        known = self._short.get(short)
        if known is None:
            known = self._short[short] = self._part(parent, message_part(message), fresh)
        return known

    def _part(self, parent: int | None, part: Part, fresh: list[PartSeen]) -> int:
        assert self._hash is not None
        before = b"" if parent is None else self._digests[parent]
        digest = self._hash.chained(before, part.role.encode() + part.exact)
        known = self._numbers.get(digest)
        if known is not None:
            return known
        number = self._numbers[digest] = len(self._digests)
        self._digests.append(digest)
        borders = self._hash.borders(part.loose, border_ends(len(part.loose)))
        fresh.append(
            PartSeen(
                part=number,
                parent=parent,
                role=part.role,
                digest=digest.hex(),
                borders=b"".join(borders).hex(),
                text_bytes=part.text_bytes,
                loose_bytes=len(part.loose),
                most_tokens=part.most_tokens,
                reasoning_bytes=part.reasoning_bytes,
                has_calls=part.has_calls,
            )
        )
        return number
