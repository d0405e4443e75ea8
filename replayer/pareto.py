"""The Pareto frontier of two numbers of which more is better: jobs/h/user for a user, jobs/h/GPU for who pays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias

Place: TypeAlias = tuple[float, float]


def on_frontier(places: Sequence[Place | None]) -> list[bool]:
    """Return for each place whether no other is at least as good in both numbers and better in one.

    Of equal places all are on it: neither is better. None stands for what has no place and is never on it. Intervals do
    not enter: they tell how far a point may be off, and which of two lies above the other is then a question for a
    comparison. Source: the upper-right staircase of TensorRT-LLM's job-level plots.
    """
    ranked = sorted({place for place in places if place is not None}, key=lambda place: (-place[0], -place[1]))
    frontier: set[Place] = set()
    best = float("-inf")
    for place in ranked:
        if place[1] > best:
            frontier.add(place)
            best = place[1]
    return [place in frontier for place in places]


def staircase(places: Sequence[Place]) -> list[Place]:
    """Return the corners of the frontier from left to right, for a line that falls in steps.

    Between two points of the frontier no measured setting reaches more than the lower one: a slope would claim it.
    """
    corners: list[Place] = []
    chosen = sorted({place for place, is_on in zip(places, on_frontier(places), strict=True) if is_on})
    for place, following in pairwise(chosen):
        corners += [place, (place[0], following[1])]
    return corners + chosen[-1:]
