from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from swept_runs import write_run

from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.sweep.folder import SweepFolder
from rotoscope.traces.errors import RunFailed, UnusableInput

PLAN = {"concurrency": (1, 2), "options": {"ramp_s": 0.0, "api": "auto"}, "corpus_sha256": "ab"}


def opened(path: Path, **changes: Any) -> SweepFolder:
    return SweepFolder.opened(path, file="sweep.json", format_name="f", version=1, plan=PLAN | changes)


def run_at(folder: SweepFolder, name: str, **how: Any) -> None:
    write_run(ReplayOptions(url="http://x", sessions=4, concurrency=2, folder=folder.place(name)), **how)


def test_the_plan_is_there_before_anything_runs(tmp_path: Path) -> None:
    opened(tmp_path / "new" / "sweep")

    written = json.loads((tmp_path / "new/sweep/sweep.json").read_text())
    assert written == {"format": {"name": "f", "version": 1}} | json.loads(json.dumps(PLAN))


def test_the_same_plan_goes_on_there(tmp_path: Path) -> None:
    run_at(opened(tmp_path), "point-1")

    summary = opened(tmp_path).ended("point-1")
    assert summary is not None
    assert summary.sessions.ok == 4


def test_another_plan_is_refused_and_what_differs_is_named(tmp_path: Path) -> None:
    opened(tmp_path)

    with pytest.raises(UnusableInput, match="differs in concurrency, corpus_sha256, ramp_s: call it as before"):
        opened(tmp_path, concurrency=(1,), corpus_sha256="cd", options={"ramp_s": 9.0, "api": "auto"})
    assert json.loads((tmp_path / "sweep.json").read_text())["corpus_sha256"] == "ab"


def test_a_plan_is_withdrawn_only_where_nothing_was_begun(tmp_path: Path) -> None:
    opened(tmp_path / "new").withdraw("sweep.json")
    begun = opened(tmp_path / "begun")
    run_at(begun, "point-1")
    begun.withdraw("sweep.json")

    assert [*(tmp_path / "new").iterdir()] == []
    assert opened(tmp_path / "begun").ended("point-1") is not None


def test_a_sweep_does_not_go_to_a_stream() -> None:
    with pytest.raises(UnusableInput, match="go to no stream: name a folder"):
        opened(Path("-"))


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")

    with pytest.raises(UnusableInput, match="holds something else"):
        opened(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_damaged_plan_is_told(tmp_path: Path) -> None:
    (tmp_path / "sweep.json").write_text('{"format"')

    with pytest.raises(UnusableInput, match="damaged"):
        opened(tmp_path)


def test_what_was_interrupted_or_never_ended_has_to_run_and_is_set_aside(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    run_at(folder, "cut", interrupted=True)
    folder.place("killed").mkdir()
    (folder.place("killed") / "results.jsonl").write_text("{}\n")

    assert folder.ended("cut") is folder.ended("killed") is folder.ended("never") is None
    assert folder.set_aside("cut") == tmp_path / "set-aside/cut.1"
    assert (tmp_path / "set-aside/cut.1/summary.json").exists()
    assert not folder.place("cut").exists()
    assert folder.set_aside("never") is None


def test_a_point_without_a_completed_session_and_one_with_a_damaged_summary_run_again(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    run_at(folder, "lost", failed=4)
    run_at(folder, "some", failed=3)
    run_at(folder, "damaged")
    (folder.place("damaged") / "summary.json").write_text('{"format"')

    assert folder.ended("lost") is folder.ended("damaged") is None
    assert folder.ended("some") is not None


def test_nothing_that_was_set_aside_is_written_over(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    for text in ("first", "second"):
        folder.place("p").mkdir()
        (folder.place("p") / "results.jsonl").write_text(text)
        folder.set_aside("p")

    assert (tmp_path / "set-aside/p.1/results.jsonl").read_text() == "first"
    assert (tmp_path / "set-aside/p.2/results.jsonl").read_text() == "second"


def test_an_empty_folder_of_a_point_is_not_worth_keeping(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    folder.place("p").mkdir()

    assert folder.set_aside("p") is None
    assert not (tmp_path / "set-aside").exists()


def test_a_place_that_cannot_be_written_to_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(RunFailed, match="cannot write to"):
        opened(tmp_path / "file" / "sweep")


def test_two_processes_do_not_work_in_one_folder(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path)

    with one.owned(), pytest.raises(RunFailed, match="another process is at work"), other.owned():
        pass
    with one.owned(), pytest.raises(RunFailed, match="another process is at work"):
        opened(tmp_path)
    with other.owned():
        pass
