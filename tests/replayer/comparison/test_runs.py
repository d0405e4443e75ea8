from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from replay_doubles import make_request_result, make_session_result, make_setup
from sweep_folders import make_sweep

from rotoscope.replayer.comparison.runs import (
    LOAD,
    NEITHER,
    SYSTEM,
    Run,
    differences,
    label,
    left_out,
    points_of,
    runs_in,
)
from rotoscope.replayer.load.warm_up import WarmUp
from rotoscope.replayer.results import ResultsFolder
from rotoscope.replayer.setup import Setup
from rotoscope.replayer.summary import summarise
from rotoscope.traces import UnusableInput


def write_run(folder: Path, **setup: Any) -> Path:
    """Write the results of one session."""
    folder.mkdir(parents=True)
    summary = summarise(
        make_setup(**setup),
        requests=[make_request_result()],
        optimal_tokens=[50],
        sessions=[make_session_result()],
        planned_requests=1,
        without_ids=0,
        interrupted=False,
        duration_s=10.0,
    )
    with ResultsFolder.opened(folder) as results:
        results.write_request(make_request_result())
        results.write_session(make_session_result())
        results.write_summary(summary.as_dict())
    return folder


def run_of(folder: Path, **setup: Any) -> Run:
    (run,) = runs_in(write_run(folder, **setup))
    return run


def test_a_folder_of_results_is_one_run_and_a_folder_of_such_is_several(tmp_path: Path) -> None:
    for number in (2, 1):
        write_run(tmp_path / "runs" / f"replay-{number}")

    assert [run.folder.name for run in runs_in(tmp_path / "runs")] == ["replay-1", "replay-2"]
    (one,) = runs_in(tmp_path / "runs" / "replay-2")
    assert [session.session for session in one.read().sessions] == [0]


def test_what_was_preloaded_on_one_side_only_is_named(tmp_path: Path) -> None:
    a, b = run_of(tmp_path / "a"), run_of(tmp_path / "b")
    warm = replace(b.summary, warm_up=WarmUp(prefixes=1, tokens=1200, times=2, failed=0))

    assert [*differences(points_of([a], [replace(b, summary=warm)]))] == ["warm-up none in A, of 1,200 tokens in B"]


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="no results"):
        runs_in(tmp_path)


def test_of_each_field_of_a_setup_it_is_said_whether_it_may_differ() -> None:
    said = [*LOAD, *SYSTEM, *NEITHER]

    assert sorted(said) == sorted(field.name for field in fields(Setup))


def test_systems_may_differ_and_loads_must_not(tmp_path: Path) -> None:
    a = run_of(tmp_path / "a", engine="vllm", model="m", gpus=1, salt="one", timeout_s=60.0)
    b = run_of(tmp_path / "b", engine="sglang", model="m", gpus=2, salt="two", timeout_s=60.0)

    points = points_of([a], [b])

    assert [(point.a, point.b) for point in points] == [((a,), (b,))]
    assert [*differences(points)] == ["engine vllm in A, sglang in B", "gpus 1 in A, 2 in B"]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("concurrency", 2, "concurrency 1 in A, 2 in B"),
        ("sessions", 9, "sessions 4 in A, 9 in B"),
        ("traces", 3, "traces 1 in A, 3 in B"),
        ("gap_scale", 0.0, "gap_scale 1.0 in A, 0.0 in B"),
        ("duration_s", 60.0, "duration none in A, 60.0 in B"),
        ("mix", (3.0, 1.0), "mix"),
    ],
)
def test_another_load_is_refused_and_named(tmp_path: Path, field: str, value: Any, said: str) -> None:
    a, b = run_of(tmp_path / "a"), run_of(tmp_path / "b", **{field: value})

    with pytest.raises(UnusableInput, match=f"not the same load: {said}"):
        points_of([a], [b])


def test_the_seed_is_part_of_the_load_where_it_decides_when_sessions_start(tmp_path: Path) -> None:
    closed = [run_of(tmp_path / f"closed-{seed}", seed=seed) for seed in (1, 2)]
    opened = [run_of(tmp_path / f"open-{seed}", seed=seed, concurrency=None, arrivals="poisson") for seed in (1, 2)]

    assert closed[0].load == closed[1].load
    with pytest.raises(UnusableInput, match="seed 1 in A, 2 in B"):
        points_of(opened[:1], opened[1:])


def test_runs_are_matched_by_their_load_and_several_of_one_are_repeats(tmp_path: Path) -> None:
    a = [run_of(tmp_path / f"a{n}", concurrency=c) for n, c in enumerate((1, 1, 4))]
    b = [run_of(tmp_path / f"b{n}", concurrency=c) for n, c in enumerate((8, 1, 1, 1))]

    points = points_of(a, b)

    assert [(len(point.a), len(point.b)) for point in points] == [(2, 3)]
    assert left_out(points, a, b) == (1, 1)
    assert label(points[0], points) == ""


def test_loads_are_told_apart_by_what_differs_between_them(tmp_path: Path) -> None:
    a = [run_of(tmp_path / f"a{c}", concurrency=c) for c in (1, 4)]

    points = points_of(a, a)

    assert [label(point, points) for point in points] == ["concurrency 1", "concurrency 4"]


def test_one_run_against_several_is_refused(tmp_path: Path) -> None:
    a = [run_of(tmp_path / f"{number}") for number in range(3)]

    with pytest.raises(UnusableInput, match="1 run of A and 2 of B"):
        points_of(a[:1], a[1:])


def test_sweeps_without_a_load_in_common_are_refused(tmp_path: Path) -> None:
    a, b = ([run_of(tmp_path / f"{c}", concurrency=c) for c in some] for some in ((1, 2), (3, 4)))

    with pytest.raises(UnusableInput, match="sweep both with the same options"):
        points_of(a, b)


def test_points_of_sweeps_are_matched_by_their_settings_too(tmp_path: Path) -> None:
    for name, batches in (("a", ("4", "8")), ("b", ("8", "16"))):
        folder, plan = make_sweep(tmp_path / name, batch=batches)
        for point in plan.points():
            write_run(folder.place(point.name))
    a, b = (runs_in(tmp_path / name) for name in "ab")

    (shared,) = points_of(a, b)

    assert [run.settings for run in (*shared.a, *shared.b)] == [{"batch": "8"}, {"batch": "8"}]
    assert left_out([shared], a, b) == (1, 1)
