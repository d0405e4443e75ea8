"""Count the streams that go on alike at a place where the trace says that they part.

Codes see to it that prompts part (`tokens.py`). They cannot where a prompt ends at the place, so that a server's output
stands there, where a server begins an output like a prompt that was sent before, or where the vocabulary is too small.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Alike:
    streams: int = 0
    prompted: bool = False
    """Whether a prompt holds the token, and not only an output."""


@dataclass(slots=True)
class Separation:
    """The tokens with which streams go on at places where they should part."""

    _places: dict[Hashable, dict[int, _Alike]] = field(default_factory=dict)

    def __contains__(self, place: Hashable) -> bool:
        return place in self._places

    def add(self, place: Hashable, token: int, *, prompted: bool) -> None:
        """Note that one more stream goes on with this token at the place."""
        alike = self._places.setdefault(place, {}).setdefault(token, _Alike())
        alike.streams += 1
        alike.prompted |= prompted

    @property
    def unseparated(self) -> int:
        """Streams beyond the first that go on with the same token, where a prompt is among them."""
        alike = (alike for tokens in self._places.values() for alike in tokens.values())
        return sum(a.streams - 1 for a in alike if a.prompted)
