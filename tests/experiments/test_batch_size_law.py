"""Which batch size is right depends on what is looked at, and on whether a session has several requests at once.

A grid of batch sizes B and concurrencies C, each five; the cache holds all that runs. Larger batches than there are
requests change nothing, so the batch size of a concurrency is the smallest that gives its best rate to 1 %.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from experiments.sweeps import FAN_OUT, REACT, Point, swept

CONCURRENCY = (4, 8, 12, 16, 24)
MAX_BATCH = (4, 8, 16, 32, 64)
NEARLY = 0.99

Grid = Mapping[tuple[int, int], Point]


def grid_of(folder: Path, traces: Path) -> Grid:
    """Return the points by batch size and concurrency."""
    settings = {"blocks": [1 << 17], "max_batch": MAX_BATCH}
    return {
        (int(point.row["max_batch"]), point.concurrency): point
        for point in swept(folder, traces, concurrency=CONCURRENCY, settings=settings)
    }


@pytest.fixture(scope="module")
def react(tmp_path_factory: pytest.TempPathFactory) -> Grid:
    return grid_of(tmp_path_factory.mktemp("react") / "sweep", REACT)


@pytest.fixture(scope="module")
def fan_out(tmp_path_factory: pytest.TempPathFactory) -> Grid:
    return grid_of(tmp_path_factory.mktemp("fan_out") / "sweep", FAN_OUT)


def on_frontier(grid: Grid) -> dict[int, int]:
    """Return the batch size of each concurrency at which the frontier has a point."""
    best = {concurrency: max(grid[batch, concurrency].jobs_per_h for batch in MAX_BATCH) for concurrency in CONCURRENCY}
    return {
        concurrency: min(
            batch for batch in MAX_BATCH if grid[batch, concurrency].jobs_per_h >= NEARLY * best[concurrency]
        )
        for concurrency in CONCURRENCY
        if any(grid[batch, concurrency].is_on_frontier for batch in MAX_BATCH)
    }


def test_agents_of_one_branch_have_their_frontier_at_a_batch_size_near_the_concurrency(react: Grid) -> None:
    frontier = on_frontier(react)

    assert len(frontier) >= 4
    for concurrency, batch in frontier.items():
        assert batch == min(size for size in MAX_BATCH if size >= concurrency)


def test_agents_that_fan_out_have_it_at_twice_the_concurrency_or_more(fan_out: Grid) -> None:
    frontier = on_frontier(fan_out)

    assert len(frontier) >= 4
    for concurrency, batch in frontier.items():
        assert batch >= 2 * concurrency


@pytest.mark.parametrize("workload", ["react", "fan_out"])
def test_a_token_level_view_prefers_small_batches_and_a_job_level_view_large_ones(
    workload: str, request: pytest.FixtureRequest
) -> None:
    grid: Grid = request.getfixturevalue(workload)
    concurrency = max(CONCURRENCY)
    points = [grid[batch, concurrency] for batch in MAX_BATCH]

    tokens = [point["window.tokens.tokens_per_s_per_user"] for point in points]
    jobs = [point["window.jobs_per_h_per_user"] for point in points]

    assert tokens == sorted(tokens, reverse=True)
    assert tokens[0] > 1.3 * tokens[-1]
    assert jobs[-1] > 1.3 * jobs[0]
    assert jobs[-1] >= NEARLY * max(jobs)
