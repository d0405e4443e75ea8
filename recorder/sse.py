"""Incremental framing of server-sent events: events out of bytes that are cut anywhere, and bytes to forward.

One event may be withheld, for good or until it is whole: the usage chunk that the recorder asked for and the client
did not. Everything else is forwarded as it came and at once, in the middle of an event too.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_BLANK_LINE = re.compile(rb"\n\r?\n|\r\r\n?")
_HAS_CHOICES = re.compile(rb'"choices"\s*:\s*\[\s*[^\]\s]')
_LEAD = re.compile(rb"(?:[\r\n]|:[^\r\n]*[\r\n])*")
"""Empty lines and comments in front of an event's own lines."""
LARGEST_USAGE_BYTES = 16_384
"""An event longer than this is no usage chunk."""
LARGEST_EVENT_BYTES = 64 << 20
"""An event longer than this is not recorded."""


class EventFilter:
    """Feed the data of each event to `take`; an event for which it returns True is not forwarded."""

    __slots__ = ("_buffer", "_forwarded", "_take", "withholds")

    def __init__(self, take: Callable[[bytes], bool], *, withholds: bool) -> None:
        self._take = take
        self.withholds = withholds
        """Whether an event of the stream may have to be withheld."""
        self._buffer = b""
        self._forwarded = 0

    @property
    def held(self) -> bytes:
        """What has come and was not forwarded yet."""
        return self._buffer[self._forwarded :]

    def feed(self, data: bytes) -> bytes:
        """Take in bytes and return those to forward."""
        if not self._buffer and data.endswith(b"\n\n") and data.find(b"\n\n") == len(data) - 2 and b"\r" not in data:
            return self._forwarded_of(data, 0)
        return self._feed_any(data)

    def finish(self) -> bytes:
        """Take what is left as the last event, as the stream has ended, and return the bytes to forward."""
        rest, forwarded = self._buffer, self._forwarded
        self._buffer, self._forwarded = b"", 0
        return self._forwarded_of(rest, forwarded) if rest else b""

    def _feed_any(self, data: bytes) -> bytes:
        buffer = self._buffer + data
        if len(buffer) > LARGEST_EVENT_BYTES:
            raise ValueError("an event does not end")
        forward: list[bytes] = []
        forwarded, start = self._forwarded, 0
        for border in _BLANK_LINE.finditer(buffer, max(0, len(self._buffer) - 3)):
            forward.append(self._forwarded_of(buffer[start : border.end()], forwarded))
            start, forwarded = border.end(), 0
        rest = buffer[start:]
        now = self._forwardable(rest)
        if now > forwarded:
            forward.append(rest[forwarded:now])
            forwarded = now
        self._buffer, self._forwarded = rest, forwarded
        return b"".join(forward)

    def _forwarded_of(self, event: bytes, forwarded: int) -> bytes:
        """Take a whole event, of which some bytes are forwarded, and return the others unless it is withheld.

        An event that has begun to be forwarded must end too: what follows it would else belong to it.
        """
        if self._take(event_data(event)) and self.withholds and forwarded <= (lead := _lead(event)):
            return event[forwarded:lead]
        return event[forwarded:]

    def _forwardable(self, event: bytes) -> int:
        """Return how many bytes of an event that is not whole yet cannot belong to a usage chunk."""
        if not self.withholds or len(event) > LARGEST_USAGE_BYTES or _HAS_CHOICES.search(event):
            return len(event)
        return _lead(event)


def _lead(event: bytes) -> int:
    lead = _LEAD.match(event)
    return lead.end() if lead else 0


def event_data(event: bytes) -> bytes:
    """Return the data lines of an event, joined."""
    if event.startswith(b"data: ") and event.endswith(b"\n\n") and event.find(b"\n") == len(event) - 2:
        return event[6:-2]
    lines = [line[5:] for line in event.splitlines() if line.startswith(b"data:")]
    return b"\n".join(line[1:] if line.startswith(b" ") else line for line in lines)
