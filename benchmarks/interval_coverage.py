"""How often do intervals of 95 % hold the true number, of few sessions and of runs that end when they know it?

Latencies of jobs are drawn: alike, gamma with a standard deviation of half the mean, exponential, lognormal (sigma 1). First
the mean of N of them, by percentiles of the resamples alone, as many tools do, and by `rotoscope.replayer.bootstrap`. Then
jobs/h of closed loops, in which every slot is always taken: of 100 jobs, and until it is known to 10 or 5 %.

Claim: intervals of 8 sessions or more hold the true mean at least 92 times of 100 where latencies are not more skewed than
exponential ones, and so does jobs/h of runs that end with `--until-ci`.

Run: PYTHONPATH=. python benchmarks/interval_coverage.py [TRIALS]
"""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from rotoscope.replayer.bootstrap import Bounds, mean_interval, ratio_interval
from rotoscope.replayer.metrics import SECONDS_PER_HOUR, Interval, overlap_s, share_in_window, steady_window
from rotoscope.replayer.precision import Precision

Draw: TypeAlias = Callable[[np.random.Generator, int], "np.ndarray[tuple[int], np.dtype[np.float64]]"]

TRIALS = 600
LEAST_HELD = 0.92
LATENCIES: dict[str, Draw] = {
    "alike": lambda random, count: np.ones(count),
    "gamma": lambda random, count: random.gamma(4.0, 0.25, count),
    "exponential": lambda random, count: random.exponential(1.0, count),
    "lognormal": lambda random, count: random.lognormal(-0.5, 1.0, count),
}
"""All of mean 1 s."""
CLAIMED = ("alike", "gamma", "exponential")


@dataclass(frozen=True, slots=True)
class Coverage:
    """How intervals fared against the truth."""

    held: float
    half_width: float
    sessions: float

    @classmethod
    def of(cls, trials: list[tuple[Bounds, float, int]], *, truth: float) -> Coverage:
        """Take interval, number and sessions of each trial."""
        held = [bounds.low - 1e-9 <= truth <= bounds.high + 1e-9 for bounds, _, _ in trials]
        half_widths = [(bounds.high - bounds.low) / 2 / number for bounds, number, _ in trials]
        return cls(float(np.mean(held)), float(np.mean(half_widths)), float(np.mean([count for _, _, count in trials])))


def of_means(draw: Draw, sessions: int, *, trials: int) -> tuple[Coverage, Coverage]:
    """Return how percentiles alone fare, and how our intervals do."""
    random = np.random.default_rng(sessions)
    plain, ours = [], []
    for trial in range(trials):
        values = draw(random, sessions)
        low, high = np.percentile(values[random.integers(sessions, size=(1000, sessions))].mean(axis=1), (2.5, 97.5))
        plain.append((Bounds(float(low), float(high)), float(values.mean()), sessions))
        bounds = mean_interval(values.tolist(), seed=trial)
        assert bounds is not None
        ours.append((bounds, float(values.mean()), sessions))
    return Coverage.of(plain, truth=1.0), Coverage.of(ours, truth=1.0)


def closed_loop(latencies_s: list[float], concurrency: int, wanted: float | None) -> list[Interval]:
    """Return the jobs of a closed loop that ends with these, or when it is known well enough; those in flight end."""
    precision = Precision(wanted, concurrency=concurrency)
    jobs: list[Interval] = []
    running: list[tuple[float, int]] = []
    while len(jobs) < len(latencies_s) and not precision.is_enough:
        start_s = 0.0
        if len(running) == concurrency:
            start_s, ended = heapq.heappop(running)
            precision.add(is_job=True, seconds=jobs[ended].length_s)
            if precision.is_enough:
                break
        heapq.heappush(running, (start_s + latencies_s[len(jobs)], len(jobs)))
        jobs.append(Interval(start_s, start_s + latencies_s[len(jobs)]))
    return jobs


def of_loops(draw: Draw, *, concurrency: int, sessions: int, wanted: float | None, trials: int) -> Coverage:
    """Return how the intervals of jobs/h fare."""
    random = np.random.default_rng(concurrency)
    found = []
    for trial in range(trials):
        jobs = closed_loop(draw(random, sessions).tolist(), concurrency, wanted)
        window = steady_window(jobs, concurrency)
        assert window is not None
        shares = [share_in_window(job, window) for job in jobs]
        worked_s = [overlap_s(job, window) for job in jobs]
        bounds = ratio_interval(shares, worked_s, seed=trial)
        assert bounds is not None
        per_h = SECONDS_PER_HOUR * concurrency  # all slots are taken: the window has so many seconds of work a second
        found.append((bounds.times(per_h), per_h * sum(shares) / sum(worked_s), len(jobs)))
    return Coverage.of(found, truth=SECONDS_PER_HOUR * concurrency)


def main() -> int:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else TRIALS
    least = 1.0
    print(f"held the true number, of {trials} trials each; +- half-width")
    for name, draw in LATENCIES.items():
        for sessions in (5, 8, 12, 20, 50, 100):
            plain, ours = of_means(draw, sessions, trials=trials)
            print(
                f"mean of {sessions:3} {name}: percentiles {plain.held:.3f} +- {plain.half_width:.3f}, "
                f"ours {ours.held:.3f} +- {ours.half_width:.3f}",
                flush=True,
            )
            least = min(least, ours.held) if sessions >= 8 and name in CLAIMED else least
    for name, draw in LATENCIES.items():
        for concurrency, sessions, wanted in ((4, 100, None), (4, 10_000, 0.1), (16, 10_000, 0.1), (4, 10_000, 0.05)):
            loops = of_loops(draw, concurrency=concurrency, sessions=sessions, wanted=wanted, trials=trials)
            until = f"until {100 * wanted:.0f}%" if wanted else "100 jobs"
            print(
                f"jobs/h of {concurrency} slots, {name}, {until}: {loops.held:.3f} +- {loops.half_width:.3f}, "
                f"{loops.sessions:.0f} sessions",
                flush=True,
            )
            least = min(least, loops.held) if wanted and name in CLAIMED else least
    print(f"held least often where it is claimed: {least:.3f} (at least {LEAST_HELD})")
    return 0 if least >= LEAST_HELD else 1


if __name__ == "__main__":
    sys.exit(main())
