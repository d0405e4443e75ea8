"""Bodies that come compressed: as plain text, for the recorder."""

from __future__ import annotations

import zlib
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

    def decompress(self, data: bytes, /) -> bytes: ...


class Decoder:
    """Take a body off its encoding, piece by piece."""

    def __init__(self, encoding: str) -> None:
        self._unpacking: _Unpacking
        self._errors: tuple[type[Exception], ...] = (zlib.error,)
        if encoding == "zstd":
            import zstandard

            self._unpacking = zstandard.ZstdDecompressor().decompressobj()
            self._errors = (zstandard.ZstdError,)
        else:
            self._unpacking = zlib.decompressobj(_GZIP)

    @property
    def is_at_end(self) -> bool:
        return self._unpacking.eof

    def decompress(self, data: bytes) -> bytes:
        """Return what a piece unpacks to; what stands behind the end is left out. Raises Undecodable."""
        if self.is_at_end:
            return b""
        try:
            return self._unpacking.decompress(data)
        except self._errors:
            raise Undecodable("its body is not what its encoding says") from None


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


_PIECE_BYTES = 1 << 16
"""Unpacked at once; a thousand times as much may come out of it."""
