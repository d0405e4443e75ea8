from __future__ import annotations

import pytest
from replay_doubles import make_request_result

from rotoscope.replayer.gpu_telemetry.readings import GpuSample, GpuSource, Readings
from rotoscope.replayer.gpu_telemetry.series import GpuSeries
from rotoscope.replayer.gpu_telemetry.totals import GpuTotals, gpu_totals_of, output_tokens
from rotoscope.replayer.metrics import Interval, ends_in_window

WINDOW = Interval(1.0, 3.0)


async def tell_nothing() -> Readings | None:
    return None


def series_of(*gpus: list[GpuSample]) -> GpuSeries:
    series = GpuSeries(GpuSource("dcgm", {}, tell_nothing), elapsed_s=lambda: 0.0, write=lambda sample: None)
    series.samples = [*gpus]
    return series


def gpu_of(
    power_w: float, *, at_s: tuple[float, ...] = (0.0, 1.0, 2.0, 3.0, 4.0), counts: bool = True
) -> list[GpuSample]:
    """Return the samples of a GPU that draws the same power all the time."""
    return [
        GpuSample(
            at_s=one,
            gpu=0,
            power_w=power_w,
            energy_j=power_w * one if counts else None,
            utilisation=power_w / 1000,
            memory_mib=100 * power_w,
            temperature_c=40 + one,
        )
        for one in at_s
    ]


def totals_of(series: GpuSeries, *, window: Interval | None = WINDOW, jobs: float = 4.0) -> GpuTotals:
    requests = [
        make_request_result(start_s=0.0, latency_s=2.0, completion_tokens=40),
        make_request_result(start_s=2.0, latency_s=1.0, completion_tokens=30),
        make_request_result(start_s=2.0, latency_s=1.0, completion_tokens=30, status="failed"),
    ]
    return gpu_totals_of(series, requests, window=window, duration_s=4.0, jobs=jobs)


def test_power_and_energy_are_those_of_all_gpus_and_a_job_and_a_token_have_their_part() -> None:
    totals = totals_of(series_of(gpu_of(300.0), gpu_of(500.0)))

    assert (totals.gpus, totals.mean_power_w, totals.max_gpu_power_w) == (2, 800.0, 500.0)
    assert (totals.energy_j, totals.energy_from) == (1600.0, "counters")
    assert totals.energy_j_per_job == 400.0
    assert totals.energy_j_per_output_token == 1600.0 / 50
    assert totals.mean_utilisation == pytest.approx(0.4)
    assert totals.max_memory_mib == 50_000.0
    assert totals.max_temperature_c == 43.0


def test_where_not_all_gpus_count_energy_it_is_power_times_time() -> None:
    totals = totals_of(series_of(gpu_of(300.0), gpu_of(500.0, counts=False)))

    assert (totals.energy_j, totals.energy_from) == (1600.0, "power")


def test_a_gpu_that_tells_neither_leaves_the_energy_unknown() -> None:
    totals = totals_of(series_of(gpu_of(300.0, counts=False), [GpuSample(at_s=1.0, gpu=1, temperature_c=50.0)]))

    assert (totals.energy_j, totals.energy_from, totals.energy_j_per_job) == (None, None, None)
    assert totals.mean_power_w == 300.0


def test_a_counter_that_is_not_told_now_and_then_counts_on() -> None:
    samples = gpu_of(300.0)
    samples[2] = GpuSample(at_s=2.0, gpu=0, power_w=300.0)

    totals = totals_of(series_of(samples), window=Interval(1.5, 3.5))

    assert (totals.energy_j, totals.energy_from) == (600.0, "counters")


def test_without_a_window_the_whole_run_counts() -> None:
    totals = totals_of(series_of(gpu_of(300.0)), window=None)

    assert (totals.over, totals.from_s, totals.to_s, totals.energy_j) == ("run", 0.0, 4.0, 1200.0)


def test_without_a_job_there_is_no_energy_of_one() -> None:
    assert totals_of(series_of(gpu_of(300.0)), jobs=0).energy_j_per_job is None


def test_tokens_count_with_the_share_of_their_request_in_the_window() -> None:
    request = make_request_result(start_s=0.0, latency_s=4.0, completion_tokens=100)

    assert output_tokens([request], WINDOW) == 50.0
    assert output_tokens([request], WINDOW, ends_in_window) == 0.0
    assert output_tokens([request], Interval(3.0, 5.0), ends_in_window) == 100.0


def test_an_error_counts_when_it_shows_itself_and_one_from_before_the_run_does_not() -> None:
    def errors(*xids: int | None) -> list[GpuSample]:
        return [GpuSample(at_s=float(number), gpu=0, xid=xid) for number, xid in enumerate(xids)]

    totals = totals_of(series_of(errors(63, 63, None, 63, 79, 79), errors(0, 31, 0, 31), errors(0, 0)))

    assert totals.xids == (79, 31, 31)


def test_gpus_that_tell_nothing_give_nothing() -> None:
    totals = totals_of(series_of())

    assert (totals.gpus, totals.mean_power_w, totals.energy_j, totals.mean_utilisation, totals.xids) == (
        0,
        None,
        None,
        None,
        (),
    )
