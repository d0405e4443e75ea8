"""Prompts as a template might see them that ignores roles, ids, tools and whitespace: who could be alike how far."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

MOST_BRANCHES = 64
"""So many ways on from one message are compared; where there are more, a prompt could take any of them."""


@dataclass(slots=True)
class _Message:
    first: int
    """The first call that has it here."""
    then: dict[str, _Message] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Alike:
    """Calls that stand for all those that could be most like a prompt."""

    calls: list[int]
    are_all: bool
    """Whether no call that goes on in another way was left out."""


class LooseTree:
    """Streams of one cache domain by the digests of their texts."""

    def __init__(self) -> None:
        self._root = _Message(-1)

    def add(self, call: int, texts: Iterable[str]) -> None:
        """Add a stream: the digests of its messages, its answer last."""
        here = self._root
        for text in texts:
            here = here.then.setdefault(text, _Message(call))

    def most_alike(self, texts: Iterable[str]) -> Alike:
        """Return calls whose streams begin with most of these messages, one for each way on from there."""
        here = self._root
        for text in texts:
            if text not in here.then:
                break
            here = here.then[text]
        calls = {message.first for message in here.then.values()} | ({here.first} - {-1})
        return Alike(sorted(calls)[:MOST_BRANCHES], len(calls) <= MOST_BRANCHES)
