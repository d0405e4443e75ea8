from __future__ import annotations

from pathlib import Path

from swept_runs import measured

from rotoscope.replayer.sweep.table import headings, sweep_rows


def test_a_row_has_rates_with_their_intervals_and_the_hit_rate_beside_its_optimum(tmp_path: Path) -> None:
    points = [measured(tmp_path, 1, concurrency=2), measured(tmp_path, 2, concurrency=4, failed=1)]

    table = [dict(zip(headings(["batch"]), row, strict=True)) for row in sweep_rows(points, ["batch"])]

    assert table[0] == {
        "batch": "8",
        "C": "2",
        "jobs/h/user": "360.0 (360.0 to 360.0)",
        "jobs/h/GPU": "360.0 (360.0 to 360.0)",
        "hit rate": "0.4000",
        "optimum": "0.5000",
        "TTFT p90, ms": "100.0",
        "frontier": "yes",
        "valid": "yes",
    }
    assert (table[1]["C"], table[1]["frontier"], table[1]["valid"]) == ("4", "", "no")


def test_settings_that_are_the_same_everywhere_are_left_out(tmp_path: Path) -> None:
    (row,) = sweep_rows([measured(tmp_path, 1)], [])

    assert len(row) == len(headings([]))
