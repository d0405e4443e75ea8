"""The parts of all prompts seen so far, as a tree: a part is known by its digest together with all parts before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from rotoscope.recorder.canonical import Part, history_part, message_part
from rotoscope.recorder.counting import WaitingTexts
from rotoscope.recorder.hashing import KeyedHash, own_digest
from rotoscope.recorder.packing import written
from rotoscope.recorder.stretches import Stretches
from rotoscope.recorder.volatile import blanked
from rotoscope.traces.journal import PartSeen, border_ends, text_border_ends

TOGETHER = 64
"""Of a history that goes behind other instructions so many parts become one, so that a turn costs little but what is new."""
_LATEST = 8
"""So many parts at its end are left as they are at least."""


class KnownParts:
    """Number parts in the order in which they are first seen; no text is kept but what waits to be counted."""

    def __init__(self, keyed: KeyedHash, waiting: WaitingTexts | None = None) -> None:
        """Put the texts of parts into `waiting`, where they are to be counted."""
        self._hash: KeyedHash | None = keyed
        self._waiting = waiting
        self._digests: list[bytes] = []
        self._numbers: dict[bytes, int] = {}
        self._messages: dict[tuple[int | bytes, int], int] = {}
        self._fresh: list[PartSeen] = []
        self._seen: list[PartSeen] = []
        self._own: list[bytes] = []
        """The digest of each part alone."""
        self._blanked: dict[int, bytes] = {}
        """The same without what changes by itself, where it is another."""
        self._masked: dict[int, bytes] = {}
        """Digests without what changes by itself, where they are others."""
        self._stretches = Stretches(keyed)

    def __repr__(self) -> str:
        return f"KnownParts({len(self._digests)})"

    def forget(self) -> None:
        """Drop the key and all digests."""
        self._hash = None
        self._digests.clear()
        self._numbers.clear()
        self._messages.clear()
        self._masked.clear()
        self._seen.clear()
        self._own.clear()
        self._blanked.clear()
        self._stretches.forget()
        if self._waiting is not None:
            self._waiting.forget()

    def take_fresh(self) -> list[PartSeen]:
        """Return the records of the parts that were new since the last time."""
        fresh, self._fresh = self._fresh, []
        return fresh

    def behind(self, before: int | bytes, part: Part) -> int:
        """Return the number of a part behind another; at the start of a prompt its domain's digest stands before it."""
        assert self._hash is not None
        parent = before if isinstance(before, bytes) else self._digests[before]
        own = own_digest(part.exact)
        digest = self._hash.chained_own(parent, own)
        known = self._numbers.get(digest)
        return self._add(before, part, digest, own) if known is None else known

    def moved(self, head: int, *, since: int | None, before: int | bytes) -> int | bytes:
        """Put the parts behind `since` up to `head` behind another part, and return the number of the last.

        Of many the first become a few, always of the same ones, so that the same history is the same parts.
        """
        path, part = [], head
        while part != since:
            path.append(part)
            parent = self._seen[part].parent
            if parent is None:
                break
            part = parent
        for parts in self._stretched(path[::-1]):
            before = self._again(before, parts[0]) if len(parts) == 1 else self._together(before, parts)
        return before

    def _stretched(self, path: Sequence[int]) -> Iterator[Sequence[int]]:
        """Yield the parts of a history one by one, and those together that become one."""
        start = 0
        while start < len(path):
            is_one = self._seen[path[start]].role == "opaque" or len(path) - start < TOGETHER + _LATEST
            end = start + (1 if is_one else TOGETHER)
            yield path[start:end]
            start = end

    def _together(self, before: int | bytes, parts: Sequence[int]) -> int:
        """Return the number of a part that stands for many."""
        digest = own_digest(b"".join(self._own[part] for part in parts))
        size = sum(self._seen[part].text_bytes + self._seen[part].reasoning_bytes for part in parts)
        return self.behind(before, history_part(digest, size))

    def behind_messages(self, before: int | bytes, messages: Iterable[dict[str, Any]]) -> int:
        """Return the number of the last of some messages behind a part; that of the part when there are none.

        A message that was seen here is recognised by Python's own keyed hash of it, which costs little and never leaves
        memory; only for others the canonical form and its digests are made.
        """
        for message in messages:
            short = (before, _quick_hash(message))
            known = self._messages.get(short)
            if known is None:
                known = self._messages[short] = self.behind(before, message_part(message))
            before = known
        assert isinstance(before, int)
        return before

    def behind_text(self, before: int | bytes, data: bytes, part_of: Callable[[bytes], Part]) -> int:
        """Return the number of the last stretch of a text behind a part: of those known before, and of what is new.

        A prompt that goes on from another stream passes its end. Where it is alike longer with a stretch that goes on
        otherwise than with those that it passes whole, it is cut where that one begins.
        """
        places: list[tuple[int | bytes, int, int]] = []
        view, start = memoryview(data), 0
        while True:
            step = self._stretches.step(before, view[start:])
            places.append((before, start, start + step.shared))
            if step.whole is None:
                break
            before, start = step.whole.part, start + step.whole.length
        for place, begin, alike in places:
            if alike > start:
                return self.behind(place, part_of(data[begin:]))
        if start < len(data) or isinstance(before, bytes):
            return self.behind(before, part_of(data[start:]))
        return before

    def _again(self, before: int | bytes, part: int) -> int:
        """Return the number of a known part behind another one."""
        assert self._hash is not None
        parent = before if isinstance(before, bytes) else self._digests[before]
        digest = self._hash.chained_own(parent, self._own[part])
        known = self._numbers.get(digest)
        if known is not None:
            return known
        record = replace(
            self._seen[part],
            part=len(self._digests),
            parent=None if isinstance(before, bytes) else before,
            digest=digest.hex(),
            masked=self._masked_digest(before, self._own[part], self._blanked.get(part)),
        )
        return self._enter(record, digest, self._own[part], self._blanked.get(part))

    def _add(self, before: int | bytes, part: Part, digest: bytes, own: bytes) -> int:
        assert self._hash is not None
        number = len(self._digests)
        exact = blanked(part)
        blank = None if exact is None else own_digest(exact)
        ends = text_border_ends(len(part.loose)) if part.role == "text" else border_ends(len(part.loose))
        borders = self._hash.borders(part.loose, ends)
        record = PartSeen(
            part=number,
            parent=None if isinstance(before, bytes) else before,
            role=part.role,
            digest=digest.hex(),
            borders=b"".join(borders).hex(),
            text_bytes=part.text_bytes,
            loose_bytes=len(part.loose),
            most_tokens=part.most_tokens,
            reasoning_bytes=part.reasoning_bytes,
            has_calls=part.has_calls,
            masked=self._masked_digest(before, own, blank),
        )
        self._enter(record, digest, own, blank)
        if self._waiting is not None and not part.has_media:
            self._waiting.add(number, part.countable, part.reasoning)
        if part.role == "text":
            self._stretches.learn(before, number, part.loose, borders)
        return number

    def _enter(self, record: PartSeen, digest: bytes, own: bytes, blank: bytes | None) -> int:
        self._fresh.append(record)
        self._seen.append(record)
        self._digests.append(digest)
        self._own.append(own)
        if blank is not None:
            self._blanked[record.part] = blank
        self._numbers[digest] = record.part
        return record.part

    def _masked_digest(self, before: int | bytes, own: bytes, blank: bytes | None) -> str | None:
        """Return the digest without what changes by itself, None where it is the same; and keep it if it is not."""
        assert self._hash is not None
        parent = before if isinstance(before, bytes) else self._masked.get(before)
        if blank is None and (parent is None or isinstance(before, bytes)):
            return None
        if parent is None:
            assert isinstance(before, int)
            parent = self._digests[before]
        masked = self._masked[len(self._digests)] = self._hash.chained_own(parent, own if blank is None else blank)
        return masked.hex()


def _quick_hash(message: dict[str, Any]) -> int:
    """Hash a message; the plain ones, which most are, need not be written out for it."""
    role, content = message.get("role"), message.get("content")
    if type(content) is str and type(role) is str:
        if len(message) == 2:
            return hash((role, content))
        if len(message) == 3 and type(answered := message.get("tool_call_id")) is str:
            return hash((role, answered, content))
    return hash(written(message))
