"""A driver of GPUs as nvidia-ml-py tells of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class FakeNvml:
    """The functions of nvidia-ml-py that are used, of GPUs whose handles are their numbers."""

    class NVMLError(Exception):
        pass

    NVML_TEMPERATURE_GPU = 0

    def __init__(self, gpus: int = 2, *, missing: tuple[str, ...] = (), driver: bool = True) -> None:
        self._gpus = gpus
        self._missing = missing
        self._driver = driver

    def nvmlInit(self) -> None:
        if not self._driver:
            raise self.NVMLError

    def nvmlDeviceGetCount(self) -> int:
        return self._gpus

    def nvmlDeviceGetHandleByIndex(self, number: int) -> int:
        return number

    def nvmlDeviceGetPowerUsage(self, handle: int) -> Any:
        return self._told("power", 300_500 + handle)

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> Any:
        return self._told("energy", 9_000_500)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        return self._told("rates", SimpleNamespace(gpu=75, memory=10))

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return self._told("memory", SimpleNamespace(used=3 << 20, total=9 << 20))

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> Any:
        return self._told("temperature", 65 + sensor)

    def _told(self, name: str, value: Any) -> Any:
        if name in self._missing:
            raise self.NVMLError
        return value
