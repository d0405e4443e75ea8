"""Stretches of plain text that were seen, by where they stand: a prompt without a template is cut where others end.

A stretch is a whole prompt, an output, or what came behind them. Of each only digests up to its borders are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rotoscope.recorder.hashing import KeyedHash
from rotoscope.recorder.part_tree import common_length
from rotoscope.traces.journal import text_border_ends

PROBE_BYTES = 64
"""Stretches are looked for among those that begin with the same bytes."""
MOST_ALIKE = 256
"""So many stretches that begin alike in one place are told apart, the latest ones."""
_SHORT = -1
"""Stands for the beginning of all stretches that are shorter than a probe."""

Text: TypeAlias = bytes | memoryview
"""What is left of a long prompt is looked at where it is."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part that is plain text, or token ids."""

    part: int
    length: int
    borders: list[bytes]
    """Digests of its text up to each border; the last is the whole."""


@dataclass(frozen=True, slots=True)
class Step:
    """How a text goes on from one place."""

    whole: Stretch | None
    """The longest known stretch that it begins with."""
    shared: int
    """So many bytes at least are those of some stretch there, which may go on otherwise."""


class Stretches:
    """The stretches of a run, by the part that they stand behind."""

    def __init__(self, keyed: KeyedHash) -> None:
        self._hash: KeyedHash | None = keyed
        self._behind: dict[tuple[int | bytes, int], list[Stretch]] = {}

    def forget(self) -> None:
        """Drop the key and all digests."""
        self._hash = None
        self._behind.clear()

    def learn(self, before: int | bytes, part: int, text: bytes, borders: list[bytes]) -> None:
        """Take in a new part behind another one."""
        if text:
            known = self._behind.setdefault((before, _probe(text)), [])
            known.append(Stretch(part, len(text), borders))
            del known[:-MOST_ALIKE]

    def step(self, before: int | bytes, text: Text) -> Step:
        """Return how a text goes on from a place."""
        known = [*self._behind.get((before, _probe(text)), ())]
        if len(text) >= PROBE_BYTES:
            known.extend(self._behind.get((before, _SHORT), ()))
        if len(known) <= 1:
            whole = next((stretch for stretch in known if self._is_begun_with(text, stretch)), None)
            return Step(whole, whole.length if whole else 0)
        return self._longest(known, text)

    def _longest(self, known: list[Stretch], text: Text) -> Step:
        assert self._hash is not None
        ends = text_border_ends(len(text))
        borders = self._hash.borders(text, ends)
        whole: Stretch | None = None
        shared = 0
        for stretch in known:
            alike = common_length(stretch.borders, borders)
            shared = max(shared, ends[alike - 1] if alike else 0)
            if alike >= len(stretch.borders) - 1 and (whole is None or stretch.length > whole.length):
                whole = stretch if self._is_begun_with(text, stretch) else whole
        return Step(whole, max(shared, whole.length if whole else 0))

    def _is_begun_with(self, text: Text, stretch: Stretch) -> bool:
        assert self._hash is not None
        if stretch.length > len(text):
            return False
        return self._hash.borders(text[: stretch.length], [stretch.length]) == stretch.borders[-1:]


def _probe(text: Text) -> int:
    return hash(text[:PROBE_BYTES]) if len(text) >= PROBE_BYTES else _SHORT
