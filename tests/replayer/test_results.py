from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from replay_doubles import make_request_result, make_session_result

from rotoscope.replayer.failures import FailureKind
from rotoscope.replayer.results import RequestResult, ResultsFolder, make_folder
from rotoscope.traces import RunFailed, UnusableInput


def test_a_request_is_one_line_with_the_names_of_the_fields(tmp_path: Path) -> None:
    with ResultsFolder.opened(tmp_path) as results:
        results.write_request(make_request_result(branch=(0, 1), status="failed", failure=FailureKind.CUT_STREAM))
        written = (tmp_path / "results.jsonl").read_bytes()

    assert written.endswith(b"}\n")
    line = json.loads(written)
    assert list(line) == list(RequestResult.__slots__)
    assert (line["branch"], line["failure"]) == ([0, 1], "cut_stream")


def test_a_session_is_one_line(tmp_path: Path) -> None:
    with ResultsFolder.opened(tmp_path) as results:
        results.write_session(make_session_result())
        written = (tmp_path / "sessions.jsonl").read_text()

    assert json.loads(written)["latency_s"] == 10.0


def test_the_summary_is_whole_or_not_there(tmp_path: Path) -> None:
    with ResultsFolder.opened(tmp_path) as results:
        results.write_summary({"a": 1})

    assert json.loads((tmp_path / "summary.json").read_text()) == {"a": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.jsonl", "sessions.jsonl", "summary.json"]


def test_a_full_disk_fails_the_run() -> None:
    with open("/dev/full", "wb", buffering=0) as full:
        results = ResultsFolder(Path("there"), full, full)

        with pytest.raises(RunFailed, match="cannot write results to 'there': No space left"):
            results.write_request(make_request_result())


def test_results_are_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").touch()

    with pytest.raises(UnusableInput, match="holds results already"):
        make_folder(tmp_path)


def test_results_that_another_run_has_begun_meanwhile_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "results.jsonl").write_text("theirs")

    with pytest.raises(RunFailed, match="cannot write results"), ResultsFolder.opened(tmp_path):
        pass

    assert (tmp_path / "results.jsonl").read_text() == "theirs"


def test_a_folder_that_is_there_and_holds_none_is_taken(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()

    assert make_folder(tmp_path) == tmp_path


def test_without_a_name_the_next_free_number_is_taken(tmp_path: Path) -> None:
    (tmp_path / "replay-2").mkdir()
    (tmp_path / "replay-x").mkdir()

    assert make_folder(None, parent=tmp_path) == tmp_path / "replay-3"
    assert make_folder(None, parent=tmp_path) == tmp_path / "replay-4"


def test_results_do_not_go_to_a_stream() -> None:
    with pytest.raises(UnusableInput, match="go to no stream: name a folder"):
        make_folder(Path("-"))


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(UnusableInput, match="cannot make the folder"):
        make_folder(tmp_path / "file" / "below")


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_folder_that_cannot_be_written_to_fails_before_the_run(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)

    with pytest.raises(RunFailed, match="cannot write results"), ResultsFolder.opened(tmp_path):
        pass
