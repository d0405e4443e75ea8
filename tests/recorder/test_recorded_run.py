"""From a run to its trace, whatever happens to its folder."""

from __future__ import annotations

import os
import platform
import resource
import tempfile
from pathlib import Path

import orjson
import pytest

from rotoscope.recorder.building import build_trace
from rotoscope.recorder.campaigns import Campaign
from rotoscope.recorder.numbered_files import claim, is_being_written
from rotoscope.recorder.recorded_run import RecordedRun, Run, begin, begin_in, give_back_memory
from rotoscope.recorder.recorder import Recorder
from rotoscope.traces import Trace, load
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.journal_files import JournalWriter, read_journal

REQUEST = orjson.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]})
ANSWER = b'{"choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "yes"}}]}'


class BrokenRecorder(Recorder):
    """Fails at its end."""

    def close(self) -> Trace | None:
        raise ZeroDivisionError


def call(run: Run) -> None:
    """Let one call pass."""
    exchange = run.recorder.request("/v1/chat/completions", REQUEST, at_s=1.0)
    exchange.response(200, at_s=2.0, content_type="application/json")
    exchange.chunk(ANSWER, at_s=2.0)
    exchange.end(at_s=2.0)
    run.answered += 1


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that temporary files go to."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_trace_takes_the_place_of_the_journal(tmp_path: Path) -> None:
    run = begin(claim(tmp_path), None)
    call(run)
    assert run.place is not None
    assert is_being_written(run.place.journal)

    finished = run.finish()

    assert [path.name for path in tmp_path.iterdir()] == ["run-0001.trace.json"]
    assert finished.path == tmp_path / "run-0001.trace.json"
    assert finished.trouble == ""
    assert finished.trace == load(finished.path)


def test_run_without_calls_leaves_nothing(tmp_path: Path) -> None:
    finished = begin_in(tmp_path, None).finish()

    assert (finished.trace, finished.path, finished.trouble) == (None, None, "")
    assert list(tmp_path.iterdir()) == []


def test_runs_of_a_campaign_have_its_id(tmp_path: Path) -> None:
    campaign = Campaign()
    runs = [begin_in(tmp_path, campaign) for _ in range(2)]
    for run in runs:
        call(run)

    traces = [run.finish().trace for run in runs]

    assert [trace and trace.campaign for trace in traces] == [campaign.id] * 2


def test_journal_that_was_removed_costs_the_number_but_not_the_trace(tmp_path: Path) -> None:
    first = begin_in(tmp_path, None)
    call(first)
    (tmp_path / "run-0001.journal.jsonl").unlink()
    second = begin_in(tmp_path, None)
    call(second)

    paths = [first.finish().path, second.finish().path]

    assert paths == [tmp_path / "run-0002.trace.json", tmp_path / "run-0001.trace.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run-0001.trace.json", "run-0002.trace.json"]


def test_folder_that_was_removed_is_made_again(tmp_path: Path) -> None:
    run = begin_in(tmp_path / "folder", None)
    call(run)
    (tmp_path / "folder" / "run-0001.journal.jsonl").unlink()
    (tmp_path / "folder").rmdir()

    assert run.finish().path == tmp_path / "folder" / "run-0001.trace.json"


def test_trace_goes_elsewhere_when_its_folder_became_a_file(tmp_path: Path, elsewhere: Path) -> None:
    run = begin_in(tmp_path / "folder", None)
    call(run)
    (tmp_path / "folder" / "run-0001.journal.jsonl").unlink()
    (tmp_path / "folder").rmdir()
    (tmp_path / "folder").touch()

    finished = run.finish()

    assert "the trace is not in its folder" in finished.trouble
    assert finished.path is not None
    assert finished.path.parent.parent == elsewhere
    assert finished.path.parent.stat().st_mode & 0o077 == 0
    assert load(finished.path) == finished.trace


def test_run_that_gets_no_place_is_recorded_in_memory(
    tmp_path: Path, elsewhere: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    run = begin_in(tmp_path / "file", None)
    call(run)
    assert run.name == ""

    finished = run.finish()

    assert caplog.messages == [
        f"{tmp_path / 'file'}: traces cannot be written here: File exists: the recording goes on in memory"
    ]
    assert finished.path is not None
    assert finished.path.parent.parent == elsewhere


def test_run_that_got_no_place_takes_one_when_the_folder_can_be_written_again(tmp_path: Path) -> None:
    (tmp_path / "folder").touch()
    run = begin_in(tmp_path / "folder", None)
    call(run)
    (tmp_path / "folder").unlink()

    assert run.finish().path == tmp_path / "folder" / "run-0001.trace.json"


def test_trace_that_can_be_written_nowhere_leaves_the_journal_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin_in(tmp_path / "folder", None)
    call(run)
    (tmp_path / "folder" / "run-0001.trace.json").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))

    finished = run.finish()

    journal = tmp_path / "folder" / "run-0001.journal.jsonl"
    assert finished.path is None
    assert finished.trouble == (
        f"RECORDING FAILED: there is no trace: Is a directory; 'rotoscope recover {journal}' tries again"
    )
    recovered = build_trace(read_journal(journal)).trace
    assert recovered is not None
    assert finished.trace is None
    assert len(list(recovered.calls())) == 1


def test_full_disk_is_told_once_and_the_trace_is_written_where_there_is_room(
    tmp_path: Path, elsewhere: Path, caplog: pytest.LogCaptureFixture
) -> None:
    full = open("/dev/full", "wb", buffering=0)  # noqa: SIM115 - the run closes it
    run = RecordedRun(Recorder(JournalWriter(full)), folder=Path("/dev/full"), place=None, journal=full)
    for _ in range(3):
        call(run)

    finished = run.finish()

    assert caplog.messages == [
        "the journal cannot be written (No space left on device): the recording goes on in memory"
    ]
    assert finished.path is not None
    assert finished.path.parent.parent == elsewhere
    assert len(list(load(finished.path).calls())) == 3


def test_place_that_cannot_be_written_is_told_before_a_run_begins(tmp_path: Path) -> None:
    place = claim(tmp_path)
    place.journal.unlink()
    place.journal.mkdir()

    with pytest.raises(UnusableInput, match="cannot be written: Is a directory"):
        begin(place, None)


def test_whatever_fails_at_the_end_is_told_and_not_raised(tmp_path: Path) -> None:
    place = claim(tmp_path)
    journal = place.open_journal()
    run = RecordedRun(BrokenRecorder(JournalWriter(journal)), folder=tmp_path, place=place, journal=journal)
    call(run)

    assert run.finish().trouble == (
        f"RECORDING FAILED: there is no trace: ZeroDivisionError; 'rotoscope recover {place.journal}' tries again"
    )


def test_quiet_is_told_once_no_request_is_open(tmp_path: Path) -> None:
    run, told = begin_in(tmp_path, None), []
    run.began(1.0)
    run.began(2.0)
    run.when_quiet = lambda: told.append(run.last_s)

    run.ended(3.0)
    run.ended(4.0)
    run.began(5.0)
    run.ended(6.0)

    assert told == [4.0]
    run.finish()


def test_descriptors_are_given_back(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        run = begin_in(tmp_path, None)
        call(run)
        run.finish()

    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries cannot be asked to")
def test_memory_that_is_free_goes_back_to_the_system() -> None:
    pieces = [bytes([number % 256]) * 50_000 for number in range(2000)]
    kept = pieces[::100]
    pieces.clear()
    before = resident_bytes()
    give_back_memory()

    assert len(kept) == 20
    assert before - resident_bytes() > 50_000_000


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
