"""Find the most of something that still works, where more of it works less: double until it does not, then bisect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Border:
    """The most that works and the next that does not; None where none does, or all that was allowed."""

    met: int | None
    unmet: int | None


def find_border(meets: Callable[[int], bool], *, first: int, most: int) -> Border:
    """Return the border between `first` and `most`, asking about each number once at most.

    Asks in the same order for the same answers: 2 x log2(border / first) questions or one more.
    """
    if not meets(first):
        return Border(None, first)
    met, unmet = first, None
    while unmet is None and met < most:
        following = min(2 * met, most)
        if meets(following):
            met = following
        else:
            unmet = following
    while unmet is not None and unmet - met > 1:
        middle = (met + unmet) // 2
        if meets(middle):
            met = middle
        else:
            unmet = middle
    return Border(met, unmet)


def majority(outcome: Callable[[int], bool], *, repeats: int) -> bool:
    """Return what more than half of `repeats` outcomes are, asking for no more than decide; of a tie, False."""
    yes = no = 0
    for number in range(1, repeats + 1):
        if outcome(number):
            yes += 1
        else:
            no += 1
        if 2 * yes > repeats or 2 * no >= repeats:
            break
    return 2 * yes > repeats
