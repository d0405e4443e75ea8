"""A router that knows the caches lifts the frontier of agents that grow in one conversation, and hardly any other."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiments.sweeps import FAN_OUT, GPUS, REACT, swept

CONCURRENCY = (8, 16, 32)
REPLICAS = 2
BLOCKS = 12_500


def lift_of(folder: Path, traces: Path | str) -> float:
    """Return by how much the highest rate on the frontier is above that with round-robin."""
    settings: dict[str, list[object]] = {"replicas": [REPLICAS], "blocks": [BLOCKS], "max_batch": [64]}
    settings["router"] = ["round-robin", "kv"]
    points = swept(folder, traces, concurrency=CONCURRENCY, settings=settings, gpus=GPUS * REPLICAS)
    highest = {
        router: max(point.jobs_per_h for point in points if point.row["router"] == router)
        for router in ("round-robin", "kv")
    }
    return highest["kv"] / highest["round-robin"] - 1


def test_agents_of_one_branch_gain_a_tenth(tmp_path: Path) -> None:
    assert lift_of(tmp_path / "sweep", REACT) >= 0.10


@pytest.mark.parametrize("traces", [FAN_OUT, "8000:500"], ids=["fan-out", "fixed shapes"])
def test_what_shares_little_gains_less_than_a_fiftieth(tmp_path: Path, traces: Path | str) -> None:
    assert abs(lift_of(tmp_path / "sweep", traces)) < 0.02
