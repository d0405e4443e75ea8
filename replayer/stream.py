"""Read a response stream as bytes: find the borders of server-sent events and leave their JSON to whoever needs it.

The same bytes give the same events however the network cut them. Comments and fields other than `data` are skipped;
`error`, which older llama.cpp servers use as a field, becomes `{"error": ...}`.
"""

from __future__ import annotations

LONGEST_EVENT_BYTES = 64 * 1024 * 1024
"""A server that returns the prompt's ids sends about 7 bytes a token: this is ten times any context."""

BORDER = b"\n\n"
"""Ends each event once its newlines are plain."""
_DATA = b"data: "


class EndlessEvent(ValueError):
    """Say that an event does not end within `LONGEST_EVENT_BYTES`."""


class EventReader:
    """Cut a byte stream into its events."""

    __slots__ = ("_rest", "_skip_newline")

    def __init__(self) -> None:
        self._rest = bytearray()
        self._skip_newline = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes and return the payloads of the events that they complete."""
        return payloads(self.whole(data))

    def whole(self, data: bytes) -> bytes:
        """Take the next bytes and return the events that they complete, each up to its border, as plain newlines."""
        if self._skip_newline or b"\r" in data:
            data = self._with_plain_newlines(data)
        if not self._rest and data.endswith(BORDER):
            return data
        seen = max(0, len(self._rest) - 1)
        self._rest += data
        end = self._rest.rfind(BORDER, seen) + len(BORDER)
        if end < len(BORDER):
            if len(self._rest) > LONGEST_EVENT_BYTES:
                raise EndlessEvent(f"an event is longer than {LONGEST_EVENT_BYTES} bytes")
            return b""
        events = bytes(self._rest[:end])
        del self._rest[:end]
        return events

    @property
    def is_between_events(self) -> bool:
        """Whether all bytes so far belong to whole events."""
        return not self._rest and not self._skip_newline

    def rest(self) -> bytes:
        """Return a last event that lacks its blank line, where the stream ended."""
        return self.whole(BORDER) if self._rest else b""

    def _with_plain_newlines(self, data: bytes) -> bytes:
        if not data:
            return data
        plain = data[1:] if self._skip_newline and data.startswith(b"\n") else data
        self._skip_newline = data.endswith(b"\r")
        return plain.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def payloads(events: bytes) -> list[bytes]:
    """Return the payloads of whole events; nearly always each is one line of data."""
    if events.startswith(_DATA):
        found = events[len(_DATA) : -len(BORDER)].split(BORDER + _DATA)
        if events.count(b"\n") == 2 * len(found):
            return found
    return [payload for event in events.split(BORDER) if (payload := _payload(event)) is not None]


def _payload(event: bytes) -> bytes | None:
    lines = [content for line in event.split(b"\n") if (content := _content(line)) is not None]
    return b"\n".join(lines) if lines else None


def _content(line: bytes) -> bytes | None:
    field, _, content = line.partition(b":")
    content = content.removeprefix(b" ")
    if field == b"data":
        return content
    return b'{"error":' + content + b"}" if field == b"error" else None
