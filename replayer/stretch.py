"""What samples of a server or of a GPU say about a stretch of the run's time.

Counters are taken to grow evenly between two samples, and a gauge to be what its nearest sample tells. Where samples are
more than ten intervals apart there is a gap, about which nothing is said.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from rotoscope.replayer.metrics import Interval, Level, level, overlap_s
from rotoscope.replayer.polling import interval_s

_LONGEST_GAP = 10
"""Intervals between samples that still say something about what lies between them."""


class Timed(Protocol):
    """A sample, whose other fields are read by their names."""

    @property
    def at_s(self) -> float:
        """Return its moment, in seconds from the start of the run."""
        ...


def counted(samples: Sequence[Timed], name: str, stretch: Interval) -> float | None:
    """Return what the counter of this name, a field of the samples, counted in the stretch; None where it is not known."""
    start, end = _value_at(samples, name, stretch.start_s), _value_at(samples, name, stretch.end_s)
    return None if start is None or end is None else end - start


def level_of(samples: Sequence[Timed], name: str, stretch: Interval) -> Level | None:
    """Return what the gauge of this name was over the stretch, each sample for the time that is nearest to it."""
    near = _near(samples, stretch)
    told = [(sample.at_s, value) for sample in near if (value := getattr(sample, name)) is not None]
    edges = [stretch.start_s, *((one + next_one) / 2 for (one, _), (next_one, _) in pairwise(told)), stretch.end_s]
    return level(
        [
            (value, overlap_s(Interval(max(before, at_s - _reach_s(at_s)), min(after, at_s + _reach_s(at_s))), stretch))
            for (at_s, value), (before, after) in zip(told, pairwise(edges), strict=False)
        ]
    )


def _near(samples: Sequence[Timed], stretch: Interval) -> Sequence[Timed]:
    """Return the samples that say something about the stretch, and perhaps some more."""
    reach_s = _reach_s(2 * stretch.end_s)
    first = bisect_left(samples, stretch.start_s - reach_s, key=_at_s)
    return samples[first : bisect_right(samples, stretch.end_s + reach_s, key=_at_s)]


def _at_s(sample: Timed) -> float:
    return sample.at_s


def _reach_s(at_s: float) -> float:
    return interval_s(at_s) * _LONGEST_GAP / 2


def _value_at(samples: Sequence[Timed], name: str, at_s: float) -> float | None:
    """Return a counter at a moment, between the samples around it."""
    after = min(bisect_left(samples, at_s, key=_at_s), len(samples) - 1)
    if after < 0:
        return None
    before = after if samples[after].at_s <= at_s else max(after - 1, 0)
    first, last = samples[before], samples[after]
    start, end = (_value_of(samples, name, place) for place in (before, after))
    gap_s = max(last.at_s - first.at_s, at_s - last.at_s, first.at_s - at_s)
    if start is None or end is None or gap_s > _LONGEST_GAP * interval_s(at_s):
        return None
    return start + (end - start) * _share(first.at_s, last.at_s, at_s)


def _value_of(samples: Sequence[Timed], name: str, place: int) -> float | None:
    """Return what a sample tells of a counter: 0 as long as it is not there yet, as engines show many once they are used."""
    value: float | None = getattr(samples[place], name)
    if value is None and any(getattr(later, name) is not None for later in samples[place + 1 :]):
        return 0.0
    return value


def _share(first_s: float, last_s: float, at_s: float) -> float:
    return (min(max(at_s, first_s), last_s) - first_s) / (last_s - first_s) if last_s > first_s else 0.0
