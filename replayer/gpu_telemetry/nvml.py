"""GPUs of this machine as the driver tells of them, by nvidia-ml-py, where that is installed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from rotoscope.replayer.gpu_telemetry.readings import GpuSource, Reading, Readings

_BYTES_A_MIB = 2**20


def installed_nvml() -> Any | None:
    """Return the module of nvidia-ml-py; None where it is not installed."""
    try:
        import pynvml
    except ImportError:
        return None
    return pynvml


def nvml_source(nvml: Any) -> GpuSource | None:
    """Return the GPUs of this machine; None where there is no driver or no GPU.

    Errors are not told: nobody asked for these GPUs.
    """
    try:
        nvml.nvmlInit()
        handles = [nvml.nvmlDeviceGetHandleByIndex(number) for number in range(nvml.nvmlDeviceGetCount())]
    except nvml.NVMLError:
        return None

    def read() -> Readings:
        return {f"{number:06}": _reading(nvml, handle) for number, handle in enumerate(handles)}

    async def read_beside() -> Readings | None:
        return await asyncio.to_thread(read)  # a call into the driver takes milliseconds, a busy one more

    return GpuSource("nvml", read(), read_beside) if handles else None


def _reading(nvml: Any, handle: Any) -> Reading:
    def told(ask: Callable[..., Any], *more: Any) -> Any | None:
        try:
            return ask(handle, *more)
        except nvml.NVMLError:  # not every GPU tells everything
            return None

    power_mw = told(nvml.nvmlDeviceGetPowerUsage)
    energy_mj = told(nvml.nvmlDeviceGetTotalEnergyConsumption)
    rates = told(nvml.nvmlDeviceGetUtilizationRates)
    memory = told(nvml.nvmlDeviceGetMemoryInfo)
    temperature_c = told(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU)
    return Reading(
        power_w=None if power_mw is None else power_mw / 1000,
        energy_j=None if energy_mj is None else energy_mj / 1000,
        utilisation=None if rates is None else rates.gpu / 100,
        memory_mib=None if memory is None else memory.used / _BYTES_A_MIB,
        temperature_c=None if temperature_c is None else float(temperature_c),
    )
