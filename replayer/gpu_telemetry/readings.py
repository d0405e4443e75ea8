"""What GPUs tell at one moment, whoever asks them, and the samples that are kept of it.

GPUs are numbered from 0. By what they are told apart, such as their UUIDs, stays in memory.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Teller: TypeAlias = Literal["dcgm", "nvml"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One GPU at one moment; None what it does not tell, which may change from one moment to the next."""

    power_w: float | None = None
    energy_j: float | None = None
    """Since its driver was loaded."""
    utilisation: float | None = None
    """Share of the time in which it computed anything, 0 to 1."""
    memory_mib: float | None = None
    """In use."""
    temperature_c: float | None = None
    xid: int | None = None
    """The last error that its driver reported, 0 for none."""


Readings: TypeAlias = Mapping[str, Reading]
"""By a key of each GPU, in whose order they are numbered."""


@dataclass(frozen=True, slots=True)
class GpuSource:
    """Where readings come from."""

    teller: Teller
    start: Readings
    """What the GPUs told before anything was sent to the server."""
    read: Callable[[], Awaitable[Readings | None]]
    """Tells what they are now; None where nothing came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """One GPU at one moment of the run; the fields are the keys of its line, None where it does not tell."""

    at_s: float
    """From the start of the run: the middle between asking and the answer."""
    gpu: int
    power_w: float | None = None
    energy_j: float | None = None
    """Since the start of the run, or since the GPU was first seen."""
    utilisation: float | None = None
    memory_mib: float | None = None
    temperature_c: float | None = None
    xid: int | None = None
