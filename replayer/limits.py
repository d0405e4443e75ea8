"""Service level objectives: the longest times that an answer may take and still be a good one."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf
from typing import Self

from rotoscope.traces.errors import UnusableInput


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one request, each in seconds; None does not limit."""

    ttft_s: float | None = None
    itl_s: float | None = None
    tpot_s: float | None = None
    latency_s: float | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `ttft:2,itl:0.05`, in seconds; raise UnusableInput for anything else."""
        names = [field.name.removesuffix("_s") for field in fields(cls)]
        limits: dict[str, float] = {}
        for part in text.split(","):
            name, _, value = part.strip().partition(":")
            if name not in names:
                raise UnusableInput(
                    f"no limit {name!r} in {text!r}: choose of {', '.join(names)}, as in ttft:2,itl:0.05"
                )
            if f"{name}_s" in limits:
                raise UnusableInput(f"two limits of {name} in {text!r}: give one")
            limits[f"{name}_s"] = _seconds(name, value)
        return cls(**limits)

    def __str__(self) -> str:
        given = {field.name.removesuffix("_s"): getattr(self, field.name) for field in fields(self)}
        return ",".join(f"{name}:{limit:g}" for name, limit in given.items() if limit is not None)


def _seconds(name: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < inf:
        raise UnusableInput(f"the limit of {name} must be more than 0 seconds, not {text!r}")
    return seconds
