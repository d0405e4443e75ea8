"""A toy chat template and tokenizer, written apart from the code that lays prompts out, for tests of messages."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from rotoscope.replayer.chat_template import ChatTemplate
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
        return tuple(tokens + self._tail())

    def _turn(self) -> list[str]:
        return _place("turn", self.sizes.turn)

    def _tail(self) -> list[str]:
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
