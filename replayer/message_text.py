"""The messages of a stream as JSON text: an array of objects with role and content.

The text of the last message stays open, so that a prompt that goes on in it reuses what is written. A word at the start
of a message is written without its space.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Self

import numpy as np

from rotoscope.replayer.spelling import END, Spelling
from rotoscope.replayer.text import StreamText
from rotoscope.replayer.tokens import TokenIds


class MessageText(StreamText):
    """The messages of one stream and of those that extend it."""

    __slots__ = ("_contents", "_spelling")

    def __init__(
        self, spelling: Spelling, parent: Self | None = None, start_tokens: int = 0, start_bytes: int = 0
    ) -> None:
        super().__init__(parent, start_tokens, start_bytes)
        self._spelling = spelling
        self._contents: set[int] = set()
        """Token borders, in this text's buffer, behind which a content begins."""

    def append(self, ids: TokenIds) -> None:
        """Add ids at the end."""
        if not len(ids):
            return
        spelling = self._spelling
        of_template = (ids >= spelling.template_from) & (ids < spelling.pieces_from)
        cuts = [0, *(np.flatnonzero(of_template[1:] != of_template[:-1]) + 1).tolist(), len(ids)]
        for start, stop in pairwise(cuts):
            if of_template[start]:
                self._write_each(spelling.pieces(ids[start:stop]))
                self._contents.add(self.end)
            else:
                self._write_content(ids[start:stop])

    def array(self, tokens: int) -> bytes:
        """Return the messages of the first `tokens` ids."""
        return b"".join((*self._slices(self._offset(tokens)), END))

    def _write_content(self, ids: TokenIds) -> None:
        words, begins = self._spelling.words, self.end in self._contents
        if int(ids.max()) < len(words):
            self._write_words(ids, without=words.space if begins else 0)
            return
        pieces = self._spelling.pieces(ids)
        if begins and int(ids[0]) < len(words):
            pieces[0] = pieces[0][words.space :]
        self._write_each(pieces)

    def _write_words(self, ids: TokenIds, *, without: int) -> None:
        """Write words, the first one without so many bytes and as a segment of its own: those of others are alike."""
        words = self._spelling.words
        self._buffer += memoryview(words.text(ids))[without:]
        if without:
            self._add_segment(1, words.bytes - without)
        if len(ids) > bool(without):
            self._add_segment(len(ids) - bool(without), (len(ids) - bool(without)) * words.bytes)

    def _write_each(self, pieces: list[bytes]) -> None:
        self._buffer += b"".join(pieces)
        end_tokens, end_bytes = self.end, self._border_bytes[-1]
        self._border_tokens += range(end_tokens + 1, end_tokens + len(pieces) + 1)
        self._border_bytes += accumulate(map(len, pieces[1:]), initial=end_bytes + len(pieces[0]))

    def _cut(self, segment: memoryview, tokens: int, nth: int) -> int:
        return len(segment) // tokens * nth

    def _fork(self, tokens: int) -> Self:
        forked = type(self)(self._spelling, self, tokens, self._offset(tokens))
        if tokens in self._holder(tokens)._contents:
            forked._contents.add(tokens)
        return forked

    def _gather(self) -> None:
        start = self._border_tokens[0]
        text = self._parent
        while text is not None:
            self._contents |= {place for place in text._contents if place < start}
            start = min(start, text._border_tokens[0])
            text = text._parent
        super()._gather()
