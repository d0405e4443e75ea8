"""What is compared: each number of a run, computed for any part of its sessions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rotoscope.replayer.comparison.sample import Floats, Sample
from rotoscope.replayer.metrics import SECONDS_PER_HOUR

Kept: TypeAlias = NDArray[np.bool_]
"""Which sessions take part."""
Better: TypeAlias = Literal["lower", "higher"]
Scale: TypeAlias = Literal["ratio", "points"]
"""How two values are compared: B / A, or B - A in hundredths."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One number of a run, as docs/metrics.md defines it."""

    key: str
    title: str
    better: Better
    scale: Scale
    form: str
    """How a value is printed."""
    value: Callable[[Sample, Kept], float]
    """NaN where it is not known."""
    print_factor: float = 1.0

    def told(self, value: float) -> str:
        return self.form.format(value * self.print_factor)


def _mean_latency_s(sample: Sample, kept: Kept) -> float:
    latency_s = sample.latency_s[kept]
    return _ratio(float(np.nansum(latency_s)), float(np.count_nonzero(~np.isnan(latency_s))))


def _jobs_per_h_per_user(sample: Sample, kept: Kept) -> float:
    window = sample.window
    return SECONDS_PER_HOUR * _quotient(window.jobs, window.worked_s, kept) if window else np.nan


def _jobs_per_h_per_gpu(sample: Sample, kept: Kept) -> float:
    return SECONDS_PER_HOUR * _per_gpu_second(sample, sample.window.jobs, kept) if sample.window else np.nan


def _tokens_per_s_per_gpu(sample: Sample, kept: Kept) -> float:
    return _per_gpu_second(sample, sample.window.tokens, kept) if sample.window else np.nan


def _hit_rate(sample: Sample, kept: Kept) -> float:
    return np.nan if sample.cached_tokens is None else _quotient(sample.cached_tokens, sample.prompt_tokens, kept)


def _good_share(sample: Sample, kept: Kept) -> float:
    return np.nan if sample.good is None else _quotient(sample.good, sample.ended, kept)


def _percentile(sample: Sample, kept: Kept, *, name: str, percent: float) -> float:
    values: Floats = getattr(sample, name)
    values = values[kept[sample.owners]]
    values = values[~np.isnan(values)]
    return float(np.percentile(values, percent)) if len(values) else np.nan


def _per_gpu_second(sample: Sample, done: Floats, kept: Kept) -> float:
    """Return what was done a second and GPU: a second of a session's time, times the sessions that there were at once.

    The time that sessions had stays what it was where some are left out: a closed loop fixes it (`replayer.window`).
    """
    window = sample.window
    assert window is not None
    return _quotient(done, window.taken_s, kept) * float(window.taken_s.sum()) / window.gpu_seconds


def _quotient(parts: Floats, wholes: Floats, kept: Kept) -> float:
    return _ratio(float(parts[kept].sum()), float(wholes[kept].sum()))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else np.nan


MEASURES: tuple[Measure, ...] = (
    Measure("job_latency_s", "job latency, s", "lower", "ratio", "{:,.3f}", _mean_latency_s),
    Measure("jobs_per_h_per_user", "jobs/h/user", "higher", "ratio", "{:,.1f}", _jobs_per_h_per_user),
    Measure("jobs_per_h_per_gpu", "jobs/h/GPU", "higher", "ratio", "{:,.1f}", _jobs_per_h_per_gpu),
    *(
        Measure(
            f"{name}_p{percent}_s",
            f"{name.upper()} p{percent}, ms",
            "lower",
            "ratio",
            "{:,.2f}",
            partial(_percentile, name=f"{name}_s", percent=percent),
            1000.0,
        )
        for name, percent in (("ttft", 50), ("ttft", 90), ("itl", 50), ("tpot", 50))
    ),
    Measure("tokens_per_s_per_gpu", "tokens/s/GPU", "higher", "ratio", "{:,.1f}", _tokens_per_s_per_gpu),
    Measure("hit_rate", "hit rate", "higher", "points", "{:.4f}", _hit_rate),
    Measure("good_share", "good answers", "higher", "points", "{:.4f}", _good_share),
)
