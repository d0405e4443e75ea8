"""How well jobs/h is known by the sessions that have ended so far, and when a run may end because it is known well enough.

In a closed loop every slot is always taken, so that jobs/h is as uncertain as the jobs that sessions do in a second of
their time. The half-width of its 95 % interval is Student's t times the linearised standard error of that ratio, over the
ratio itself, from a few sums: it costs nothing to know it at any time.

Looking again and again until an interval happens to be narrow gives intervals that are too narrow. So there are few looks,
each at a fifth more sessions than the one before, the first not before there are enough to say anything, and two in a row
must find it narrow (measured: benchmarks/interval_coverage.py).
"""

from __future__ import annotations

import re
from math import ceil, sqrt

from rotoscope.replayer.student import t_quantile
from rotoscope.traces.errors import UnusableInput

FEWEST_SESSIONS = 20
"""That have ended before the first look; of fewer, intervals are too often too narrow."""
SESSIONS_A_SLOT = 2
"""That have ended before the first look, over the concurrency, those left aside that found an empty server."""
GROWTH = 1.2
LOOKS = 2
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)%")


def parse_half_width(text: str) -> float:
    """Read a half-width in percent of the number; raise UnusableInput for anything else."""
    found = _PERCENT.fullmatch(text)
    share = float(found[1]) / 100 if found else 0.0
    if not 0 < share < 1:
        raise UnusableInput(f"a half-width is more than 0% and less than 100% of the number, such as 5%, not {text!r}")
    return share


class Precision:
    """Take sessions as they end; `is_enough` once jobs/h is known as well as wanted."""

    def __init__(self, wanted: float | None, *, concurrency: int) -> None:
        """`wanted` is a half-width over the number; None wants none."""
        self._wanted = wanted
        self._left_aside = concurrency
        self._next_look = max(FEWEST_SESSIONS, SESSIONS_A_SLOT * concurrency)
        self._narrow_looks = 0
        self._sessions = 0
        self._jobs = 0
        self._seconds = 0.0
        self._seconds_of_jobs = 0.0
        self._squared_seconds = 0.0
        self.is_enough = False

    def add(self, *, is_job: bool, seconds: float) -> None:
        """Take note of a session that has ended after so many seconds, completed or failed.

        The first of each slot are left aside: they may have found an empty server, and are not in the window either.
        """
        if self._left_aside:
            self._left_aside -= 1
            return
        self._sessions += 1
        self._jobs += is_job
        self._seconds += seconds
        self._seconds_of_jobs += is_job * seconds
        self._squared_seconds += seconds * seconds
        if self._wanted is not None and self._sessions >= self._next_look:
            self._look(self._wanted)

    @property
    def half_width(self) -> float | None:
        """Half of the 95 % interval of jobs/h, over jobs/h; None as long as nothing can be said."""
        n = self._sessions
        if n < FEWEST_SESSIONS or not self._jobs or not self._seconds:
            return None
        rate = self._jobs / self._seconds
        squares = self._jobs - 2 * rate * self._seconds_of_jobs + rate * rate * self._squared_seconds
        return t_quantile(n - 1) * sqrt(n / (n - 1) * max(0.0, squares)) / self._jobs

    def _look(self, wanted: float) -> None:
        self._next_look = ceil(GROWTH * self._sessions)
        half_width = self.half_width
        is_narrow = half_width is not None and half_width <= wanted
        self._narrow_looks = self._narrow_looks + 1 if is_narrow else 0
        self.is_enough = self._narrow_looks >= LOOKS
