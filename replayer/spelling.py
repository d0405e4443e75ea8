"""How the ids of a chat replay are written as JSON: words, tokens of the template, and pieces of answers.

Ids below the number of words are words, then come the tokens of the template, then pieces of answers that are no word,
numbered as they turn up. The first token of what the template puts between two messages is written as what ends the one
and begins the other, the rest of them as nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import orjson

from rotoscope.replayer.chat_template import ChatTemplate, TemplateIds
from rotoscope.replayer.tokens import TokenIds
from rotoscope.replayer.words import Words

_FIRST = b'[{"role":"user","content":"'
_TURN = b'"},{"role":"assistant","content":"'
_BACK = b'"},{"role":"user","content":"'
END = b'"}]'


class Spelling:
    """Ids to text and back; grows with the pieces of answers."""

    def __init__(self, words: Words, template: ChatTemplate) -> None:
        self.words = words
        self.template_from = len(words)
        """Smallest id of the template."""
        self.pieces_from = len(words) + template.ids
        """Smallest id of a piece."""
        self.template_ids = TemplateIds(template, len(words))
        self._others = [b""] * template.ids
        starts = ((self.template_ids.head, _FIRST), (self.template_ids.turn, _TURN), (self.template_ids.back, _BACK))
        for ids, markup in starts:
            self._others[int(ids[0]) - self.template_from] = markup
        self._pieces: dict[str, int] = {}

    def pieces(self, ids: TokenIds) -> list[bytes]:
        """Return the text of each id."""
        words, others, count = self.words, self._others, len(self.words)
        return [words.word(one) if one < count else others[one - count] for one in ids.tolist()]

    def are_words(self, pieces: Sequence[str]) -> bool:
        """Say whether the pieces of an answer are words one and all."""
        return pieces[0] in self.words.first_numbers and all(map(self.words.numbers.__contains__, pieces[1:]))

    def ids_of(self, pieces: Sequence[str]) -> TokenIds:
        """Return ids of the pieces of an answer, taken for a token each: the same for the same piece."""
        if not pieces:
            return np.empty(0, np.uint32)
        numbers, known = self.words.numbers, self._pieces
        ids = [self.words.first_numbers.get(pieces[0], -1)]
        ids += [numbers.get(piece, -1) for piece in pieces[1:]]
        for place, one in enumerate(ids):
            if one < 0:
                piece = pieces[place]
                number = known.get(piece)
                ids[place] = self._new(piece) if number is None else number
        return np.array(ids, np.uint32)

    def ids_of_text(self, text: str, tokens: int) -> TokenIds:
        """Return ids of an answer whose tokens are not known apart: one for its text, and the same for all others."""
        ids = [self._pieces.get(piece) or self._new(piece) for piece in (text, "")]
        return np.array([ids[0]] + [ids[1]] * (tokens - 1), np.uint32)

    def _new(self, piece: str) -> int:
        number = len(self.words) + len(self._others)
        self._others.append(orjson.dumps(piece)[1:-1])
        self._pieces[piece] = number
        return number
