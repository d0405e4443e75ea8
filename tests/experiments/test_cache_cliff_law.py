"""Hits fall off a cliff as more agents run at once than the cache can hold, and a host tier pushes the cliff back."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiments.sweeps import REACT, Point, swept

CONCURRENCY = (4, 8, 16, 32)
BLOCKS = 12_500
"""Of 16 tokens: 14 sessions at their longest."""
HOST_BLOCKS = 25_000


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[Point]]:
    """The points by blocks in the host tier, with rising concurrency."""
    folder: Path = tmp_path_factory.mktemp("cliff") / "sweep"
    settings = {"blocks": [BLOCKS], "max_batch": [64], "host_blocks": [0, HOST_BLOCKS]}
    found = swept(folder, REACT, concurrency=CONCURRENCY, settings=settings)
    return {host: [one for one in found if int(one.row["host_blocks"]) == host] for host in (0, HOST_BLOCKS)}


def test_what_fits_is_found_as_the_optimum_says(points: dict[int, list[Point]]) -> None:
    for point in points[0][:2]:
        assert point.hit_rate == pytest.approx(point["cache.optimal_hit_rate"], abs=0.005)


def test_hits_fall_off_a_cliff_where_the_cache_is_full(points: dict[int, list[Point]]) -> None:
    four, eight, sixteen, thirty_two = points[0]

    assert thirty_two.hit_rate < 0.5 * eight.hit_rate
    assert thirty_two.jobs_per_h < 1.6 * sixteen.jobs_per_h
    assert eight.jobs_per_h > 1.6 * four.jobs_per_h


def test_a_host_tier_pushes_the_cliff_back(points: dict[int, list[Point]]) -> None:
    alone, tiered = points[0][-1], points[HOST_BLOCKS][-1]

    assert tiered.hit_rate == pytest.approx(tiered["cache.optimal_hit_rate"], abs=0.005)
    assert tiered.jobs_per_h > 1.5 * alone.jobs_per_h
