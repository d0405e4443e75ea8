"""Bodies of requests that begin like an earlier one: only the new messages are parsed.

An agent sends its whole history with every call. When a body is an earlier body with messages put in at the end of its
list, it is (prefix, new messages, suffix), where the earlier one was (prefix, suffix): the prefix leads a JSON parser
to the end of a message, new messages lead it to the end of another, and from there the suffix means what it meant.
So both are recognised by Python's own keyed hash, which reads a gigabyte in a third of a second, and no text is kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

KEPT = 32
"""So many conversations at once are recognised."""
PROBE_BYTES = 64
MOST_STRETCHES = 64
"""When a prefix is in so many pieces it is hashed anew."""
_WRITERS: tuple[Callable[[Any], bytes], ...] = (
    orjson.dumps,
    lambda value: json.dumps(value).encode(),
    lambda value: json.dumps(value, ensure_ascii=False).encode(),
    lambda value: json.dumps(value, separators=(",", ":")).encode(),
)
"""How clients write JSON."""

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Known(Generic[T]):
    """A body that was seen, by hashes of its ends, and what it said."""

    ends: list[int]
    """Where the stretches of the prefix end; each call adds one."""
    hashes: list[int]
    """Of the stretches."""
    probe: int
    """Of the last bytes of the prefix alone."""
    suffix_length: int
    suffix: int
    value: T

    def fits(self, view: memoryview, suffixes: dict[int, int]) -> bool:
        """Whether a body has the same prefix and suffix; what tells bodies apart at least cost is looked at first.

        `suffixes` keeps the hashes of the body's ends, by length.
        """
        end = len(view) - self.suffix_length
        if end < self.ends[-1] or _probe(view, self.ends[-1]) != self.probe:
            return False
        if self.suffix_length not in suffixes:
            suffixes[self.suffix_length] = hash(view[end:])
        starts = [0, *self.ends]
        return suffixes[self.suffix_length] == self.suffix and all(
            hash(view[starts[i] : self.ends[i]]) == self.hashes[i] for i in range(len(self.hashes) - 1, -1, -1)
        )


class GrowingBodies(Generic[T]):
    """The last bodies of some conversations, whose list of messages has the name `key`."""

    def __init__(self, key: str = "messages") -> None:
        self._key = key
        self._list = re.compile(rb'"%s"\s*:\s*\[\s*' % key.encode())
        self._known: list[Known[T]] = []

    def __repr__(self) -> str:
        return f"GrowingBodies({len(self._known)})"

    def forget(self) -> None:
        """Drop all."""
        self._known.clear()

    def match(self, body: bytes) -> tuple[Known[T], list[Any]] | None:
        """Return the body that this one goes on from, and the new messages; None when there is none."""
        view, suffixes = memoryview(body), dict[int, int]()
        for known in reversed(self._known):
            if known.fits(view, suffixes):
                messages = _between(body, known.ends[-1], len(body) - known.suffix_length)
                if messages is not None:
                    return known, messages
        return None

    def go_on(self, known: Known[T], body: bytes, value: T) -> None:
        """Put a body in the place of the one that it goes on from."""
        end = len(body) - known.suffix_length
        view = memoryview(body)
        if len(known.ends) == MOST_STRETCHES:
            known.ends, known.hashes = [end], [hash(view[:end])]
        elif end > known.ends[-1]:
            known.hashes.append(hash(view[known.ends[-1] : end]))
            known.ends.append(end)
        known.probe = _probe(view, end)
        known.value = value
        self._known.remove(known)
        self._known.append(known)

    def learn(self, body: bytes, request: Mapping[str, Any], value: T) -> None:
        """Take in a body that goes on from none, if the end of its messages can be found."""
        end = self._end_of_messages(body, request)
        if end is not None:
            view = memoryview(body)
            hashes = hash(view[:end]), hash(view[end:])
            self._known.append(Known([end], [hashes[0]], _probe(view, end), len(body) - end, hashes[1], value))
            del self._known[:-KEPT]

    def _end_of_messages(self, body: bytes, request: Mapping[str, Any]) -> int | None:
        """Return where the last message of a body ends.

        That place is right if the body without its messages, cut there, is the same request without messages.
        """
        start, messages = self._list.search(body), request.get(self._key)
        if start is None or not isinstance(messages, list) or not messages:
            return None
        rest = {key: value for key, value in request.items() if key != self._key}
        for write in _WRITERS:
            last = write(messages[-1])
            found = body.rfind(last)
            if found >= start.end():
                end = found + len(last)
                return end if self._says(body[: start.end()] + body[end:], rest) else None
        return None

    def _says(self, body: bytes, rest: dict[str, Any]) -> bool:
        try:
            request = orjson.loads(body)
        except orjson.JSONDecodeError:
            return False
        return isinstance(request, dict) and request.pop(self._key, None) == [] and bool(request == rest)


def _probe(view: memoryview, end: int) -> int:
    return hash(view[max(0, end - PROBE_BYTES) : end])


def _between(body: bytes, start: int, end: int) -> list[Any] | None:
    """Return the messages that stand between two places of a body, None when something else does."""
    new = body[start:end].strip()
    if not new:
        return []
    if not new.startswith(b","):
        return None
    try:
        messages = orjson.loads(b"[" + new[1:] + b"]")
    except orjson.JSONDecodeError:
        return None
    return messages or None
