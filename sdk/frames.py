"""What processes of one run say to the one that records: frames of a head, which is JSON, and a body as it is.

Heads, with a number for a call and times in seconds of the machine's monotonic clock:

    hello TOKEN                     the first one
    mark RUN KIND FIELD ...
    call CALL RUN PATH HEADERS AT ASKS_USAGE    its body is that of the request
    taken_back CALL
    response CALL STATUS CONTENT_TYPE AT
    chunk CALL AT                   its body is some of the answer
    end CALL AT, failed CALL AT, cancelled CALL AT
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import astuple
from typing import Any

from rotoscope.recorder.marks import BranchMark, JoinMark, Mark, ToolMark, WaitMark

LARGEST_BYTES = 1 << 30
"""A frame that is longer is none."""

_SIZES = struct.Struct(">II")
_MARKS: dict[str, type[Mark]] = {
    "tool": ToolMark,
    "wait": WaitMark,
    "branch": BranchMark,
    "join": JoinMark,
}
_KINDS = {kind: name for name, kind in _MARKS.items()}


def packed(head: list[Any], body: bytes = b"") -> bytes:
    """Return a frame."""
    written = json.dumps(head).encode()
    return b"".join((_SIZES.pack(len(written), len(body)), written, body))


class Unpacking:
    """Takes frames out of bytes that are cut anywhere."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[list[Any], bytes]]:
        """Yield the head and body of each frame that is whole now. Raises ValueError where it is none."""
        self._buffer += data
        while len(self._buffer) >= _SIZES.size:
            head, body = _SIZES.unpack_from(self._buffer)
            start, end = _SIZES.size + head, _SIZES.size + head + body
            if end > LARGEST_BYTES:
                raise ValueError("a frame is too long")
            if len(self._buffer) < end:
                return
            frame = bytes(self._buffer[:end])
            del self._buffer[:end]
            yield json.loads(frame[_SIZES.size : start]), frame[start:]


def written_mark(mark: Mark) -> list[Any]:
    """Return a mark as it stands in a head."""
    return [_KINDS[type(mark)], *astuple(mark)]


def read_mark(written: list[Any]) -> Mark:
    """Return the mark of a head. Raises KeyError or TypeError where it is none."""
    kind, *fields = written
    return _MARKS[kind](*fields)
