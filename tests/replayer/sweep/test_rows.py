from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from swept_runs import JOB_S, measured

from rotoscope.replayer.gates.gate import Gate, Validity
from rotoscope.replayer.sweep.rows import rows_of


def test_a_row_is_the_point_and_the_numbers_of_its_summary_by_their_paths(tmp_path: Path) -> None:
    (row,) = rows_of([measured(tmp_path, 3, job_s=JOB_S)])

    assert list(row)[:5] == ["point", "batch", "concurrency", "valid", "failed_gates"]
    assert list(row)[5:7] == ["on_frontier", "setup.version"]
    assert (row["point"], row["batch"], row["concurrency"], row["valid"]) == (3, "8", 2, "yes")
    assert row["window.jobs_per_h_per_user"] == pytest.approx(360.0)
    assert row["window.jobs_per_h_per_gpu"] == pytest.approx(360.0)
    assert row["window.jobs_per_h_per_gpu_interval.low"] == pytest.approx(360.0)
    assert (row["cache.hit_rate"], row["cache.optimal_hit_rate"]) == (0.4, 0.5)
    assert row["sessions.ok"] == 16
    assert row["setup.corpus_name"] == "coding-agents"
    assert all(isinstance(value, str | int | float | bool) for value in row.values())


def test_lists_of_numbers_and_of_names_are_told_whole(tmp_path: Path) -> None:
    one = measured(tmp_path, 1)
    setup = replace(one.summary.setup, mix=(1234567.0, 1.5), skipped_gates=("jobs", "lag"))

    (row,) = rows_of([replace(one, summary=replace(one.summary, setup=setup))])

    assert (row["setup.mix"], row["setup.skipped_gates"]) == ("1234567:1.5", "jobs lag")


def test_notes_and_what_is_not_there_have_no_column(tmp_path: Path) -> None:
    (row,) = rows_of([measured(tmp_path, 1)])

    assert not any(name.startswith(("notes", "format", "goodput")) for name in row)


def test_only_valid_points_are_on_the_frontier(tmp_path: Path) -> None:
    fast = measured(tmp_path, 1, concurrency=4, job_s=1.0, failed=1)
    slow = measured(tmp_path, 2, concurrency=4, job_s=9.0)
    none = measured(tmp_path, 3, concurrency=1, job_s=1.0, failed=8)

    assert [(row["valid"], row["on_frontier"]) for row in rows_of([fast, slow, none])] == [
        ("no", False),
        ("yes", True),
        ("failed", False),
    ]


def test_the_gates_that_failed_are_named(tmp_path: Path) -> None:
    one = measured(tmp_path, 1)
    late = Gate(name="lag", passed=False, measured=0.5, limit=0.02, says="late")
    few = Gate(name="jobs", passed=False, measured=2.0, limit=10.0, says="few")
    fine = Gate(name="errors", passed=True)
    judged = replace(one, summary=replace(one.summary, validity=Validity.of((fine, late, few))))

    (row,) = rows_of([judged])

    assert (row["valid"], row["failed_gates"], row["on_frontier"]) == ("no", "lag jobs", False)
