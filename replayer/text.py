"""Text of streams that grows, is cut and forks, so that no token is written twice and few bytes are copied.

A text grows at its end only; a stream that leaves another one before its end gets a text of its own that begins with a
part of the other. Text up to a token is then a few slices of buffers. `TokenText` is the JSON text of token ids, a
comma after each; `PackedIds` are the ids as they are in memory, for who asks a server in the same process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from typing import Self

import numpy as np
import orjson

from rotoscope.replayer.tokens import TokenIds

_COMMA = ord(",")
_PACKED = np.dtype("<u4")
_DEEPEST = 128
"""A text that begins with a part of one that begins with a part ... is copied together beyond this depth."""


class StreamText(ABC):
    """The text of one stream and of those that extend it at its end."""

    __slots__ = ("_border_bytes", "_border_tokens", "_buffer", "_depth", "_parent", "_start_bytes", "sealed")

    def __init__(self, parent: Self | None = None, start_tokens: int = 0, start_bytes: int = 0) -> None:
        self._parent: Self | None = parent
        self._depth: int = parent._depth + 1 if parent else 0
        self._start_bytes = start_bytes
        self._buffer = bytearray()
        self._border_tokens = [start_tokens]
        self._border_bytes = [start_bytes]
        self.sealed = False
        """Whether it must stay as it is because it outlives those who would extend it."""

    @property
    def end(self) -> int:
        """Number of tokens it holds."""
        return self._border_tokens[-1]

    @abstractmethod
    def append(self, ids: TokenIds) -> None:
        """Add ids at the end."""

    @abstractmethod
    def array(self, tokens: int) -> bytes:
        """Return the first `tokens` ids as they are sent."""

    @abstractmethod
    def _cut(self, segment: memoryview, tokens: int, nth: int) -> int:
        """Return the bytes of the first `nth` of the `tokens` tokens of a segment, 0 < nth < tokens."""

    def _fork(self, tokens: int) -> Self:
        """Return an empty text that begins with the first `tokens` tokens of this one."""
        return type(self)(self, tokens, self._offset(tokens))

    def continued(self, tokens: int) -> Self:
        """Return a text of the first `tokens` tokens that may grow: this one where they are all it holds."""
        if tokens == self.end and not self.sealed:
            return self
        if self._depth >= _DEEPEST:
            self._gather()
        return self._fork(tokens)

    def _add_segment(self, tokens: int, length: int) -> None:
        """Note that so many tokens were written, in so many bytes."""
        self._border_tokens.append(self.end + tokens)
        self._border_bytes.append(self._border_bytes[-1] + length)

    def _holder(self, tokens: int) -> Self:
        """Return the text whose buffer, or beginning, the token border lies in."""
        text, parent = self, self._parent
        while tokens < text._border_tokens[0]:
            assert parent is not None
            text, parent = parent, parent._parent
        return text

    def _offset(self, tokens: int) -> int:
        """Return the bytes of the first `tokens` ids, from the beginning of the stream."""
        text = self._holder(tokens)
        index = bisect_left(text._border_tokens, tokens)
        if text._border_tokens[index] != tokens:
            text._add_border(index, tokens)
        return text._border_bytes[index]

    def _add_border(self, index: int, tokens: int) -> None:
        start, stop = (self._border_bytes[i] - self._start_bytes for i in (index - 1, index))
        first, last = self._border_tokens[index - 1 : index + 1]
        cut = self._cut(memoryview(self._buffer)[start:stop], last - first, tokens - first)
        self._border_tokens.insert(index, tokens)
        self._border_bytes.insert(index, self._border_bytes[index - 1] + cut)

    def _slices(self, stop_bytes: int) -> list[memoryview]:
        """Return the pieces of buffers that make up the first bytes of the stream."""
        slices: list[memoryview] = []
        text: StreamText | None = self
        while text is not None:
            if stop_bytes > text._start_bytes:
                slices.append(memoryview(text._buffer)[: stop_bytes - text._start_bytes])
                stop_bytes = text._start_bytes
            text = text._parent
        return slices[::-1]

    def _gather(self) -> None:
        """Copy the beginning out of the other texts; offsets count from the beginning of the stream and stay."""
        beginning = b"".join(self._slices(self._start_bytes))
        start = self._border_tokens[0]
        text = self._parent
        while text is not None:
            borders = bisect_left(text._border_tokens, start)
            self._border_tokens[:0] = text._border_tokens[:borders]
            self._border_bytes[:0] = text._border_bytes[:borders]
            start = min(start, text._border_tokens[0])
            text = text._parent
        self._buffer[:0] = beginning
        self._parent, self._depth, self._start_bytes = None, 0, 0


class TokenText(StreamText):
    """The ids of a stream, a comma after each."""

    __slots__ = ()

    def append(self, ids: TokenIds) -> None:
        """Add ids at the end."""
        if not len(ids):
            return
        encoded = orjson.dumps(np.ascontiguousarray(ids), option=orjson.OPT_SERIALIZE_NUMPY)
        self._buffer += memoryview(encoded)[1:]
        self._buffer[-1] = _COMMA
        self._add_segment(len(ids), len(encoded) - 1)

    def array(self, tokens: int) -> bytes:
        """Return the first `tokens` ids as a JSON array."""
        if not tokens:
            return b"[]"
        return b"".join((b"[", *self._slices(self._offset(tokens) - 1), b"]"))

    def _cut(self, segment: memoryview, tokens: int, nth: int) -> int:
        commas = np.flatnonzero(np.frombuffer(segment, np.uint8) == _COMMA)
        return int(commas[nth - 1]) + 1


class PackedIds(StreamText):
    """The ids of a stream, four bytes each, lowest first."""

    __slots__ = ()

    def append(self, ids: TokenIds) -> None:
        """Add ids at the end."""
        if len(ids):
            self._buffer += ids.astype(_PACKED).data.cast("B")
            self._add_segment(len(ids), _PACKED.itemsize * len(ids))

    def array(self, tokens: int) -> bytes:
        """Return the first `tokens` ids as bytes that `unpacked` reads."""
        return b"".join(self._slices(self._offset(tokens)))

    def _cut(self, segment: memoryview, tokens: int, nth: int) -> int:
        return _PACKED.itemsize * nth


def unpacked(packed: bytes) -> TokenIds:
    """Return the ids that were packed; the array may not be written to."""
    return np.frombuffer(packed, _PACKED).astype(np.uint32, copy=False)
