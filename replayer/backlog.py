"""Whether a server keeps up with sessions that arrive at planned times, and the time over which that is measured.

1. A session that starts a second later takes `growth` seconds longer: 0 where the server keeps up. Where it does not,
   sessions end at 1 / (1 + growth) of the rate at which they arrive.
2. Sessions in the order of their starts are cut into ten batches of equal size; the growth is the slope of the line
   through the batches' mean starts and mean latencies (least squares). Of batches, because sessions that run together
   are slow together, and ten of them hardly depend on each other.
3. A run is overloaded if the growth is surely above a hundredth: its one-sided 99.5 % bound, by Student's distribution
   with 8 degrees of freedom, is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rotoscope.replayer import metrics
from rotoscope.replayer.metrics import Interval

LEAST_GROWTH = 0.01
"""A server that does 99 of 100 sessions that arrive keeps up."""
FEWEST_JOBS = 20
_BATCHES = 10
_STUDENT_T = 3.355
"""Of 99.5 % and 8 degrees of freedom."""
_EARLY = 10
"""The first sessions, by which it is judged whether a run is long enough: one of so many."""


@dataclass(frozen=True, slots=True)
class LatencyGrowth:
    """How much longer a session takes for each second that it starts later, in s/s."""

    growth: float
    at_least: float
    """With a confidence of 99.5 %."""

    @property
    def is_overload(self) -> bool:
        return self.at_least > LEAST_GROWTH


def latency_growth(jobs: Sequence[Interval]) -> LatencyGrowth | None:
    """Return the growth of the latency of jobs; None of fewer than 20, or if they all start at once."""
    if len(jobs) < FEWEST_JOBS:
        return None
    ordered = sorted(jobs, key=lambda job: job.start_s)
    batches = np.array_split(np.array([(job.start_s, job.length_s) for job in ordered]), _BATCHES)
    starts_s, latencies_s = np.array([batch.mean(axis=0) for batch in batches]).T
    apart_s = starts_s - starts_s.mean()
    spread = float(apart_s @ apart_s)
    if not spread:
        return None
    growth = float(apart_s @ latencies_s) / spread
    off_s = latencies_s - latencies_s.mean() - growth * apart_s
    error = (float(off_s @ off_s) / (_BATCHES - 2) / spread) ** 0.5
    return LatencyGrowth(growth, growth - _STUDENT_T * error)


def open_window(admissions_s: Sequence[float], jobs: Sequence[Interval]) -> Interval | None:
    """Return the window of an open loop: from the first admission at which as many sessions are there as there will be.

    It closes at the last one. None where sessions take longer than half the time over which they arrive. Only where that
    is the server's doing, because it is overloaded and the first ones did not, the window opens at half that time.
    `admissions_s` are in order.
    """
    if not jobs:
        return None
    first_s, last_s = admissions_s[0], admissions_s[-1]
    half_s = (last_s - first_s) / 2
    settled_s = metrics.settling_s([job.length_s for job in jobs])
    if settled_s > half_s:
        if not _became_slow(jobs, after_s=first_s + half_s, first_within_s=half_s):
            return None
        settled_s = half_s
    opens_s = next(at_s for at_s in admissions_s if at_s >= min(first_s + settled_s, last_s))
    return Interval(opens_s, last_s) if opens_s < last_s else None


def _became_slow(jobs: Sequence[Interval], *, after_s: float, first_within_s: float) -> bool:
    """Whether jobs became slow only as the run went on."""
    ordered = sorted(jobs, key=lambda job: job.start_s)
    first = ordered[: max(1, len(ordered) // _EARLY)]
    later = latency_growth([job for job in ordered if job.start_s >= after_s])
    was_fast = metrics.settling_s([job.length_s for job in first]) <= first_within_s
    return was_fast and later is not None and later.is_overload
