"""A toy chat template and tokenizer, written apart from the code that lays prompts out, for tests of messages."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from rotoscope.replayer.chat_template import ChatTemplate
from rotoscope.replayer.tokenizing import Ids, Messages
from rotoscope.replayer.words import Words

_TOKEN = re.compile(r" ?[a-z]{3}|.", re.DOTALL)


def toy_words(count: int) -> Words:
    """Return words of three letters with a space."""
    letters = "bcdfgh"
    return Words([" " + "".join(word) for word in product(letters, repeat=3)][:count])


@dataclass(frozen=True)
class ToyTemplate:
    """Writes each place of a template as so many tokens of its own; strips contents, as real templates do."""

    sizes: ChatTemplate

    def tokens(self, prompt: bytes) -> tuple[str, ...]:
        """Return the tokens of a prompt of messages, which must be what strict templates accept."""
        messages = json.loads(prompt)
        roles = [message["role"] for message in messages]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
        assert all(set(message) == {"role", "content"} for message in messages)
        tokens = _place("head", self.sizes.head)
        for number, message in enumerate(messages):
            if number:
                tokens += self._turn() if message["role"] == "assistant" else _place("back", self.sizes.back)
            content = message["content"].strip()
            assert content
            tokens += content_tokens(content)
        return tuple(tokens + self.tail())

    def _turn(self) -> list[str]:
        return _place("turn", self.sizes.turn)

    def tail(self) -> list[str]:
        """Return the tokens behind the last content."""
        common = self.sizes.common
        return _place("turn", common) + _place("tail", self.sizes.tail - common)


def content_tokens(content: str) -> list[str]:
    """Cut a content into tokens: words of three letters with a space before them, and characters."""
    return [token.strip() or token for token in _TOKEN.findall(content)]


def _place(name: str, count: int) -> list[str]:
    return [f"<{name} {number}>" for number in range(count)]


def common(a: Sequence[str], b: Sequence[str]) -> int:
    """Return how many leading tokens two prompts have in common."""
    count = 0
    for left, right in zip(a, b, strict=False):
        if left != right:
            break
        count += 1
    return count


class ToyTokenizer:
    """Cuts text and messages as the toy template does, with numbers for tokens; words that it does not know fall apart."""

    def __init__(
        self,
        template: ChatTemplate,
        words: Sequence[str],
        *,
        not_at_start: Sequence[str] = (),
        merged: str | None = None,
    ) -> None:
        """Words stand without space; those `not_at_start` fall apart there, `merged` ("one two") is a single token."""
        self._template = ToyTemplate(template)
        self._words = set(words)
        self._not_at_start = set(not_at_start)
        self._merged = merged
        self._ids: dict[str, int] = {}
        self.asked = 0

    async def text(self, text: str) -> Ids | None:
        """Cut a text that stands inside a message."""
        self.asked += 1
        return self._numbers(self._cut(text))

    async def prompt(self, messages: Messages) -> Ids | None:
        """Cut messages with the template around them."""
        self.asked += 1
        tokens = _place("head", self._template.sizes.head)
        for number, message in enumerate(messages):
            if number:
                tokens += _place("turn", self._template.sizes.turn) if number % 2 else self._back()
            content = message["content"].strip()
            first, rest = content[:3], content[3:]
            known = first in self._words and first not in self._not_at_start
            tokens += [first, *self._cut(rest)] if known else self._cut(content, apart=first)
        return self._numbers([*tokens, *self._template.tail()])

    def count(self, messages: Messages) -> int:
        """Count the tokens of messages."""
        return sum(self._length(message["content"].strip()) for message in messages) + self._around(len(messages))

    def _length(self, content: str) -> int:
        return len(self._cut(f" {content}"))

    def _around(self, messages: int) -> int:
        sizes = self._template.sizes
        return sizes.head + sizes.tail + (messages // 2) * (sizes.turn + sizes.back)

    def _back(self) -> list[str]:
        return _place("back", self._template.sizes.back)

    def _cut(self, text: str, apart: str = "") -> list[str]:
        """Cut a text; what it begins with falls `apart` into characters."""
        if self._merged:
            text = text.replace(f" {self._merged}", "\0")
        tokens = list(apart)
        for token in _TOKEN.findall(text.removeprefix(apart)):
            tokens += [token] if token.strip() in self._words or len(token) == 1 else list(token)
        return tokens

    def _numbers(self, tokens: Sequence[str]) -> Ids:
        return np.array([self._ids.setdefault(token, len(self._ids)) for token in tokens], np.int64)
