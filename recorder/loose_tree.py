"""Prompts as a template might see them that ignores roles, ids, tools and whitespace: who could be alike how far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

MOST_COMPARED = 64
"""So many streams that end at one message, or ways on from it, are told apart."""
START = -1
"""The text id before the first message."""


@dataclass(frozen=True, slots=True)
class Alike:
    """Where the streams are that begin with most messages of a prompt."""

    last: int
    """The text id of the last message that they have in common."""
    ending: list[int]
    """Calls whose streams end there."""
    going_on: list[tuple[int, int]]
    """For each way on from there, the first call that took it, and the text id of its next message."""
    are_all: bool
    """Whether none was left out."""


@dataclass(slots=True)
class LooseTree:
    """Streams of one cache domain by the text ids of their parts (`PartTree`)."""

    parents: Sequence[int]
    """By text id, the id before it."""
    _ending: dict[int, list[int]] = field(default_factory=dict)
    _going_on: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    _seen: set[int] = field(default_factory=set)

    def add(self, call: int, last: int) -> None:
        """Add a stream by the text id of its last message."""
        self._ending.setdefault(last, []).append(call)
        while last != START and last not in self._seen:
            self._seen.add(last)
            self._going_on.setdefault(self.parents[last], []).append((call, last))
            last = self.parents[last]

    def most_alike(self, last: int) -> Alike:
        """Return the streams that begin with most messages of a prompt, which is named by its last message."""
        while last != START and last not in self._seen:
            last = self.parents[last]
        ending, going_on = self._ending.get(last, []), self._going_on.get(last, [])
        are_all = max(len(ending), len(going_on)) <= MOST_COMPARED
        return Alike(last, ending[:MOST_COMPARED], going_on[:MOST_COMPARED], are_all)
