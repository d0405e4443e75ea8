"""Prompts as messages of words, for servers that take no token ids."""

from __future__ import annotations

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

    def answer(self, exchange: Exchange, *, is_whole: bool, is_taken_up: bool) -> ArrayLike | None:
        """Return ids for the pieces in which the answer came, if each is a token as far as can be told."""
        pieces = exchange.output_text
        if not pieces or (is_whole and len(pieces) != exchange.counted_tokens):
            return None
        return self._spelling.ids_of(pieces) if is_taken_up else NO_TOKENS

    async def survives(self, exchange: Exchange, tokens: int) -> bool:
        """Say whether the text of the first tokens is cut into as many again; believed where nobody can tell."""
        pieces = exchange.output_text[:tokens]
        if self._tokenizer is None or self._spelling.are_words(pieces):
            return True
        text, around = "".join(pieces), 0
        if text == text.strip():
            ids = await self._tokenizer.text(text)
        else:  # the template may strip it
            word = self.words.word(0).decode().strip()
            around = self.template.least_prompt + self.template.turn + self.template.back + 1
            ids = await self._tokenizer.prompt(conversation(word, text, word))
        return ids is None or len(ids) - around == len(pieces)
