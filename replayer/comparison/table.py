"""A comparison as text: rows of cells for tables on a terminal, and the sentences around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from rotoscope.replayer.comparison.measures import MEASURES
from rotoscope.replayer.comparison.verdicts import Compared, Comparison, PointComparison

Row: TypeAlias = tuple[str, ...]

MOST_TRACES = 5
JOB_HEADINGS: Row = ("where the time of a job goes", "A", "B", "B - A")
TRACE_HEADINGS: Row = ("traces that changed most", "jobs", "A", "B", "change")
_MEASURES = {one.key: one for one in MEASURES}
_PARTS = {"queue_prefill_s": "queue, prefill", "decode_s": "decode", "waiting_s": "waiting"}


def headings(comparison: Comparison, point: PointComparison) -> Row:
    what = f"compare: {point.load}" if point.load else "compare"
    return what, "A", "B", f"B against A, at {comparison.confidence_percent:g} %"


def number_rows(point: PointComparison) -> Iterator[Row]:
    """Yield the numbers of both sides with their verdicts, under `headings`."""
    for one in point.numbers:
        measure = _MEASURES[one.measure]
        yield measure.title, measure.told(one.a), measure.told(one.b), verdict(one)
        if one.measure == "hit_rate" and None not in (point.optimal_hit_rate_of_a, point.optimal_hit_rate_of_b):
            yield "  optimum", f"{point.optimal_hit_rate_of_a:.4f}", f"{point.optimal_hit_rate_of_b:.4f}"


def verdict(one: Compared) -> str:
    """Say whether B is better or worse, and by how much."""
    unit = "%" if one.scale == "ratio" else "points"
    if one.low is None or one.high is None:
        return f"{one.change:+.1f} {unit}, no verdict"
    interval = f"({one.low:+.1f} to {one.high:+.1f} {unit})"
    if one.verdict == "no difference seen":
        return f"no difference seen {interval}"
    return f"B is {one.verdict}: {one.change:+.1f} {unit} {interval}"


def job_rows(point: PointComparison) -> Iterator[Row]:
    """Yield the parts of a job's mean time, under `JOB_HEADINGS`."""
    for one in point.job_parts:
        yield _PARTS[one.part], f"{one.a_s:,.3f} s", f"{one.b_s:,.3f} s", f"{one.b_s - one.a_s:+,.3f} s"


def trace_rows(point: PointComparison) -> Iterator[Row]:
    """Yield the traces whose jobs changed most, under `TRACE_HEADINGS`; none where there is only one, or none changed."""
    if len(point.traces) > 1:
        for one in (one for one in point.traces[:MOST_TRACES] if one.a_s != one.b_s):
            cells = f"{one.jobs}", f"{one.a_s:,.3f} s", f"{one.b_s:,.3f} s", f"{one.change_percent:+.1f} %"
            yield (f"trace {one.trace + 1}", *cells)


def sentences(comparison: Comparison) -> Iterator[str]:
    """Yield what a reader of the tables must know."""
    for text in comparison.invalid:
        yield f"INVALID, no verdict: {text}"
    if comparison.simulated:
        yield "measured on a simulator: its times are modelled, no model was computed"
    for text in comparison.differences:
        yield f"differs: {text}"
    for side, count in (("A", comparison.runs_left_out_of_a), ("B", comparison.runs_left_out_of_b)):
        if count:
            yield f"{count} of the runs of {side} are left out: the other side has none under their load"
    for point in comparison.points:
        yield from _of_point(point)
        if not point.is_told and not comparison.invalid:
            yield f"{_of(point)}no verdict: so few sessions say nothing of chance"
    if any(point.runs_of_a == 1 for point in comparison.points) and not comparison.invalid:
        yield "one run a side: what changes from run to run is not in these intervals; give folders of several runs"


def _of_point(point: PointComparison) -> Iterator[str]:
    load = _of(point)
    runs = f", {point.runs_of_a} runs of A and {point.runs_of_b} of B" if point.runs_of_a > 1 else ""
    yield f"{load}paired by session, {point.sessions} in all runs{runs}"
    if point.sessions_left_out:
        yield f"{load}{point.sessions_left_out} more sessions are left out: time was over for them in another run"


def _of(point: PointComparison) -> str:
    return f"{point.load}: " if point.load else ""
