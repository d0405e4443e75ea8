"""The beginning of a conversation that the server keeps: one that begins empty has no history that was not seen."""

from __future__ import annotations

import re

from rotoscope.recorder.dialects.wire_json import parsed
from rotoscope.recorder.exchange import Exchange
from rotoscope.recorder.run import Run

ENDING = "/conversations"
LARGEST_BYTES = 1 << 16
"""An answer that is longer names no empty conversation."""

_ITEMS = re.compile(r"/conversations/([^/]+)/items(/[^/]+)?$")


def begins_empty(path: str, body: bytes) -> bool:
    """Return whether a request, by its path without query and last slash, begins a conversation without items."""
    if not path.endswith(ENDING) or not body or len(body) > LARGEST_BYTES:
        return False
    request = parsed(body)
    return isinstance(request, dict) and not request.get("items")


def changed_conversation(path: str, body: bytes) -> str | None:
    """Return the conversation whose items a request may change beside all responses; None where it changes none."""
    found = _ITEMS.search(path)
    return found.group(1) if found and (body or found.group(2)) else None


class ConversationExchange(Exchange):
    """A conversation that begins empty; it is no call."""

    def __init__(self, run: Run, body: bytes) -> None:
        super().__init__(body)
        self._run = run
        self._status = 0
        self._answer = b""

    @property
    def listens(self) -> bool:
        return True

    def response(self, status: int, *, at_s: float, content_type: str = "") -> None:
        self._status = status

    def chunk(self, data: bytes, *, at_s: float) -> bytes:
        if len(self._answer) <= LARGEST_BYTES:
            self._answer += data
        return data

    def end(self, *, at_s: float) -> bytes:
        is_told = 200 <= self._status < 300 and len(self._answer) <= LARGEST_BYTES
        answer = parsed(self._answer) if is_told else None
        if isinstance(answer, dict) and isinstance(name := answer.get("id"), str) and not self._run.is_closed:
            self._run.reader.conversation_began(name)
        self._answer = b""
        return b""
