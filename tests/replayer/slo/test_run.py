from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from swept_runs import Performer, write_run

from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.slo.objectives import Objective
from rotoscope.replayer.slo.run import Searched, SloPlan, plan_search, search
from rotoscope.replayer.slo.search import Border
from rotoscope.replayer.sweep.places import Perform, Simulated, Values
from rotoscope.testing import make_trace
from rotoscope.traces.errors import RunFailed, UnusableInput

PLAN = SloPlan(
    version="0.1.0",
    objectives=(Objective(95, "ttft", 2.0),),
    first=1,
    most=64,
    repeats=1,
    sessions_per_user=4,
    settings={"max_batch": "8"},
    seed=0,
    corpus_sha256="ab",
    server_check="cd34",
    options={"ramp_s": 0.0},
)


def growing(options: ReplayOptions, values: Values) -> dict[str, Any]:
    """A server whose time to first token is exactly 0.15 s for each that is in flight."""
    return {"ttft_s": 0.15 * (options.concurrency or 0)}


def run(folder: Path, perform: Perform, **changes: Any) -> Searched:
    return search(
        replace(PLAN, **changes), ReplayOptions(url="http://x"), folder=folder, perform=perform, say=lambda text: None
    )


def test_the_most_agents_of_a_server_that_slows_down_exactly(tmp_path: Path) -> None:
    perform = Performer(growing)

    found = run(tmp_path, perform)

    assert found.border == Border(13, 14)  # 13 x 0.15 s = 1.95 s
    assert found.exit_code == 0
    assert [concurrency for concurrency, _ in perform.asked] == [1, 2, 4, 8, 16, 12, 14, 13]
    assert all(values == {"max_batch": "8"} for _, values in perform.asked)
    assert json.loads((tmp_path / "answer.json").read_text()) == {
        "met": 13,
        "unmet": 14,
        "simulated": found.is_simulated,
    }
    assert all(one.is_sure for one in found.probes)


def test_each_probe_is_a_row_with_its_percentile_and_interval(tmp_path: Path) -> None:
    run(tmp_path, Performer(growing), most=2)

    with (tmp_path / "probes.csv").open() as file:
        rows = [*csv.DictReader(file)]
    assert [(row["concurrency"], row["repeat"], row["valid"], row["met"]) for row in rows] == [
        ("1", "1", "true", "true"),
        ("2", "1", "true", "true"),
    ]
    assert float(rows[1]["p95_ttft_s"]) == float(rows[1]["p95_ttft_s.low"]) == pytest.approx(0.3)
    assert float(rows[1]["p95_ttft_s.limit"]) == 2.0


def test_a_limit_that_all_or_none_meet(tmp_path: Path) -> None:
    all_meet = run(tmp_path / "all", Performer(growing), most=10)
    none_meets = run(tmp_path / "none", Performer(growing), objectives=(Objective(50, "ttft", 0.1),))

    assert (all_meet.border, all_meet.exit_code) == (Border(10, None), 0)
    assert (none_meets.border, none_meets.exit_code) == (Border(None, 1), 3)


def test_more_than_half_of_the_repeats_decide(tmp_path: Path) -> None:
    runs: dict[int | None, int] = {}

    def noisy(options: ReplayOptions, values: Values) -> dict[str, Any]:
        """Slow at every second run with three agents or more, and always from six on."""
        runs[options.concurrency] = number = runs.get(options.concurrency, 0) + 1
        agents = options.concurrency or 0
        return {"ttft_s": 9.0 if agents >= 6 or (agents >= 3 and number % 2 == 0) else 0.1}

    found = run(tmp_path, Performer(noisy), repeats=3)

    assert found.border == Border(5, 6)
    assert runs == {1: 2, 2: 2, 4: 3, 8: 2, 6: 2, 5: 3}
    assert found.outcome(4) == "2 of 3 runs"


def test_a_run_that_is_not_valid_has_met_nothing(tmp_path: Path) -> None:
    perform = Performer(lambda options, values: {"ttft_s": 0.1, "failed": int((options.concurrency or 0) >= 3)})

    found = run(tmp_path, perform)

    assert found.border == Border(2, 3)
    assert found.exit_code == 3
    assert [one.is_valid for one in found.probes] == [True, True, False, False]


def test_runs_that_are_not_valid_decide_nothing_for_sure(tmp_path: Path) -> None:
    """Of three runs with two agents the first is not valid; in one search the others meet the objective, in one they do not."""
    runs = 0

    def first_fails(options: ReplayOptions, values: Values) -> dict[str, Any]:
        nonlocal runs
        runs += options.concurrency == 2
        return {
            "failed": int(options.concurrency == 2 and runs == 1),
            "ttft_s": 9.0 if options.concurrency == 4 else 0.1,
        }

    met = run(tmp_path / "met", Performer(first_fails), repeats=3, most=2)
    runs = 0
    unmet = run(
        tmp_path / "unmet",
        Performer(first_fails),
        repeats=3,
        most=2,
        objectives=(Objective(50, "ttft", 0.01),),
        first=2,
    )

    assert (met.border, met.exit_code, met.is_known(2)) == (Border(2, None), 0, True)
    assert (unmet.border, unmet.exit_code, unmet.is_known(2)) == (Border(None, 2), 3, False)


def test_every_objective_has_to_be_met(tmp_path: Path) -> None:
    both = (Objective(95, "ttft", 2.0), Objective(50, "job_latency", 1.0))

    assert run(tmp_path, Performer(growing), objectives=both).border == Border(None, 1)


def test_what_was_broken_off_goes_on_without_running_anything_twice(tmp_path: Path) -> None:
    def breaking(options: ReplayOptions, values: Values) -> Any:
        return write_run(options, **growing(options, values), interrupted=options.concurrency == 8)

    broken = run(tmp_path, breaking)
    assert (broken.border, broken.exit_code) == (None, 130)
    assert not (tmp_path / "answer.json").exists()
    perform = Performer(growing)

    found = run(tmp_path, perform)

    assert [concurrency for concurrency, _ in perform.asked] == [8, 16, 12, 14, 13]
    assert found.border == Border(13, 14)
    assert [one.name for one in (tmp_path / "set-aside").iterdir()] == ["probe_c=8_1.1"]


def test_a_run_whose_results_are_damaged_runs_again(tmp_path: Path) -> None:
    run(tmp_path, Performer(growing), most=2)
    lines = tmp_path / "points/probe_c=2_1/results.jsonl"
    lines.write_bytes(lines.read_bytes()[:100])
    perform = Performer(growing)

    found = run(tmp_path, perform, most=2)

    assert (found.border, [concurrency for concurrency, _ in perform.asked]) == (Border(2, None), [2])
    assert [one.name for one in tmp_path.glob("set-aside/*")] == ["probe_c=2_1.1"]


def test_a_probe_that_leaves_no_result_ends_the_search(tmp_path: Path) -> None:
    def failing(options: ReplayOptions, values: Values) -> Any:
        raise RunFailed("no server")

    with pytest.raises(RunFailed):
        run(tmp_path, failing)


def test_the_folder_of_another_search_is_refused(tmp_path: Path) -> None:
    run(tmp_path, Performer(growing), most=2)

    with pytest.raises(UnusableInput, match="differs in objectives"):
        run(tmp_path, Performer(growing), most=2, objectives=(Objective(95, "ttft", 3.0),))


def test_a_search_of_too_many_sessions_is_refused_before_anything_runs() -> None:
    with pytest.raises(UnusableInput, match="at most 1,000,000, not 4000000"):
        plan_search(
            [make_trace(turns=1)],
            ReplayOptions(url="http://x"),
            objectives=PLAN.objectives,
            first=1,
            most=1_000_000,
            repeats=1,
            sessions_per_user=4,
            settings={},
            place=Simulated({}),
        )


def test_a_search_that_cannot_begin_leaves_its_folder_to_another(tmp_path: Path) -> None:
    def refusing(options: ReplayOptions, values: Values) -> Any:
        raise UnusableInput("the server offers several models")

    with pytest.raises(UnusableInput, match="several models"):
        run(tmp_path, refusing)
    assert [*tmp_path.iterdir()] == []
