"""Where a difference comes from: which part of a job's time, and which traces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from rotoscope.replayer.reading import Results
from rotoscope.replayer.results import SessionResult

PARTS = ("queue_prefill_s", "decode_s", "waiting_s")
"""Of a job's latency, by the names of a session's fields."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPart:
    """Mean time of a part of the jobs that were completed in every run."""

    part: str
    a_s: float
    b_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceChange:
    """Mean job latency of one trace, of the same jobs."""

    trace: int
    """In the order given, from 0."""
    jobs: int
    """Of each run."""
    a_s: float
    b_s: float

    @property
    def change_percent(self) -> float:
        return 100 * (self.b_s / self.a_s - 1) if self.a_s else 0.0


def job_parts(a: Sequence[Results], b: Sequence[Results], completed: frozenset[int]) -> Iterator[JobPart]:
    """Yield the parts that are known of all jobs of both sides."""
    for name in PARTS:
        of_a, of_b = ([getattr(one, name) for one in _jobs(side, completed)] for side in (a, b))
        if of_a and None not in of_a and None not in of_b:
            yield JobPart(part=name, a_s=fmean(of_a), b_s=fmean(of_b))


def trace_changes(a: Sequence[Results], b: Sequence[Results], completed: frozenset[int]) -> list[TraceChange]:
    """Return the traces, those that changed most first."""
    of_a, of_b = (_latencies_s(side, completed) for side in (a, b))
    changes = [
        TraceChange(trace=trace, jobs=len(of_a[trace]) // len(a), a_s=fmean(of_a[trace]), b_s=fmean(of_b[trace]))
        for trace in sorted(of_a)
    ]
    return sorted(changes, key=lambda one: -abs(one.change_percent))


def _latencies_s(side: Sequence[Results], completed: frozenset[int]) -> dict[int, list[float]]:
    found: defaultdict[int, list[float]] = defaultdict(list)
    for one in _jobs(side, completed):
        if one.latency_s is not None:
            found[one.trace].append(one.latency_s)
    return found


def _jobs(side: Sequence[Results], completed: frozenset[int]) -> Iterator[SessionResult]:
    for run in side:
        yield from (one for one in run.sessions if one.session in completed)
