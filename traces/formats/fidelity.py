"""What a conversion keeps, approximates and loses: said per aspect of a trace, counted where it really happened.

Every reader and writer of a foreign format declares its aspects once, in a tuple that docs/formats.md is generated from,
and notes each as often as it applies; an aspect that never applied is not reported.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

Verdict: TypeAlias = Literal["kept", "approximated", "lost"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True, slots=True)
class Aspect:
    """One thing that a trace says, and what becomes of it."""

    what: str
    """Such as `prompt lengths`, `tool times`."""
    verdict: Verdict
    how: str = ""
    """In which form it is kept, by what it is approximated, or why it is lost."""
    unit: str = "calls"
    """What is counted."""


@dataclass(slots=True)
class Fidelity:
    """The aspects that a conversion met, with how often; in the order in which they were first met."""

    counts: Counter[Aspect] = field(default_factory=Counter)

    def note(self, aspect: Aspect, times: int = 1) -> None:
        """Count an aspect that applies to so many calls, tools, ..."""
        if times > 0:
            self.counts[aspect] += times

    def lines(self) -> list[str]:
        """Return the account for people, a line an aspect: what is kept first, what is lost last."""
        met = [(aspect, times) for verdict in VERDICTS for aspect, times in self.of_verdict(verdict)]
        return [_line(aspect, times) for aspect, times in met]

    def of_verdict(self, verdict: Verdict) -> list[tuple[Aspect, int]]:
        """Return the aspects with this verdict and how often each was met."""
        return [(aspect, times) for aspect, times in self.counts.items() if aspect.verdict == verdict]


def _line(aspect: Aspect, times: int) -> str:
    how = f": {aspect.how}" if aspect.how else ""
    return f"{aspect.verdict} {aspect.what} ({times} {aspect.unit}){how}"
