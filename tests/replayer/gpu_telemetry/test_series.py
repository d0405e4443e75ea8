from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from event_loops import in_jumping_loop

from rotoscope.replayer.clock import LoopClock
from rotoscope.replayer.gpu_telemetry.readings import GpuSource, Reading, Readings
from rotoscope.replayer.gpu_telemetry.series import Energy, GpuSeries, gpu_series_of
from rotoscope.replayer.polling import sampling
from rotoscope.replayer.results import ResultsFolder


def source_of(*told: Readings | None) -> GpuSource:
    """Return a source that tells one after another, then nothing more."""
    rest: Iterator[Readings | None] = iter(told)

    async def read() -> Readings | None:
        return next(rest, None)

    return GpuSource("dcgm", {"b": Reading(energy_j=1.0)}, read)


def series_over(*told: Readings | None) -> GpuSeries:
    return GpuSeries(source_of(*told), elapsed_s=LoopClock().now, write=lambda sample: None)


def test_energy_is_what_was_used_since_the_gpu_was_first_seen() -> None:
    energy = Energy()

    assert [energy.used_j(0, counter) for counter in (100.0, None, 150.5, 151.0)] == [0.0, None, 50.5, 51.0]
    assert energy.used_j(1, 7.0) == 0.0


def test_of_a_counter_that_began_anew_nothing_is_known_any_more() -> None:
    energy = Energy()

    assert [energy.used_j(0, counter) for counter in (100.0, 150.0, 3.0, 400.0)] == [0.0, 50.0, None, None]


@in_jumping_loop
async def test_fields_and_gpus_that_appear_and_vanish_leave_gaps() -> None:
    series = series_over(
        {"b": Reading(power_w=100.0, energy_j=10.0)},
        {"b": Reading(power_w=110.0, energy_j=20.0, utilisation=0.5), "a": Reading(temperature_c=40.0)},
        {"a": Reading(temperature_c=41.0)},
        None,
        {"b": Reading(energy_j=50.0)},
    )

    await series.begin()
    async with series.looking():
        await LoopClock().sleep(4.0)

    first, second = series.samples
    assert [(one.at_s, one.power_w, one.energy_j, one.utilisation) for one in first] == [
        (0.0, 100.0, 0.0, None),
        (0.5, 110.0, 10.0, 0.5),
        (3.5, None, 40.0, None),
    ]
    assert [(one.at_s, one.gpu, one.temperature_c) for one in second] == [(0.5, 1, 40.0), (1.5, 1, 41.0)]
    assert series.missed == 1


@in_jumping_loop
async def test_a_run_whose_first_look_fails_begins_with_what_was_told_before() -> None:
    series = series_over(None, {"b": Reading(energy_j=4.0)})
    await series.begin()
    await series.look()

    assert [one.energy_j for one in series.samples[0]] == [0.0, 3.0]


@in_jumping_loop
async def test_at_the_end_only_what_is_counted_is_taken() -> None:
    told = Reading(power_w=100.0, energy_j=10.0, utilisation=1.0, xid=31)
    series = series_over({"a": told}, {"a": told})
    await series.begin()
    await LoopClock().sleep(9.0)

    await series.look_at_end()

    last = series.samples[0][-1]
    assert (last.at_s, last.energy_j, last.xid, last.power_w, last.utilisation) == (9.0, 0.0, 31, None, None)


@in_jumping_loop
async def test_lines_number_the_gpus_and_name_none(tmp_path: Path) -> None:
    gpus = {"node-a 000001 GPU-aa": Reading(power_w=1.0), "node-a 000000 GPU-bb": Reading(power_w=2.0)}
    with ResultsFolder.opened(tmp_path) as results:
        series = gpu_series_of(source_of(gpus, gpus), elapsed_s=LoopClock().now, results=results)
        assert series is not None
        await series.begin()
        async with sampling(series):
            await LoopClock().sleep(1.0)

    text = (tmp_path / "gpus.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["at_s"], line["gpu"], line["power_w"]) for line in lines] == [
        (0.0, 0, 2.0),
        (0.0, 1, 1.0),
        (0.5, 0, 2.0),
        (0.5, 1, 1.0),
    ]
    assert "node" not in text
    assert "GPU-" not in text


@in_jumping_loop
async def test_without_gpus_nothing_is_taken(tmp_path: Path) -> None:
    with ResultsFolder.opened(tmp_path) as results:
        assert gpu_series_of(None, elapsed_s=LoopClock().now, results=results) is None
