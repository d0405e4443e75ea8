"""Service level objectives: how long so many percent of requests or jobs may take, and whether a run keeps to it.

What is looked at is the steady state: requests that were sent, and jobs that were let in, while the planned concurrency
was there. Before and after it fewer are in flight, and all is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from rotoscope.replayer.bootstrap import Bounds, percentile_intervals
from rotoscope.replayer.reading import Results
from rotoscope.replayer.results import RequestResult
from rotoscope.replayer.token_rates import tpot_s
from rotoscope.replayer.window import Window
from rotoscope.traces.errors import UnusableInput

Timed: TypeAlias = tuple[float, int]
"""A time in seconds and the session whose it is."""

PERCENTS = (50, 90, 95, 99)
OF_REQUESTS: Mapping[str, Callable[[RequestResult], float | None]] = {
    "ttft": lambda one: one.ttft_s,
    "itl": lambda one: one.itl_s,
    "tpot": tpot_s,
    "latency": lambda one: one.latency_s,
}
JOB_LATENCY = "job_latency"
METRICS = (*OF_REQUESTS, JOB_LATENCY)


@dataclass(frozen=True, slots=True)
class Objective:
    """So many percent of a metric take no longer than the limit."""

    percent: int
    metric: str
    limit_s: float

    @property
    def name(self) -> str:
        return f"p{self.percent}_{self.metric}"


@dataclass(frozen=True, slots=True)
class Reached:
    """What a run has of an objective; None where there is nothing to measure."""

    objective: Objective
    value_s: float | None
    interval_s: Bounds | None

    @property
    def is_met(self) -> bool:
        """Answers of one token have no ITL and break no limit of it; nothing at all is no evidence."""
        return self.value_s is not None and self.value_s <= self.objective.limit_s

    @property
    def is_sure(self) -> bool:
        """Whether the whole interval lies on one side of the limit."""
        limit_s, interval_s = self.objective.limit_s, self.interval_s
        return interval_s is not None and not interval_s.low <= limit_s < interval_s.high


def objectives_of(limits_s: Mapping[str, float]) -> tuple[Objective, ...]:
    """Return the objectives of limits by name, such as `p95_ttft`; raise UnusableInput where there is none."""
    if not limits_s:
        raise UnusableInput("expected an objective, such as --p95-ttft 2s")
    parts = ((name.partition("_"), limit_s) for name, limit_s in limits_s.items())
    return tuple(Objective(int(percent[1:]), metric, limit_s) for (percent, _, metric), limit_s in parts)


def reached(results: Results, objectives: Sequence[Objective]) -> tuple[Reached, ...]:
    """Return what a run has of each objective; nothing without a steady state."""
    window = results.summary.window
    timed = {metric: [] if window is None else [*_timed(results, metric, window)] for metric in METRICS}
    return tuple(_reached(one, timed[one.metric], seed=results.summary.setup.seed) for one in objectives)


def _reached(objective: Objective, timed: Sequence[Timed], *, seed: int) -> Reached:
    if not timed:
        return Reached(objective, None, None)
    values_s, owners = [value_s for value_s, _ in timed], [owner for _, owner in timed]
    intervals = percentile_intervals(values_s, owners, (objective.percent,), seed=seed)
    return Reached(objective, float(np.percentile(values_s, objective.percent)), intervals[0] if intervals else None)


def _timed(results: Results, metric: str, window: Window) -> Iterator[Timed]:
    if metric == JOB_LATENCY:
        for job in results.sessions:
            if job.latency_s is not None and window.opens_s <= job.admitted_s <= window.closes_s:
                yield job.latency_s, job.session
        return
    for one in results.requests:
        value_s = OF_REQUESTS[metric](one) if one.status == "ok" else None
        if value_s is not None and one.start_s is not None and window.opens_s <= one.start_s <= window.closes_s:
            yield value_s, one.session
