"""Prompts as messages of words, for servers that take no token ids."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import numpy as np
from numpy.typing import ArrayLike

from rotoscope.replayer.chat_layout import lay_out, shared_layout
from rotoscope.replayer.chat_template import ChatTemplate
from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.layout import Layout
from rotoscope.replayer.message_text import MessageText
from rotoscope.replayer.rendering import LaidOut
from rotoscope.replayer.spelling import Spelling
from rotoscope.replayer.text import StreamText
from rotoscope.replayer.tokenizing import Tokenizer, conversation
from rotoscope.replayer.tokens import NO_TOKENS, TokenIds
from rotoscope.replayer.words import Words
from rotoscope.traces.model import Trace

_FIRST_WORDS = 8


class Messages:
    """A rendering with the words and the template of one server."""

    def __init__(self, words: Words, template: ChatTemplate, tokenizer: Tokenizer | None = None) -> None:
        """`tokenizer` is the server's, to try whether answers can be sent back."""
        self.words = words
        self.template = template
        self._tokenizer = tokenizer
        self._spelling = Spelling(words, template)

    @property
    def tail(self) -> TokenIds:
        """The tokens with which the template ends a prompt."""
        return self._spelling.template_ids.tail

    def lay_out(self, trace: Trace) -> LaidOut:
        """Lay prompts out as messages, with the tokens of the template as a part of their lengths."""
        return lay_out(trace, self.template, self._spelling.template_ids)

    def shared_layout(self, *, is_root: bool) -> Layout:
        """Return the layout of a shared prefix: the template's beginning, and the first of the first message."""
        return shared_layout(self._spelling.template_ids, is_root=is_root)

    def first_prompt(self) -> tuple[bytes, TokenIds]:
        """Return a prompt of a few words, and its ids, to try the server with."""
        ids = self._spelling.template_ids
        words = np.arange(min(_FIRST_WORDS, len(self.words)), dtype=np.uint32)
        text = self.text()
        text.append(np.concatenate([ids.head, words]))
        return text.array(text.end), np.concatenate([ids.head, words, ids.tail])

    def text(self) -> StreamText:
        """Return the text of no messages."""
        return MessageText(self._spelling)

    def partial_answer(self, exchange: Exchange, *, taken_up: AbstractSet[int]) -> ArrayLike | None:
        """Return ids for the pieces in which the answer came, taken for a token each unless the server counts others."""
        pieces = exchange.output_text
        if not pieces or not taken_up:
            return NO_TOKENS if pieces else None
        if exchange.counted_tokens not in (None, len(pieces)):
            return None
        if not all(_says_something(pieces[:part]) for part in taken_up if part):
            return None
        return self._spelling.ids_of(pieces)

    async def whole_answer(self, exchange: Exchange, *, taken_up: AbstractSet[int]) -> ArrayLike | None:
        """Return ids for the pieces of an answer if each is a token, else for its whole text if that has as many tokens.

        What later prompts hold of it must be as many tokens when it is sent back; believed where nobody can tell.
        """
        pieces, tokens = exchange.output_text, exchange.counted_tokens
        held = sorted(taken_up - {0})
        if not held:
            return self._spelling.ids_of(pieces) if taken_up and len(pieces) == tokens else NO_TOKENS
        if not pieces or tokens is None:
            return None
        if len(pieces) == tokens:
            survives = [await self._survives(pieces[:part]) for part in held]
            return self._spelling.ids_of(pieces) if all(survives) else None
        text = "".join(pieces)
        if self._tokenizer is None or held != [tokens] or not await self._survives([text], tokens):
            return None
        return self._spelling.ids_of_text(text, tokens)

    async def _survives(self, pieces: Sequence[str], tokens: int | None = None) -> bool:
        """Say whether the text of pieces is so many tokens, one each if not given."""
        if tokens is None and self._spelling.are_words(pieces):
            return True
        if self._tokenizer is None:
            return _says_something(pieces)
        text, around = "".join(pieces), 0
        if text == text.strip():
            ids = await self._tokenizer.text(text)
        else:  # the template may strip it
            word = self.words.word(0).decode().strip()
            around = self.template.least_prompt + self.template.turn + self.template.back + 1
            ids = await self._tokenizer.prompt(conversation(word, text, word))
        if ids is None:
            return _says_something(pieces)
        return len(ids) - around == (tokens or len(pieces))


def _says_something(pieces: Sequence[str]) -> bool:
    """Whether pieces can be a message: templates make nothing of one of spaces, and hosted endpoints refuse it."""
    return bool("".join(pieces).strip())
