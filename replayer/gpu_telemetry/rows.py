"""What the GPUs did as rows of a table, and what a reader must know about it."""

from __future__ import annotations

from collections.abc import Iterator

from rotoscope.replayer.gpu_telemetry.totals import GpuTotals


def gpu_rows(totals: GpuTotals) -> Iterator[tuple[str, str, str]]:
    """Yield what was told."""
    where = "in the window" if totals.over == "window" else "over the run"
    yield "GPUs", f"{totals.gpus:,}", f"told by {totals.teller}, {where}"
    if totals.mean_power_w is not None:
        yield "  power", f"{totals.mean_power_w:,.0f} W", f"mean of all, {totals.max_gpu_power_w:,.0f} W of one at most"
    if totals.energy_j is not None:
        yield "  energy", f"{totals.energy_j:,.0f} J", f"by {totals.energy_from}{_costs(totals)}"
    if totals.mean_utilisation is not None:
        yield "  in use", f"{totals.mean_utilisation:.1%}", "of the time, mean of all"
    if totals.max_memory_mib is not None:
        yield "  memory", f"{totals.max_memory_mib:,.0f} MiB", "of one at most"
    if totals.max_temperature_c is not None:
        yield "  temperature", f"{totals.max_temperature_c:,.0f} °C", "of one at most"


def gpu_findings(totals: GpuTotals, *, gpus: int) -> Iterator[str]:
    """Yield what makes the numbers doubtful; `gpus` is how many the server is taken to have."""
    if totals.xids:
        numbers = ", ".join(map(str, sorted(set(totals.xids))))
        yield f"{len(totals.xids)} errors of GPUs during the run (XID {numbers}): look into the driver's log"
    if totals.gpus != gpus:
        yield f"power and energy are those of all {totals.gpus} GPUs that {totals.teller} tells of, not of {gpus}"


def _costs(totals: GpuTotals) -> str:
    costs = [
        f"{cost:,.{digits}f} J {what}"
        for cost, digits, what in (
            (totals.energy_j_per_job, 1, "a job"),
            (totals.energy_j_per_output_token, 2, "an output token"),
        )
        if cost is not None
    ]
    return "".join(f", {one}" for one in costs)
