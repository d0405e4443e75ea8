"""Incremental framing of a JSON list: its objects out of bytes that are cut anywhere. All bytes are forwarded at once."""

from __future__ import annotations

import re
from collections.abc import Callable

from rotoscope.recorder.sse import LARGEST_EVENT_BYTES

_STRUCTURE = re.compile(rb'["{}\[\]]')
_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)


class ListFilter:
    """Feed each object of a list to `take`, or the object that came in its place."""

    __slots__ = ("_buffer", "_depth", "_is_string", "_list_depth", "_place", "_start", "_take")

    def __init__(self, take: Callable[[bytes], object]) -> None:
        self._take = take
        self._buffer = b""
        self._place = 0
        """Up to here the buffer was looked through."""
        self._is_string = False
        """Whether that is within a string."""
        self._depth = 0
        self._list_depth = 0
        """1 within a list of objects."""
        self._start = 0

    @property
    def held(self) -> bytes:
        """What has come and was not forwarded yet: nothing."""
        return b""

    def feed(self, data: bytes) -> bytes:
        """Take in bytes and return those to forward: the same."""
        self._buffer += data
        if len(self._buffer) > LARGEST_EVENT_BYTES:
            raise ValueError("an object does not end")
        while self._pass_string() and (mark := _STRUCTURE.search(self._buffer, self._place)):
            self._pass(mark)
        done = self._start if self._depth > self._list_depth else self._place
        self._buffer, self._place, self._start = self._buffer[done:], self._place - done, self._start - done
        return data

    def finish(self) -> bytes:
        """Take an object that was cut for what it is, and return the bytes to forward: none are left."""
        if self._depth > self._list_depth:
            self._take(self._buffer[self._start :])
        return b""

    def _pass_string(self) -> bool:
        """Pass the string in which the place is, if it is in one; return whether its end has come."""
        if not self._is_string:
            return True
        said = _STRING.match(self._buffer, self._place)
        assert said is not None
        self._place = said.end()
        if self._buffer[self._place : self._place + 1] != b'"':
            return False
        self._place += 1
        self._is_string = False
        return True

    def _pass(self, mark: re.Match[bytes]) -> None:
        """Pass a mark of structure."""
        match mark.group():
            case b'"':
                self._is_string = True
            case b"[" if self._depth == 0:
                self._depth = self._list_depth = 1
            case b"{" | b"[":
                if self._depth == self._list_depth:
                    self._start = mark.start()
                self._depth += 1
            case _ if self._depth:
                self._depth -= 1
                self._list_depth = min(self._list_depth, self._depth)
                if self._depth == self._list_depth and mark.group() == b"}":
                    self._take(self._buffer[self._start : mark.end()])
        self._place = mark.end()
