"""A sweep as text: a row a point, by setting, with what decides between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from rotoscope.replayer.bootstrap import Bounds
from rotoscope.replayer.pareto import on_frontier
from rotoscope.replayer.sweep.rows import Measured

Cells: TypeAlias = tuple[str, ...]

_NUMBERS: Cells = ("C", "jobs/h/user", "jobs/h/GPU", "hit rate", "optimum", "TTFT p90, ms", "frontier", "valid")


def headings(settings: Sequence[str]) -> Cells:
    """Return the headings of a table with these settings."""
    return (*settings, *_NUMBERS)


def sweep_rows(measured: Sequence[Measured], settings: Sequence[str]) -> Iterator[Cells]:
    """Yield a row for each point under `headings` with the same settings."""
    frontier = on_frontier([one.place for one in measured])
    for one, is_on in zip(measured, frontier, strict=True):
        yield (*(one.point.settings[name] for name in settings), *_cells(one), "yes" if is_on else "", one.valid)


def _cells(one: Measured) -> Cells:
    summary = one.summary
    window, cache, ttft_s = summary.window, summary.cache, summary.ttft_s
    user = _number(window.jobs_per_h_per_user, window.jobs_per_h_per_user_interval) if window else ""
    gpu = _number(window.jobs_per_h_per_gpu, window.jobs_per_h_per_gpu_interval) if window else ""
    return (
        str(one.point.concurrency),
        user,
        gpu,
        _rate(cache.hit_rate),
        _rate(cache.optimal_hit_rate),
        f"{1000 * ttft_s.p90:,.1f}" if ttft_s else "",
    )


def _number(value: float, bounds: Bounds | None) -> str:
    return f"{value:,.1f}" + (f" ({bounds.low:,.1f} to {bounds.high:,.1f})" if bounds else "")


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"{rate:.4f}"
