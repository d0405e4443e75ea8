"""What a process takes while a soak runs, from /proc and from what it tells itself. Linux only."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

INTERVAL_S = 0.5
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Sample:
    """A process at a moment."""

    calls: int
    """How many calls had ended."""
    rss_mib: float
    pss_mib: float
    descriptors: int
    threads: int
    cpu_s: float
    in_flight: int
    """Requests of clients that are open."""


@dataclass(frozen=True)
class Rest:
    """A process while nothing is asked of it."""

    rss_mib: float
    pss_mib: float
    descriptors: int
    threads: int
    tasks: int
    blocks: int
    """Blocks of memory that Python has allocated."""


@dataclass
class Watch:
    """Samples of one process."""

    pid: int
    calls: Callable[[], int]
    in_flight: Callable[[], int]
    samples: list[Sample] = field(default_factory=list)

    async def run(self) -> None:
        """Take samples until cancelled or until the process is gone."""
        with contextlib.suppress(OSError):
            while True:
                self.samples.append(self.sample())
                await asyncio.sleep(INTERVAL_S)

    def sample(self) -> Sample:
        """Take one. Raises OSError when the process is gone."""
        rss, pss = memory_mib(self.pid)
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS
        descriptors = len(os.listdir(f"/proc/{self.pid}/fd"))
        return Sample(self.calls(), rss, pss, descriptors, int(fields[17]), cpu_s, self.in_flight())

    def windows(self, count: int) -> list[Sequence[Sample]]:
        """Return the samples in so many windows of as many calls each."""
        last = max(1, self.samples[-1].calls)
        windows: list[list[Sample]] = [[] for _ in range(count)]
        for sample in self.samples:
            windows[min(count - 1, sample.calls * count // last)].append(sample)
        return [window for window in windows if window]


def memory_mib(pid: int) -> tuple[float, float]:
    """Return the resident and the proportional size of a process. Raises OSError."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    sizes = {line.split()[0]: int(line.split()[1]) for line in lines[1:]}
    return sizes["Rss:"] / 1024, sizes["Pss:"] / 1024


def peak_mib(pid: int) -> float:
    """Return the highest resident size that a process has had. Raises OSError."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(peak) / 1024


async def at_rest(watch: Watch, probe: Path) -> Rest:
    """Return what a process takes that has nothing to do."""
    before = len(_told(probe))
    os.kill(watch.pid, signal.SIGUSR1)
    async with asyncio.timeout(60):
        while len(_told(probe)) == before:  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.05)
    tasks, blocks = json.loads(_told(probe)[-1])
    sample = watch.sample()
    return Rest(sample.rss_mib, sample.pss_mib, sample.descriptors, sample.threads, tasks, blocks)


def _told(probe: Path) -> list[str]:
    return probe.read_text().splitlines() if probe.exists() else []


def table_of(windows: Iterable[Sequence[Sample]]) -> str:
    """Return a line for each window: calls, memory, descriptors, threads, CPU a call."""
    lines = [
        "calls up to | RSS MiB, median | most | PSS MiB | descriptors, most | threads | in flight, most | CPU ms a call"
    ]
    before = 0.0, 0
    for window in windows:
        last = window[-1]
        cpu_s, calls = last.cpu_s - before[0], last.calls - before[1]
        before = last.cpu_s, last.calls
        cells = (
            f"{last.calls:,}",
            f"{statistics.median(x.rss_mib for x in window):.1f}",
            f"{max(x.rss_mib for x in window):.1f}",
            f"{statistics.median(x.pss_mib for x in window):.1f}",
            str(max(x.descriptors for x in window)),
            str(max(x.threads for x in window)),
            str(max(x.in_flight for x in window)),
            f"{cpu_s / calls * 1000:.2f}" if calls else "",
        )
        lines.append(" | ".join(cells))
    return "\n".join(lines)
