from __future__ import annotations

from event_loops import in_event_loop
from fake_nvml import FakeNvml

from rotoscope.replayer.gpu_telemetry.nvml import installed_nvml, nvml_source
from rotoscope.replayer.gpu_telemetry.readings import Reading


@in_event_loop
async def test_each_gpu_tells_its_values_in_plain_units() -> None:
    source = nvml_source(FakeNvml())
    assert source is not None
    readings = await source.read()

    assert readings is not None
    assert [reading.power_w for reading in readings.values()] == [300.5, 300.501]
    assert readings == source.start
    assert next(iter(readings.values())) == Reading(
        power_w=300.5, energy_j=9000.5, utilisation=0.75, memory_mib=3.0, temperature_c=65.0
    )


@in_event_loop
async def test_what_a_gpu_does_not_tell_is_none() -> None:
    source = nvml_source(FakeNvml(1, missing=("energy", "rates", "memory", "temperature")))

    assert source is not None
    assert [*source.start.values()] == [Reading(power_w=300.5)]


def test_without_driver_or_gpu_there_is_nothing_to_ask() -> None:
    assert nvml_source(FakeNvml(driver=False)) is None
    assert nvml_source(FakeNvml(0)) is None


def test_a_module_that_is_there_has_what_is_asked_of_it() -> None:
    module = installed_nvml()

    assert module is None or all(hasattr(module, name) for name in dir(FakeNvml) if name.startswith(("nvml", "NVML")))
