"""Token ids drawn from a seed: any slice of any stream, and codes that keep streams apart where they must part (R9).

Position q of a stream is 32-bit word q of the raw output of Philox (little-endian halves of its 64-bit words), mapped
by multiply-shift into the allowed ids. Key and upper half of the counter are the SHA-256 of the stream's identity, so
that slices need neither what precedes them nor any state, and no order of tasks can change a token. Raw output of a
bit generator is the same on every platform and numpy version; the methods of `Generator` are not.

Random tokens agree by chance, which would lengthen a common prefix. So the k streams that part at one place begin with
codes, by rank: indices through a permutation of the ids that is keyed by the place.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from hashlib import sha256
from math import gcd
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rotoscope.traces.errors import UnusableInput

TokenIds: TypeAlias = NDArray[np.uint32]
Identity: TypeAlias = "int | str | tuple[Identity, ...] | None"
NO_TOKENS: TokenIds = np.empty(0, np.uint32)

_WORDS_PER_BLOCK = 8
"""A step of Philox's counter gives four 64-bit words."""
_PHILOX = np.random.Philox(0)
"""Its state is set for each draw; one that is made anew draws a seed from the system even where its key is given."""
_ONE_DRAW = Lock()
"""Replays may run in several threads."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The ids a prompt may hold: low <= id < high."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if not (self.low >= 0 and self.low + 2 <= self.high <= 2**32):
            raise UnusableInput(
                f"expected a vocabulary of at least two ids below 2**32, found {self}: give --vocab LOW:HIGH"
            )

    @classmethod
    def parse(cls, text: str) -> Vocabulary:
        """Read "LOW:HIGH", ids from LOW to HIGH - 1."""
        match = re.fullmatch(r"([0-9]{1,10}):([0-9]{1,10})", text)
        if match is None:
            raise UnusableInput(f"expected a vocabulary as LOW:HIGH, such as 1000:32000, found {text!r}")
        return cls(int(match[1]), int(match[2]))

    @property
    def size(self) -> int:
        return self.high - self.low

    def __str__(self) -> str:
        return f"{self.low}:{self.high}"


def key_of(*identity: Identity) -> bytes:
    """Return the 32 bytes that stand for an identity; JSON keeps apart what a plain join would confuse."""
    return sha256(json.dumps(identity).encode()).digest()


def draw(key: bytes, start: int, stop: int, vocabulary: Vocabulary) -> TokenIds:
    """Return the tokens at positions start <= q < stop of the stream with this key."""
    if stop <= start:
        return NO_TOKENS
    block, skipped = divmod(start, _WORDS_PER_BLOCK)
    raw = _random_words(key, block, (skipped + stop - start + 1) // 2)
    halves = raw.astype("<u8", copy=False).view("<u4")[skipped : skipped + stop - start]
    products = np.multiply(halves, vocabulary.size, dtype="<u8")
    ids: TokenIds = products.view("<u4")[1::2] + np.uint32(vocabulary.low)
    return ids


def _random_words(key: bytes, block: int, words: int) -> NDArray[np.uint64]:
    """Return the generator's words from the beginning of a block on: half of `key` is its key, half is in its counter."""
    first, second, third, fourth = np.frombuffer(key, "<u8").tolist()
    state: Any = {
        "bit_generator": "Philox",
        "state": {"counter": (block, 0, third, fourth), "key": (first, second)},
        "buffer": (0, 0, 0, 0),
        "buffer_pos": 4,  # nothing is left in the buffer
        "has_uint32": 0,
        "uinteger": 0,
    }
    with _ONE_DRAW:
        _PHILOX.state = state
        return _PHILOX.random_raw(words)


@dataclass(frozen=True, slots=True)
class Codes:
    """The codes of the streams that part at one place; different for every rank and way.

    A child has `ways` codes: two where output of a server, which cannot be foreseen, may stand at the place. Those of
    one child differ in their first token. With more codes than ids all grow by as many tokens as it takes, and those
    of two children may be alike in all but the last.
    """

    key: bytes
    children: int
    ways: int
    vocabulary: Vocabulary
    excluded: int | None = None
    """The id of the vocabulary that the stream they leave has there; no code begins with it."""

    @property
    def tokens(self) -> int:
        """Length of each code: the least d for which there are enough codes of d tokens."""
        length, codes = 1, self._firsts
        while codes < self.children * self.ways:
            length, codes = length + 1, codes * self.vocabulary.size
        return length

    def code(self, rank: int, way: int = 0) -> TokenIds:
        """Return a code of the child with this rank."""
        rest, index = divmod(rank * self.ways + way, self._firsts)
        digits = [self._first(index)]
        for _ in range(self.tokens - 1):
            rest, digit = divmod(rest, self.vocabulary.size)
            digits.append(digit)
        return np.array([self.vocabulary.low + digit for digit in digits], np.uint32)

    @property
    def _firsts(self) -> int:
        return self.vocabulary.size - (self.excluded is not None)

    def _first(self, index: int) -> int:
        """Permute the first tokens: i -> a i + b modulo their number, a coprime to it, past the excluded one."""
        modulus = self._firsts
        factor = 1 + int.from_bytes(self.key[:8], "little") % modulus
        while gcd(factor, modulus) != 1:
            factor += 1
        image = (factor * index + int.from_bytes(self.key[8:16], "little")) % modulus
        return image + (self.excluded is not None and image >= self.excluded - self.vocabulary.low)
