from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from swept_runs import Performer, write_run

from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.servers import Settings
from rotoscope.replayer.sweep.places import Perform, Simulated, Values
from rotoscope.replayer.sweep.plan import SweepPlan, plan_sweep
from rotoscope.replayer.sweep.run import MOST_FAILURES_IN_A_ROW, Swept, sweep
from rotoscope.testing import make_trace
from rotoscope.traces.errors import RunFailed, UnusableInput

OPTIONS = ReplayOptions(url="http://x", seed=1)
SETTINGS: Settings = {"max_batch": ("2", "8")}


def plan(**changes: Any) -> SweepPlan:
    given: dict[str, Any] = {
        "concurrency": (1, 2, 4),
        "settings": SETTINGS,
        "sessions": None,
        "sessions_per_user": 4,
        "place": Simulated(SETTINGS),
    } | changes
    return plan_sweep([make_trace(turns=1)], OPTIONS, **given)


def run(folder: Path, perform: Perform, wanted: SweepPlan | None = None) -> tuple[Swept, list[str]]:
    said: list[str] = []
    return sweep(wanted or plan(), OPTIONS, folder=folder, perform=perform, say=said.append), said


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "sweep.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_point_runs_once_with_its_settings_and_its_sessions(tmp_path: Path) -> None:
    perform = Performer()

    swept, _ = run(tmp_path, perform)

    assert swept.exit_code == 0
    assert sorted(perform.asked, key=str) == sorted(
        [(c, {"max_batch": b}) for c in (1, 2, 4) for b in ("2", "8")], key=str
    )
    assert [(row["point"], row["max_batch"], row["concurrency"], row["sessions.ok"]) for row in rows(tmp_path)] == [
        ("1", "2", "1", "15"),
        ("2", "2", "2", "18"),
        ("3", "2", "4", "24"),
        ("4", "8", "1", "15"),
        ("5", "8", "2", "18"),
        ("6", "8", "4", "24"),
    ]


def test_a_second_call_runs_nothing_and_says_the_same(tmp_path: Path) -> None:
    first, _ = run(tmp_path, Performer())
    before = (tmp_path / "sweep.csv").read_bytes()
    perform = Performer()

    second, said = run(tmp_path, perform)

    assert perform.asked == []
    assert "6 of 6 points have ended before" in said
    assert second == first
    assert (tmp_path / "sweep.csv").read_bytes() == before


def test_the_tables_are_there_after_each_point(tmp_path: Path) -> None:
    seen = []

    def perform(options: ReplayOptions, values: Values) -> Any:
        seen.append(len(rows(tmp_path)) if (tmp_path / "sweep.csv").exists() else 0)
        return write_run(options)

    run(tmp_path, perform)

    assert seen == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("within", [True, False])
def test_what_is_broken_off_goes_on_with_the_point_in_flight(tmp_path: Path, within: bool) -> None:
    """Broken off within a run, which sums itself up, or before it has begun."""
    calls = 0

    def breaking(options: ReplayOptions, values: Values) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3 and not within:
            raise KeyboardInterrupt
        return write_run(options, interrupted=calls == 3)

    broken, _ = run(tmp_path, breaking)
    assert (broken.exit_code, broken.interrupted, len(broken.measured), calls) == (130, True, 2, 3)
    assert len(rows(tmp_path)) == 2
    perform = Performer()

    swept, said = run(tmp_path, perform)

    assert len(perform.asked) == 4
    assert swept.exit_code == 0
    assert len(rows(tmp_path)) == 6
    assert len([*tmp_path.glob("set-aside/*")]) == within
    assert any("what was there of point" in one for one in said) == within


def test_points_that_are_not_valid_are_3_and_stay(tmp_path: Path) -> None:
    perform = Performer(lambda options, values: {"failed": int(options.concurrency == 4)})

    swept, _ = run(tmp_path, perform)

    assert swept.exit_code == 3
    assert [one.point.concurrency for one in swept.measured if one.valid == "no"] == [4, 4]
    assert run(tmp_path, Performer())[0].exit_code == 3


def test_a_point_that_leaves_no_result_is_told_and_the_others_run(tmp_path: Path) -> None:
    def failing(options: ReplayOptions, values: Values) -> Any:
        if options.concurrency == 2 and values["max_batch"] == "8":
            raise RunFailed("the server ended before it was ready")
        return write_run(options)

    swept, said = run(tmp_path, failing)

    assert (swept.exit_code, len(swept.measured)) == (1, 5)
    assert [str(point) for point in swept.failed] == ["max_batch 8, C 2"]
    assert "point 5 failed: the server ended before it was ready" in said
    assert run(tmp_path, Performer())[0].exit_code == 0


def test_after_some_failures_in_a_row_the_rest_is_not_tried(tmp_path: Path) -> None:
    asked = 0

    def failing(options: ReplayOptions, values: Values) -> Any:
        nonlocal asked
        asked += 1
        raise RunFailed("no server")

    swept, said = run(tmp_path, failing)

    assert asked == MOST_FAILURES_IN_A_ROW
    assert "the rest is not tried" in said[-1]
    assert swept.exit_code == 1


def test_wrong_usage_ends_it_at_once(tmp_path: Path) -> None:
    def refusing(options: ReplayOptions, values: Values) -> Any:
        raise UnusableInput("the server offers several models")

    with pytest.raises(UnusableInput, match="several models"):
        run(tmp_path, refusing)
    assert [*tmp_path.iterdir()] == []  # so that the right command may have the folder


def test_what_only_one_point_cannot_be_performed_with_is_told_and_the_others_run(tmp_path: Path) -> None:
    def refusing(options: ReplayOptions, values: Values) -> Any:
        if [*tmp_path.glob("points/*")]:
            raise UnusableInput("the server offers several models")
        return write_run(options)

    swept, said = run(tmp_path, refusing, plan(concurrency=(1,)))

    assert (swept.exit_code, len(swept.measured), len(swept.failed)) == (1, 1, 1)
    assert any(one.endswith("failed: the server offers several models") for one in said)
    assert len(rows(tmp_path)) == 1


def test_points_of_another_version_of_the_server_are_told(tmp_path: Path) -> None:
    _, before = run(tmp_path, Performer())
    summary = next(tmp_path.glob("points/*/summary.json"))
    told = json.loads(summary.read_text())
    told["setup"]["server_version"] = "9.9.1"
    summary.write_text(json.dumps(told))

    _, said = run(tmp_path, Performer())

    assert not any("not all points" in one for one in before)
    assert any(one.startswith("not all points have the same server version: ") and "9.9.1" in one for one in said)


def test_another_plan_is_refused(tmp_path: Path) -> None:
    run(tmp_path, Performer())

    with pytest.raises(UnusableInput, match="differs in concurrency"):
        run(tmp_path, Performer(), plan(concurrency=(1, 2)))
