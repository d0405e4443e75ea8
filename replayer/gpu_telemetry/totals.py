"""What the GPUs did over the steady-state window, and what a job and a token cost in energy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from rotoscope.replayer import metrics
from rotoscope.replayer.gpu_telemetry.readings import GpuSample, Teller
from rotoscope.replayer.gpu_telemetry.series import GpuSeries
from rotoscope.replayer.metrics import Credit, Interval
from rotoscope.replayer.results import RequestResult
from rotoscope.replayer.server_side import Over
from rotoscope.replayer.stretch import counted, level_of
from rotoscope.replayer.token_rates import osl, request_time

EnergyFrom: TypeAlias = Literal["counters", "power"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTotals:
    """All GPUs in a stretch of time; None where they do not tell."""

    teller: Teller
    over: Over
    """The steady-state window, or the whole run where there is none."""
    from_s: float
    to_s: float
    gpus: int
    """Seen in the run."""
    missed: int
    """Looks of the whole run that gave nothing."""
    mean_power_w: float | None
    """Of all GPUs together; so is the energy."""
    max_gpu_power_w: float | None
    """The highest of one GPU; so are memory and temperature."""
    energy_j: float | None
    energy_from: EnergyFrom | None
    """Counters of all GPUs, or mean power x time."""
    energy_j_per_job: float | None
    energy_j_per_output_token: float | None
    mean_utilisation: float | None
    """Mean over GPUs and time."""
    max_memory_mib: float | None
    max_temperature_c: float | None
    xids: tuple[int, ...]
    """Errors of the driver that showed themselves in the run, each as often as it was told anew."""


def gpu_totals_of(
    series: GpuSeries,
    requests: Sequence[RequestResult],
    *,
    window: Interval | None,
    duration_s: float,
    jobs: float,
    credit: Credit = metrics.share_in_window,
) -> GpuTotals:
    """Sum up the GPUs over the window, or the whole run; `jobs` are those done in that time."""
    stretch = window or Interval(0.0, duration_s)
    powers_w = _means(series, "power_w", stretch)
    energy_j, energy_from = _energy(series, powers_w, stretch)
    return GpuTotals(
        teller=series.source.teller,
        over="window" if window else "run",
        from_s=stretch.start_s,
        to_s=round(stretch.end_s, 6),
        gpus=len(series.samples),
        missed=series.missed,
        mean_power_w=sum(powers_w) if powers_w else None,
        max_gpu_power_w=_highest(series, "power_w", stretch),
        energy_j=energy_j,
        energy_from=energy_from,
        energy_j_per_job=metrics.energy_j_per(energy_j, jobs),
        energy_j_per_output_token=metrics.energy_j_per(energy_j, output_tokens(requests, stretch, credit)),
        mean_utilisation=_mean(_means(series, "utilisation", stretch)),
        max_memory_mib=_highest(series, "memory_mib", stretch),
        max_temperature_c=_highest(series, "temperature_c", stretch),
        xids=tuple(xid for samples in series.samples for xid in _xids(samples)),
    )


def output_tokens(
    requests: Sequence[RequestResult], stretch: Interval, credit: Credit = metrics.share_in_window
) -> float:
    """Return the output tokens of answered requests, each with the share of its latency that lies in the stretch.

    `credit` may say what else a request counts there.
    """
    return sum(
        osl(one) * credit(time, stretch)
        for one in requests
        if one.status == "ok" and (time := request_time(one)) is not None
    )


def _energy(series: GpuSeries, powers_w: Sequence[float], stretch: Interval) -> tuple[float | None, EnergyFrom | None]:
    used_j = [counted(_told(samples, "energy_j"), "energy_j", stretch) for samples in series.samples]
    known_j = [one for one in used_j if one is not None]
    if known_j and len(known_j) == len(used_j):
        return sum(known_j), "counters"
    if powers_w and len(powers_w) == len(series.samples):
        return sum(powers_w) * stretch.length_s, "power"
    return None, None


def _means(series: GpuSeries, name: str, stretch: Interval) -> list[float]:
    """Return the mean of each GPU that tells it."""
    levels = (level_of(samples, name, stretch) for samples in series.samples)
    return [level.mean for level in levels if level is not None]


def _highest(series: GpuSeries, name: str, stretch: Interval) -> float | None:
    levels = (level_of(samples, name, stretch) for samples in series.samples)
    return max((level.max for level in levels if level is not None), default=None)


def _told(samples: Sequence[GpuSample], name: str) -> list[GpuSample]:
    """Return the samples that have a value: one without says nothing about a counter, which goes on."""
    return [one for one in samples if getattr(one, name) is not None]


def _xids(samples: Sequence[GpuSample]) -> Iterator[int]:
    """Yield each error that was not told the time before; DCGM tells the last one again and again."""
    told = [one.xid for one in samples if one.xid is not None]
    return (now for before, now in pairwise(told) if now and now != before)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
