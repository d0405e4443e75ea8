"""Bodies that come compressed: as plain text, for the recorder."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Protocol

LARGEST_BODY_BYTES = 512 << 20
"""A request that unpacks to more is passed on unrecorded."""

_GZIP = zlib.MAX_WBITS | 16
_READABLE = ("gzip", "x-gzip", "zstd")
"""What clients and servers are seen to use; of `deflate` nobody knows which of two formats it is."""


class Undecodable(ValueError):
    """A body is not what its encoding says, or unpacks to more than is taken."""


class _Unpacking(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


class Decoder:
    """Take a body off its encoding, piece by piece."""

    def __init__(self, encoding: str) -> None:
        self._begin: Callable[[], _Unpacking] = lambda: zlib.decompressobj(_GZIP)
        self._errors: tuple[type[Exception], ...] = (zlib.error,)
        if encoding == "zstd":
            import zstandard

            self._begin = zstandard.ZstdDecompressor().decompressobj
            self._errors = (zstandard.ZstdError,)
        self._unpacking: _Unpacking = self._begin()
        self._is_behind = False
        """Whether a whole body has come, so that what comes now is more of it only if it unpacks."""
        self._is_over = False

    @property
    def is_at_end(self) -> bool:
        return self._is_over or self._unpacking.eof

    def decompress(self, data: bytes) -> bytes:
        """Return what a piece unpacks to. Raises Undecodable.

        A body may be several that were packed one by one; what stands behind them and is none is left out.
        """
        pieces: list[bytes] = []
        while data and not self._is_over:
            if self._unpacking.eof:
                self._unpacking, self._is_behind = self._begin(), True
            pieces.append(self._unpacked(data))
            data = self._unpacking.unused_data
        return b"".join(pieces)

    def _unpacked(self, data: bytes) -> bytes:
        try:
            piece = self._unpacking.decompress(data)
        except self._errors:
            if not self._is_behind:
                raise Undecodable("its body is not what its encoding says") from None
            self._is_over = True
            return b""
        self._is_behind = self._is_behind and not piece
        return piece


def decoder_of(encoding: str) -> Decoder | None:
    """Return a decoder of a content encoding, None where it cannot be read."""
    return Decoder(encoding) if encoding in _READABLE else None


def decoded(body: bytes, encoding: str) -> bytes:
    """Return a whole body as plain text. Raises Undecodable; its text holds nothing of the body or its header."""
    if encoding in ("", "identity"):
        return body
    decoder = decoder_of(encoding)
    if decoder is None:
        raise Undecodable("the encoding of its body cannot be read")
    pieces, size = list[bytes](), 0
    for start in range(0, len(body), _PIECE_BYTES):
        pieces.append(decoder.decompress(body[start : start + _PIECE_BYTES]))
        size += len(pieces[-1])
        if size > LARGEST_BODY_BYTES:
            raise Undecodable("its body unpacks to more than is taken")
    if not decoder.is_at_end:
        raise Undecodable("its body is cut off")
    return b"".join(pieces)


_PIECE_BYTES = 1 << 12
"""Unpacked at once; of zeros, zstd makes thirty thousand times as much of it."""
