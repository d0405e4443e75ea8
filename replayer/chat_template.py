"""What a server's chat template puts around the contents of messages, in tokens.

All of it counts as prompt tokens. Tokens of a template are stood for by ids of their own, beyond those of all words: the
same id at the same place of the template, so that what two prompts have in common comes out as the server sees it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rotoscope.replayer.tokens import TokenIds


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """Numbers of tokens; the same in all prompts of a run."""

    head: int
    """Before the first content."""
    turn: int
    """Between the content of a user and that of the assistant."""
    back: int
    """Between the content of the assistant and that of a user."""
    tail: int
    """After the last content, the generation prompt included."""
    common: int
    """Leading tokens that `turn` and `tail` have in common."""

    @property
    def takes_answers_up(self) -> bool:
        """Whether an answer stands in later prompts where the model generated it."""
        return self.turn == self.tail == self.common

    @property
    def least_prompt(self) -> int:
        """Tokens of a prompt of one word."""
        return self.head + 1 + self.tail

    @property
    def ids(self) -> int:
        """Number of ids that stand for its tokens."""
        return self.head + self.turn + self.back + self.tail - self.common


class TemplateIds:
    """The ids that stand for the tokens of a template, from `first` on."""

    def __init__(self, template: ChatTemplate, first: int) -> None:
        ids = np.arange(first, first + template.ids, dtype=np.uint32)
        lengths = (template.head, template.turn, template.back)
        self.head, self.turn, self.back, rest = np.split(ids, np.cumsum(lengths))
        self.tail: TokenIds = np.concatenate([self.turn[: template.common], rest])
