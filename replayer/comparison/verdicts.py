"""Compare two systems: each number of both, how far they are apart, and a verdict only where that is more than chance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from rotoscope.replayer.comparison.measures import MEASURES, Kept, Measure, Scale
from rotoscope.replayer.comparison.pairing import Pairing, pair
from rotoscope.replayer.comparison.runs import Point, Run, differences, label, left_out, points_of, runs_in
from rotoscope.replayer.comparison.sample import Floats, Sample, sample_of
from rotoscope.replayer.comparison.spread import Numbers, spread_of
from rotoscope.replayer.comparison.where import JobPart, TraceChange, job_parts, trace_changes
from rotoscope.replayer.reading import Results

Verdict: TypeAlias = Literal["better", "worse", "no difference seen", "not known"]
"""Of B, against A."""
LEAST = 1e-6
"""Difference, as a share, below which there is no verdict: times are kept in microseconds."""
INVALID_EXIT_CODE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One number of both sides."""

    measure: str
    a: float
    """Of several runs the geometric mean; of shares the mean."""
    b: float
    scale: Scale
    change: float
    """From A to B, in percent of A, or in points."""
    low: float | None
    """Interval of the change, of all numbers of the comparison together."""
    high: float | None
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class PointComparison:
    """Both sides under one load."""

    load: str
    """What tells it from the other loads; empty where it is the only one."""
    runs_of_a: int
    runs_of_b: int
    sessions: int
    """That all runs have in common."""
    sessions_left_out: int
    confidence: float
    """Share of such comparisons in which all intervals hold."""
    numbers: tuple[Compared, ...]
    optimal_hit_rate_of_a: float | None
    optimal_hit_rate_of_b: float | None
    job_parts: tuple[JobPart, ...]
    traces: tuple[TraceChange, ...]

    @property
    def is_told(self) -> bool:
        """Whether there is an interval of any number."""
        return any(one.low is not None for one in self.numbers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What `rotoscope compare` finds."""

    confidence_percent: float
    differences: tuple[str, ...]
    """What differs between the systems, as far as their setups tell."""
    simulated: bool
    """Whether times of any run were modelled."""
    invalid: tuple[str, ...]
    """Runs that are not valid, and why; there is no verdict then."""
    runs_left_out_of_a: int
    """Without a counterpart."""
    runs_left_out_of_b: int
    points: tuple[PointComparison, ...]

    @property
    def exit_code(self) -> int:
        return INVALID_EXIT_CODE if self.invalid else 0

    @property
    def is_told(self) -> bool:
        """Whether each load has an interval of any number, so that what is worse could show."""
        return all(point.is_told for point in self.points)

    def worse(self, percent: float) -> Iterator[Compared]:
        """Yield what is worse in B for certain, and by so many percent or points at least."""
        for point in self.points:
            yield from (one for one in point.numbers if one.verdict == "worse" and abs(one.change) >= percent)

    def as_dict(self) -> dict[str, object]:
        """Return what `--json` prints."""
        return asdict(self)


def compare(a: Path, b: Path, *, confidence_percent: float = 95.0) -> Comparison:
    """Compare the results of two folders, each of one run or of several; raise UnusableInput where they are no pair."""
    runs_a, runs_b = runs_in(a), runs_in(b)
    points = points_of(runs_a, runs_b)
    invalid = (*_invalid("A", points, 0), *_invalid("B", points, 1))
    confidence = (confidence_percent / 100) ** (1 / len(points))  # points are runs of their own: of all together
    missing_a, missing_b = left_out(points, runs_a, runs_b)
    return Comparison(
        confidence_percent=confidence_percent,
        differences=tuple(differences(points)),
        simulated=any(run.summary.setup.simulated for point in points for run in (*point.a, *point.b)),
        invalid=invalid,
        runs_left_out_of_a=missing_a,
        runs_left_out_of_b=missing_b,
        points=tuple(
            _compared(point, label(point, points), confidence=confidence, valid=not invalid) for point in points
        ),
    )


def _compared(point: Point, load: str, *, confidence: float, valid: bool) -> PointComparison:
    a, b = ([run.read() for run in side] for side in (point.a, point.b))
    pairing = pair([*a, *b])
    samples = [[sample_of(run, pairing.order, completed=pairing.completed) for run in side] for side in (a, b)]
    if len({run.summary.setup.limits for run in (*a, *b)}) > 1:
        samples = [[replace(sample, good=None) for sample in side] for side in samples]
    return PointComparison(
        load=load,
        runs_of_a=len(a),
        runs_of_b=len(b),
        sessions=len(pairing.order),
        sessions_left_out=pairing.left_out,
        confidence=confidence,
        numbers=tuple(
            _numbers(samples[0], samples[1], in_flight=_in_flight(a, pairing), confidence=confidence, valid=valid)
        ),
        optimal_hit_rate_of_a=_optimum(point.a),
        optimal_hit_rate_of_b=_optimum(point.b),
        job_parts=tuple(job_parts(a, b, pairing.completed)),
        traces=tuple(trace_changes(a, b, pairing.completed)),
    )


def _numbers(
    a: Sequence[Sample], b: Sequence[Sample], *, in_flight: float, confidence: float, valid: bool
) -> Iterator[Compared]:
    """Yield each number that is known of all runs."""
    everything = np.ones(len(a[0].latency_s), dtype=np.bool_)
    measures = [one for one in MEASURES if all(np.isfinite(_scaled(one, sample, everything)) for sample in (*a, *b))]
    of_a, of_b = ([_numbers_of(sample, measures) for sample in side] for side in (a, b))
    spread = spread_of(of_a, of_b, sessions=len(everything), in_flight=in_flight, confidence=confidence)
    for index, measure in enumerate(measures):
        value_a, value_b = (np.mean([numbers(everything)[index] for numbers in side]) for side in (of_a, of_b))
        yield _one(
            measure,
            value_a,
            value_b,
            half_width=float(spread.half_widths[index]) if valid else math.nan,
        )


def _one(measure: Measure, a: float, b: float, *, half_width: float) -> Compared:
    """Return a number of both sides, all on the measure's scale."""
    difference = float(b - a)
    low, high = difference - half_width, difference + half_width
    known = math.isfinite(half_width)
    return Compared(
        measure=measure.key,
        a=_value(measure, a),
        b=_value(measure, b),
        scale=measure.scale,
        change=_change(measure, difference),
        low=_change(measure, low) if known else None,
        high=_change(measure, high) if known else None,
        verdict=_verdict(measure, low, high) if known else "not known",
    )


def _verdict(measure: Measure, low: float, high: float) -> Verdict:
    if low <= LEAST and high >= -LEAST:
        return "no difference seen"
    return "better" if (low > 0) == (measure.better == "higher") else "worse"


def _numbers_of(sample: Sample, measures: Sequence[Measure]) -> Numbers:
    def numbers(kept: Kept) -> Floats:
        return np.array([_scaled(measure, sample, kept) for measure in measures], dtype=np.float64)

    return numbers


def _scaled(measure: Measure, sample: Sample, kept: Kept) -> float:
    """Return a value on the scale on which it is compared: its logarithm, or itself."""
    value = measure.value(sample, kept)
    if measure.scale == "points":
        return value
    return math.log(value) if value > 0 else math.nan


def _value(measure: Measure, scaled: float) -> float:
    return float(scaled) if measure.scale == "points" else math.exp(scaled)


def _change(measure: Measure, difference: float) -> float:
    return 100 * (difference if measure.scale == "points" else math.expm1(difference))


def _in_flight(runs: Sequence[Results], pairing: Pairing) -> float:
    """Return how many sessions were there at the same time: planned, or the mean of an open loop."""
    setup = runs[0].summary.setup
    if setup.concurrency is not None:
        return setup.concurrency
    sessions = [one for one in runs[0].sessions if one.session in pairing.completed and one.latency_s is not None]
    latencies_s = [one.latency_s or 0.0 for one in sessions]
    span_s = max(one.admitted_s + (one.latency_s or 0.0) for one in sessions) if sessions else 0.0
    return sum(latencies_s) / span_s if span_s else 1.0


def _optimum(runs: Sequence[Run]) -> float | None:
    rates = [run.summary.cache.optimal_hit_rate for run in runs]
    return None if None in rates else sum(rate or 0.0 for rate in rates) / len(rates)


def _invalid(side: str, points: Sequence[Point], number: int) -> Iterator[str]:
    for point in points:
        for run in (point.a, point.b)[number]:
            if run.summary.exit_code:
                yield f"{side}, {run.folder.name}: {_reason(run)}"


def _reason(run: Run) -> str:
    if run.summary.interrupted:
        return "interrupted"
    validity = run.summary.validity
    if validity and validity.failed:
        return "; ".join(f"{gate.name}: {gate.says}" for gate in validity.failed)
    counts = run.summary.sessions
    return f"{counts.failed} of {counts.planned} sessions failed"
