"""Samples of GPUs over a run, beside it and out of its way.

GPUs and what they tell may appear and vanish from one look to the next: what is not there leaves a gap, and what comes
back goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict

from rotoscope.replayer.clock import LoopClock
from rotoscope.replayer.gpu_telemetry.readings import GpuSample, GpuSource, Reading, Readings
from rotoscope.replayer.polling import looking
from rotoscope.replayer.results import GPUS_FILE, ResultsFolder


class Energy:
    """What GPUs have used since they were first seen; of one whose counter began anew it is not known any more."""

    def __init__(self) -> None:
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._lost: set[int] = set()

    def used_j(self, gpu: int, counter_j: float | None) -> float | None:
        """Take the counter of a GPU and return what was used."""
        if counter_j is None:
            return None
        if counter_j < self._last.get(gpu, counter_j):
            self._lost.add(gpu)
        self._last[gpu] = counter_j
        return None if gpu in self._lost else round(counter_j - self._first.setdefault(gpu, counter_j), 6)


class GpuSeries:
    """The samples of a run."""

    def __init__(
        self, source: GpuSource, *, elapsed_s: Callable[[], float], write: Callable[[GpuSample], None]
    ) -> None:
        """Write each sample where it belongs as soon as it is there."""
        self.source = source
        self._elapsed_s = elapsed_s
        self._write = write
        self._numbers: dict[str, int] = {}
        self._energy = Energy()
        self.samples: list[list[GpuSample]] = []
        """Of each GPU, by its number."""
        self.missed = 0
        """Looks that gave no reading of any GPU."""

    def looking(self) -> AbstractAsyncContextManager[None]:
        """Take samples beside what is done in this context."""
        return looking(self.look, elapsed_s=self._elapsed_s, clock=LoopClock())

    async def begin(self) -> None:
        """Take what the GPUs tell as the run begins; energy is counted from there."""
        self._keep(0.0, await self.source.read() or self.source.start)

    async def look(self) -> None:
        """Take a sample of each GPU that tells something."""
        asked_s = self._elapsed_s()
        readings = await self.source.read()
        if not readings:
            self.missed += 1
        else:
            self._keep((asked_s + self._elapsed_s()) / 2, readings)

    async def look_at_end(self) -> None:
        """Take what was used once the run has ended; what GPUs do then says nothing about it any more."""
        readings = await self.source.read() or {}
        self._keep(
            self._elapsed_s(), {key: Reading(energy_j=one.energy_j, xid=one.xid) for key, one in readings.items()}
        )

    def _keep(self, at_s: float, readings: Readings) -> None:
        for key in sorted(readings):
            gpu = self._number_of(key)
            told = asdict(readings[key])
            told["energy_j"] = self._energy.used_j(gpu, told["energy_j"])
            sample = GpuSample(at_s=round(at_s, 6), gpu=gpu, **told)
            self.samples[gpu].append(sample)
            self._write(sample)

    def _number_of(self, key: str) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self._numbers)
            self.samples.append([])
        return self._numbers[key]


def gpu_series_of(
    source: GpuSource | None, *, elapsed_s: Callable[[], float], results: ResultsFolder
) -> GpuSeries | None:
    """Return the samples of a run, which are written to the folder of its results; None without a source."""
    if source is None:
        return None
    return GpuSeries(source, elapsed_s=elapsed_s, write=lambda sample: results.write_line(GPUS_FILE, sample))
