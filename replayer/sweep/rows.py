"""One row for each point of a sweep: what it is, whether it is valid, and every number of its summary by its path there.

`window.jobs_per_h_per_gpu` of a row is `jobs_per_h_per_gpu` in `window` of summary.json; its interval goes from
`window.jobs_per_h_per_gpu_interval.low` to `.high`. So docs/metrics.md tells what each is and in which unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rotoscope.replayer.pareto import Place, on_frontier
from rotoscope.replayer.summary import Summary
from rotoscope.replayer.sweep.plan import Point

Value: TypeAlias = str | int | float | bool
Row: TypeAlias = dict[str, Value]

_NOT_IN_ROWS = ("format", "notes")
"""Of a summary: the former is the file's, the latter are sentences."""
_VALID = {0: "yes", 3: "no", 1: "failed"}


@dataclass(frozen=True, slots=True)
class Measured:
    """A point that has ended."""

    point: Point
    summary: Summary

    @property
    def valid(self) -> str:
        """`yes`, `no`, or `failed` where no session was completed."""
        return _VALID.get(self.summary.exit_code, "no")

    @property
    def failed_gates(self) -> tuple[str, ...]:
        """Names of the gates for which it is not valid."""
        return tuple(gate.name for gate in self.summary.validity.failed) if self.summary.validity else ()

    @property
    def place(self) -> Place | None:
        """jobs/h/user and jobs/h/GPU; None where it is not valid or has no rates."""
        window = self.summary.window
        if window is None or self.valid != "yes":
            return None
        return window.jobs_per_h_per_user, window.jobs_per_h_per_gpu


def rows_of(measured: Sequence[Measured]) -> list[Row]:
    """Return a row for each point, in the order given."""
    frontier = on_frontier([one.place for one in measured])
    return [_row(one, is_on=is_on) for one, is_on in zip(measured, frontier, strict=True)]


def _row(one: Measured, *, is_on: bool) -> Row:
    own: Row = {"point": one.point.number, **one.point.settings, "concurrency": one.point.concurrency}
    told = {name: value for name, value in one.summary.as_dict().items() if name not in _NOT_IN_ROWS}
    own |= {"valid": one.valid, "failed_gates": " ".join(one.failed_gates), "on_frontier": is_on}
    return own | dict(_leaves(told, ""))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Value]]:
    """Yield every number, name and switch with its path; what is not there has no column."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list | tuple):
        if value and all(isinstance(one, int | float) for one in value):
            yield path, ":".join(str(one).removesuffix(".0") for one in value)
        elif value and all(isinstance(one, str) for one in value):
            yield path, " ".join(value)
    elif value is not None:
        yield path, value
