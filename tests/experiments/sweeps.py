"""Sweeps on the simulator, in modelled time, as a user would run them; what stands in their tables."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from rotoscope.cli import app

TRACES = Path(__file__).parents[2] / "examples" / "traces"
REACT, FAN_OUT = TRACES / "react", TRACES / "deep_research"
TIMING = "qwen3-235b-gb200"
GPUS = 4
"""That its times are of."""


@dataclass(frozen=True)
class Point:
    """A row of the table, by its columns."""

    row: Mapping[str, str]

    def __getitem__(self, column: str) -> float:
        return float(self.row[column])

    @property
    def concurrency(self) -> int:
        return int(self.row["concurrency"])

    @property
    def is_on_frontier(self) -> bool:
        return self.row["on_frontier"] == "true"

    @property
    def jobs_per_h(self) -> float:
        """Of all GPUs."""
        return self["window.jobs_per_h_per_gpu"] * self["setup.gpus"]

    @property
    def hit_rate(self) -> float:
        return self["cache.hit_rate"]


def swept(
    folder: Path,
    traces: Path | str,
    *options: str,
    concurrency: Sequence[int],
    settings: Mapping[str, Sequence[object]],
    sessions_per_user: int = 4,
    gpus: int = GPUS,
) -> list[Point]:
    """Run a sweep and return its points, in the order of the grid."""
    what = [str(traces)] if isinstance(traces, Path) else ["--fixed", traces]
    arguments = ["sweep", *what, "--simulate", "-o", str(folder), "--gpus", str(gpus), "--ramp", "20", *options]
    arguments += ["--concurrency", ",".join(map(str, concurrency)), "--sessions-per-user", str(sessions_per_user)]
    for name, values in {"timing": [TIMING], **settings}.items():
        arguments += ["--set", f"{name}={','.join(map(str, values))}"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    with (folder / "sweep.csv").open() as table:
        return [Point(row) for row in csv.DictReader(table)]
