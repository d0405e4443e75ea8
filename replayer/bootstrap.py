"""How far a number of one run may be off by the choice of its sessions: percentile bootstrap intervals.

Source: Efron, "Bootstrap methods: another look at the jackknife" (1979), and Efron and Tibshirani, "An introduction to the
bootstrap" (1993), chapter 13. Sessions are drawn with replacement, each whole, as many as there were; the number is
computed anew from each such resample; the interval holds the middle 95 % of the results. Whole, because the requests of a
session depend on each other. Two runs differ by more than their sessions, and by that an interval is too narrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

CONFIDENCE_PERCENT = 95
RESAMPLES = 1_000
FEWEST_SESSIONS = 2
_TAILS_PERCENT = ((100 - CONFIDENCE_PERCENT) / 2, (100 + CONFIDENCE_PERCENT) / 2)
_CELLS = 200_000
"""Resamples times sessions, or times values, that are held at once."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """A 95 % interval, in the unit of its number."""

    low: float
    high: float

    def times(self, factor: float) -> Bounds:
        """Return the interval of the number times a factor above 0."""
        return Bounds(self.low * factor, self.high * factor)


def ratio_interval(parts: Sequence[float], wholes: Sequence[float], *, seed: int) -> Bounds | None:
    """Return the interval of sum of parts / sum of wholes, one of each a session; None below two sessions.

    A session without a whole does not take part.
    """
    pairs = np.array([(part, whole) for part, whole in zip(parts, wholes, strict=True) if whole > 0], dtype=np.float64)
    if len(pairs) < FEWEST_SESSIONS:
        return None
    sums = np.concatenate([drawn @ pairs for drawn in _resamples(len(pairs), len(pairs), seed=seed)])
    return _middle(sums[:, 0] / sums[:, 1])


def mean_interval(values: Sequence[float], *, seed: int) -> Bounds | None:
    """Return the interval of the mean of values, one a session; None below two sessions."""
    return ratio_interval(values, [1.0] * len(values), seed=seed)


def percentile_intervals(
    values: Sequence[float], sessions: Sequence[int], percents: Sequence[float], *, seed: int
) -> tuple[Bounds, ...] | None:
    """Return the intervals of percentiles, linear between the closest ranks, of the values of all sessions together.

    `sessions` says whose each value is; None below two sessions.
    """
    names, owners = np.unique(np.asarray(sessions, dtype=np.int64), return_inverse=True)
    if len(names) < FEWEST_SESSIONS:
        return None
    unordered = np.asarray(values, dtype=np.float64)
    order = np.argsort(unordered, kind="stable")
    ordered, owners = unordered[order], owners[order]
    shares = np.asarray(percents, dtype=np.float64) / 100
    resamples = _resamples(len(names), len(values), seed=seed)
    found = np.concatenate([_percentiles(ordered, drawn.take(owners, axis=1), shares) for drawn in resamples])
    return tuple(_middle(column) for column in found.T)


def _percentiles(ordered: NDArray[Any], times: NDArray[Any], shares: NDArray[Any]) -> NDArray[Any]:
    """Return the percentiles, a row for each row of `times`, which says how often each of the ordered values is there."""
    ranks = times.cumsum(axis=1, dtype=times.dtype)
    place = (ranks[:, -1:] - 1) * shares
    below, above = (ordered[_first_beyond(ranks, rank)] for rank in (np.floor(place), np.ceil(place)))
    interpolated: NDArray[Any] = below + (above - below) * (place % 1)
    return interpolated


def _first_beyond(ranks: NDArray[Any], wanted: NDArray[Any]) -> NDArray[Any]:
    """Return where each row of ranks, which grow, first exceeds each number wanted of that row."""
    same = wanted.astype(ranks.dtype)  # of another type, each row would be converted for a few comparisons
    return np.array([row.searchsorted(some, side="right") for row, some in zip(ranks, same, strict=True)])


def _resamples(sessions: int, width: int, *, seed: int) -> Iterator[NDArray[Any]]:
    """Yield how often each session is in each resample, one a row, so many rows at once as `width` leaves room for."""
    key = int.from_bytes(sha256(f"bootstrap {seed}".encode()).digest()[:16], "little")
    random = np.random.Generator(np.random.Philox(key=key))
    most = max(1, _CELLS // width)
    for first in range(0, RESAMPLES, most):
        rows = min(most, RESAMPLES - first)
        drawn = random.integers(sessions, size=(rows, sessions)) + sessions * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * sessions).reshape(rows, sessions).astype(np.int32)


def _middle(results: NDArray[Any]) -> Bounds:
    low, high = np.percentile(results, _TAILS_PERCENT)
    return Bounds(float(low), float(high))
