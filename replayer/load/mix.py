"""Mixes of traces: which trace each session performs where some kinds of work are to come more often than others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.phrases import counted


@dataclass(frozen=True, slots=True)
class Share:
    """Traces that stand one behind the other and have a weight together."""

    traces: int
    weight: float


def parse_weights(text: str, *, paths: int) -> tuple[float, ...]:
    """Read weights such as 3:1, one for each path; raise UnusableInput for anything else."""
    try:
        weights = tuple(float(part) for part in text.split(":"))
    except ValueError:
        weights = ()
    if not weights or not all(0 < weight < inf for weight in weights):
        raise UnusableInput(f"the weights of a mix are numbers more than 0 such as 3:1, not {text!r}")
    if len(weights) != paths:
        raise UnusableInput(f"a mix has a weight for each path: {counted(paths, 'path')}, not {len(weights)}")
    return weights


def mixed(shares: Sequence[Share], sessions: int) -> tuple[int, ...]:
    """Return the numbers of the sessions, in order; session i performs trace i modulo the number of traces.

    The next session is of the share that is farthest behind its weight, so that any number of first sessions holds each
    as often as its weight says, to within the number of shares; within it traces come in turn.
    """
    total = sum(share.weight for share in shares)
    traces = sum(share.traces for share in shares)
    first = [sum(share.traces for share in shares[:index]) for index in range(len(shares))]
    had = [0] * len(shares)
    numbers = []
    for place in range(1, sessions + 1):
        behind = [place * share.weight / total - count for share, count in zip(shares, had, strict=True)]
        index = behind.index(max(behind))
        copy, trace = divmod(had[index], shares[index].traces)
        numbers.append(copy * traces + first[index] + trace)
        had[index] += 1
    return tuple(numbers)
