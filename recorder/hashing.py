"""Keyed digests: equal texts give equal digests under one key, and nothing can be guessed once the key is gone.

A part of a prompt is identified together with all parts before it: D(i) = H(key, D(i-1) | part i).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from hashlib import blake2b

from rotoscope.traces.journal import SHORT_DIGEST_BYTES

KEY_BYTES = 32
DIGEST_BYTES = 16


def new_key() -> bytes:
    """Draw a key; it lives in RAM for one campaign and is never written."""
    return secrets.token_bytes(KEY_BYTES)


def own_digest(data: bytes) -> bytes:
    """Return the digest of a part alone, under no key: it stays in RAM."""
    return blake2b(data, digest_size=DIGEST_BYTES).digest()


class KeyedHash:
    """Hash under one key that nothing else can see."""

    __slots__ = ("_key",)

    def __init__(self, key: bytes) -> None:
        if not 16 <= len(key) <= 64:
            raise ValueError(f"a key has 16 to 64 bytes, this one {len(key)}")
        self._key = key

    def digest(self, data: bytes) -> bytes:
        """Return the digest of a whole part or name."""
        return blake2b(data, digest_size=DIGEST_BYTES, key=self._key).digest()

    def chained_own(self, parent: bytes, own: bytes) -> bytes:
        """Return the digest of a part, by its own, that stands behind the parts of `parent` (empty at the start)."""
        return blake2b(parent + own, digest_size=DIGEST_BYTES, key=self._key).digest()

    def borders(self, text: bytes | memoryview, ends: Sequence[int]) -> list[bytes]:
        """Return the short digest of the text up to each of its borders, which rise."""
        hasher = blake2b(digest_size=SHORT_DIGEST_BYTES, key=self._key)
        digests, start = [], 0
        for end in ends:
            hasher.update(text[start:end])
            digests.append(hasher.copy().digest())
            start = end
        return digests
