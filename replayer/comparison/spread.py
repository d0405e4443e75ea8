"""How far the difference of two systems may be off by chance, for several numbers at once.

1. A difference is computed of all sessions, and anew without a part of them, the same sessions in every run (the
   delete-a-group jackknife). Parts are sessions that were let in one after another, because sessions of a closed loop
   share the server: what slows one slows its neighbours, and a bootstrap over single sessions takes that for chance
   that evens out. How much the results vary is its standard error (Quenouille 1956, Tukey 1958; in parts that follow
   one another, the batch means of simulation: Schmeiser 1982).
2. This is done with few long parts, or, where several runs a side were given, with whole runs in the place of parts;
   and with many short parts. The larger of the two errors counts, because few parts may agree by luck.
3. An interval is as many standard errors wide as the largest of all the numbers' errors in their own unit keeps to, in
   the wanted share of cases. Found by drawing: units with normal values that correlate as the numbers do, made into
   Student's t each, the largest of them, its percentile (Westfall and Young, "Resampling-based multiple testing", 1993;
   single step). So of all intervals together, not of each, the wanted share holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

import numpy as np

from rotoscope.replayer.comparison.measures import Kept
from rotoscope.replayer.comparison.sample import Floats

LONG_PARTS = 5
"""Not more in a longer run, whose spells may be longer, too: parts that are short beside a spell say too little of it."""
LEAST_USERS = 2
"""Sessions for each that is in flight, below which nothing is said: no two of them would be apart in time."""
SHORT_PARTS = 32
DRAWS = 10_000


@dataclass(frozen=True, slots=True)
class Spread:
    """Differences B - A of several numbers, each with its half width; NaN where it has none."""

    differences: Floats
    half_widths: Floats


Numbers = Callable[[Kept], Floats]
"""The numbers of one run, for these of its sessions."""


def spread_of(
    a: Sequence[Numbers], b: Sequence[Numbers], *, sessions: int, in_flight: float, confidence: float
) -> Spread:
    """Compare runs of two systems: one run each, or two and more each. `confidence` is a share, of all numbers together."""

    def difference(kept: Kept) -> Floats:
        found: Floats = np.mean([numbers(kept) for numbers in b], axis=0) - np.mean([n(kept) for n in a], axis=0)
        return found

    everything = np.ones(sessions, dtype=np.bool_)
    if sessions < max(LONG_PARTS, LEAST_USERS * in_flight):
        return Spread(difference(everything), np.full(len(difference(everything)), np.nan))
    short = _jackknifed(difference, sessions, min(SHORT_PARTS, sessions))
    if len(a) == len(b) == 1:
        units: tuple[int, ...] = (LONG_PARTS,)
        errors = _errors(_jackknifed(difference, sessions, LONG_PARTS), units)
    else:
        units = (len(a), len(b))
        errors = _errors(np.array([numbers(everything) for numbers in (*a, *b)]), units)
    errors = np.maximum(errors, _errors(short, (len(short),)))
    return Spread(difference(everything), critical_value(short, units, confidence) * errors)


def critical_value(residuals: Floats, units: tuple[int, ...], confidence: float) -> float:
    """Return what the largest |t| of several numbers stays below in this share of cases.

    `residuals`, a row a part and a column a number, say how the numbers correlate; `units` how many values there are: of
    one group, or of two whose means are compared.
    """
    known = residuals[:, np.isfinite(residuals).all(axis=0)]
    spread = known.std(axis=0)
    scaled = (known - known.mean(axis=0))[:, spread > 0] / spread[spread > 0]
    if not scaled.size:
        return 0.0
    values, vectors = np.linalg.eigh(scaled.T @ scaled / len(scaled))
    root = vectors * np.sqrt(np.clip(values, 0.0, None))
    largest = np.abs(_t(_normal(sum(units), len(root)) @ root.T, units)).max(axis=1)
    return float(np.quantile(largest, confidence))


@lru_cache(maxsize=4)
def _normal(units: int, numbers: int) -> Floats:
    """Return the same normal values each time, for as many units and numbers; a folder of many loads needs them often."""
    key = int.from_bytes(sha256(b"largest t").digest()[:16], "little")
    drawn: Floats = np.random.Generator(np.random.Philox(key=key)).normal(size=(DRAWS, units, numbers))
    return drawn


def _jackknifed(difference: Callable[[Kept], Floats], sessions: int, parts: int) -> Floats:
    """Return the pseudo-values of the difference, a row for each part that is left out."""
    everything = np.ones(sessions, dtype=np.bool_)
    whole, rows = difference(everything), []
    for part in np.array_split(np.arange(sessions), parts):
        kept = everything.copy()
        kept[part] = False
        rows.append(parts * whole - (parts - 1) * difference(kept))
    return np.array(rows)


def _errors(values: Floats, units: tuple[int, ...]) -> Floats:
    """Return the standard error of the mean of one group, or of the difference of two groups' means."""
    _, errors = _moments(values[None], units)
    error: Floats = errors[0]
    return error


def _t(values: Floats, units: tuple[int, ...]) -> Floats:
    means, error = _moments(values, units)
    return (means[-1] - means[0] if len(means) > 1 else means[0]) / error


def _moments(values: Floats, units: tuple[int, ...]) -> tuple[list[Floats], Floats]:
    """Return the groups' means and the standard error of their difference, with one variance for both (Student)."""
    groups = np.split(values, np.cumsum(units)[:-1], axis=1)
    means = [group.mean(axis=1) for group in groups]
    squares = sum(((group - mean[:, None]) ** 2).sum(axis=1) for group, mean in zip(groups, means, strict=True))
    variance = squares / sum(unit - 1 for unit in units)
    return means, np.sqrt(variance * sum(1 / unit for unit in units))
