from __future__ import annotations

from dataclasses import replace

from rotoscope.replayer.gpu_telemetry.rows import gpu_findings, gpu_rows
from rotoscope.replayer.gpu_telemetry.totals import GpuTotals

TOTALS = GpuTotals(
    teller="dcgm",
    over="window",
    from_s=1.0,
    to_s=3.0,
    gpus=2,
    missed=0,
    mean_power_w=800.0,
    max_gpu_power_w=500.4,
    energy_j=1600.0,
    energy_from="counters",
    energy_j_per_job=400.0,
    energy_j_per_output_token=1.25,
    mean_utilisation=0.5,
    max_memory_mib=131_072.0,
    max_temperature_c=61.0,
    xids=(),
)


def test_what_the_gpus_told_is_shown() -> None:
    assert list(gpu_rows(TOTALS)) == [
        ("GPUs", "2", "told by dcgm, in the window"),
        ("  power", "800 W", "mean of all, 500 W of one at most"),
        ("  energy", "1,600 J", "by counters, 400.0 J a job, 1.25 J an output token"),
        ("  in use", "50.0%", "of the time, mean of all"),
        ("  memory", "131,072 MiB", "of one at most"),
        ("  temperature", "61 °C", "of one at most"),
    ]


def test_what_they_did_not_tell_is_not_shown() -> None:
    silent = replace(
        TOTALS,
        over="run",
        mean_power_w=None,
        energy_j=None,
        mean_utilisation=None,
        max_memory_mib=None,
        max_temperature_c=None,
    )

    assert list(gpu_rows(silent)) == [("GPUs", "2", "told by dcgm, over the run")]


def test_errors_and_another_number_of_gpus_are_noted() -> None:
    assert list(gpu_findings(TOTALS, gpus=2)) == []
    (errors,) = gpu_findings(replace(TOTALS, xids=(79, 31, 79)), gpus=2)
    assert errors == "3 errors of GPUs during the run (XID 31, 79): look into the driver's log"
    (number,) = gpu_findings(TOTALS, gpus=4)
    assert number == "power and energy are those of all 2 GPUs that dcgm tells of, not of 4"
