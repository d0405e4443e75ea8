"""How far a number of one run may be off by the choice of its sessions: bootstrap intervals over sessions.

Sessions are drawn with replacement, each whole, as many as there were; the number is computed anew from each such
resample. Whole, because the requests of a session depend on each other. From the results come 95 % intervals:

- of percentiles and of shares, which cannot leave 0 to 1, by the percentile method (Efron, "Bootstrap methods: another look
  at the jackknife", 1979), with the percentiles moved outwards as far as Student's t is wider than the normal distribution
  (Hesterberg, "What teachers should know about the bootstrap", 2015), without which intervals of few sessions are too narrow;
- of other ratios by the bootstrap-t (Efron and Tibshirani, "An introduction to the bootstrap", 1993, chapter 12): each
  resample's distance from the number is divided by that resample's own standard error, so that skewed latencies, too, give
  intervals that hold the true number nearly as often as they say; where all but a few sessions are alike, that error is
  next to nothing in many resamples and the interval as good as endless, so that the percentile method's is taken.

Two runs differ by more than their sessions, and by that an interval is too narrow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotoscope.replayer.student import CONFIDENCE_PERCENT, t_quantile

RESAMPLES = 1_000
FEWEST_SESSIONS = 2
FEWEST_STUDENTISED = 8
"""Sessions below which a resample's standard error says too little; the percentile method is left."""
_NORMAL = NormalDist()
_TAILS_PERCENT = ((100 - CONFIDENCE_PERCENT) / 2, (100 + CONFIDENCE_PERCENT) / 2)
_LARGEST_STRETCH = 3.0
"""How much wider than the percentile method's a bootstrap-t interval may be; of exponential latencies it is 1.6 times."""
_CELLS = 200_000
"""Resamples times sessions, or times values, that are held at once."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """A 95 % interval, in the unit of its number."""

    low: float
    high: float

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2

    def times(self, factor: float) -> Bounds:
        """Return the interval of the number times a factor above 0."""
        return Bounds(self.low * factor, self.high * factor)


def ratio_interval(parts: Sequence[float], wholes: Sequence[float], *, seed: int) -> Bounds | None:
    """Return the interval of sum of parts / sum of wholes, one of each a session, none below 0; None below two sessions.

    A session without a whole does not take part.
    """
    pairs = _pairs(parts, wholes)
    if len(pairs) < FEWEST_STUDENTISED:
        return share_interval(parts, wholes, seed=seed)
    terms = _with_products(pairs)
    sums = np.concatenate([drawn @ terms for drawn in _resamples(len(pairs), len(pairs), seed=seed)])
    (ratio,), (error,) = _ratios_and_errors(terms.sum(axis=0, keepdims=True))
    ratios, errors = _ratios_and_errors(sums)
    plain = _middle(ratios, sessions=len(pairs))
    if not error or not errors.all():
        return plain
    below, above = np.percentile((ratios - ratio) / errors, _TAILS_PERCENT) * error
    if above - below > _LARGEST_STRETCH * (plain.high - plain.low):
        return plain
    return Bounds(max(0.0, float(ratio - above)), float(ratio - below))


def share_interval(parts: Sequence[float], wholes: Sequence[float], *, seed: int) -> Bounds | None:
    """Return the same of a ratio that is the share of a whole, 0 to 1, and so is its interval."""
    pairs = _pairs(parts, wholes)
    if len(pairs) < FEWEST_SESSIONS:
        return None
    sums = np.concatenate([drawn @ pairs for drawn in _resamples(len(pairs), len(pairs), seed=seed)])
    return _middle(sums[:, 0] / sums[:, 1], sessions=len(pairs))


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
    return tuple(_middle(column, sessions=len(names)) for column in found.T)


def _pairs(parts: Sequence[float], wholes: Sequence[float]) -> NDArray[Any]:
    return np.array([(part, whole) for part, whole in zip(parts, wholes, strict=True) if whole > 0], dtype=np.float64)


def _with_products(pairs: NDArray[Any]) -> NDArray[Any]:
    """Return parts, wholes, their squares and their product, and a 1 to count with."""
    part, whole = pairs.T
    return np.column_stack([part, whole, part * part, part * whole, whole * whole, np.ones_like(part)])


def _ratios_and_errors(sums: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the ratio of each row of sums of `_with_products`, and its standard error, linearised."""
    part, whole, part_part, part_whole, whole_whole, count = sums.T
    ratio = part / whole
    squares = np.maximum(part_part - 2 * ratio * part_whole + ratio * ratio * whole_whole, 0.0)
    return ratio, np.sqrt(count / (count - 1) * squares) / whole


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


def _middle(results: NDArray[Any], *, sessions: int) -> Bounds:
    """Return what holds the middle 95 % of the results, and as much more as few sessions ask for."""
    tail = 100 * _NORMAL.cdf(-sqrt(sessions / (sessions - 1)) * t_quantile(sessions - 1))
    low, high = np.percentile(results, (tail, 100 - tail))
    return Bounds(float(low), float(high))
