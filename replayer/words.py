"""The words that prompts of text are made of: one token each for the server's tokenizer, wherever they stand.

Word i stands for token id i of a replay. All words of a table are equally long in bytes, so that text is cut and written
without looking at single tokens. Words of letters have a space before them, which the first of a message goes without:
templates strip it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from rotoscope.replayer.tokens import TokenIds, Vocabulary


class Words:
    """A table of words, each with its space if it has one; numbers are their places in it."""

    def __init__(self, words: Sequence[str]) -> None:
        encoded = [word.encode() for word in words]
        self.bytes = len(encoded[0])
        """Length of each word."""
        self.space = 1 if encoded[0][:1] == b" " else 0
        """Bytes that the first word of a message goes without."""
        if {len(word) for word in encoded} != {self.bytes} or len(set(encoded)) != len(encoded):
            raise ValueError("expected words of one length, each once")
        self._encoded = encoded
        self._table = np.array(encoded, f"S{self.bytes}")

    def __len__(self) -> int:
        return len(self._encoded)

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(0, len(self._encoded))

    def text(self, ids: TokenIds) -> bytes:
        """Return the bytes of words, the space of the first one included."""
        return self._table.take(ids).tobytes()  # a fifth of the time of indexing

    def word(self, number: int) -> bytes:
        """Return one word with its space."""
        return self._encoded[number]

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each word within a message."""
        return {word.decode(): number for number, word in enumerate(self._encoded)}

    @cached_property
    def first_numbers(self) -> dict[str, int]:
        """The number of each word at the start of a message."""
        return {word[self.space :].decode(): number for number, word in enumerate(self._encoded)}
