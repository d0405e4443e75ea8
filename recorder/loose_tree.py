"""Prompts as a template might see them that ignores roles, ids, tools and whitespace: who could be alike how far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

MOST_BRANCHES = 64
"""So many ways on from one message are compared; where there are more, a prompt could take any of them."""
_START = -1


@dataclass(frozen=True, slots=True)
class Alike:
    """Calls that stand for all those that could be most like a prompt."""

    calls: list[int]
    are_all: bool
    """Whether no call that goes on in another way was left out."""


@dataclass(slots=True)
class LooseTree:
    """Streams of one cache domain by the text ids of their parts (`PartTree`)."""

    parents: Sequence[int]
    """By text id, the id before it."""
    _first: dict[int, int] = field(default_factory=dict)
    """By text id, the first call whose stream passes it."""
    _then: dict[int, list[int]] = field(default_factory=dict)
    """By text id, the calls that were first on each way on from there."""

    def add(self, call: int, last: int) -> None:
        """Add a stream by the text id of its last message."""
        while last != _START and last not in self._first:
            self._first[last] = call
            last = self.parents[last]
            self._then.setdefault(last, []).append(call)

    def most_alike(self, last: int) -> Alike:
        """Return calls whose streams begin with most messages of a prompt, one for each way on from there."""
        while last != _START and last not in self._first:
            last = self.parents[last]
        calls = {*self._then.get(last, ())} | ({self._first[last]} if last != _START else set())
        return Alike(sorted(calls)[:MOST_BRANCHES], len(calls) <= MOST_BRANCHES)
