from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rotoscope.cli import app
from rotoscope.recorder import Recorder
from rotoscope.recorder.numbered_files import claim
from rotoscope.traces import Call, TraceError, UnusableInput, load
from rotoscope.traces.journal_files import JournalWriter

ANSWER = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 12, "completion_tokens": 3},
}


def ask(recorder: Recorder, text: str, *, at_s: float, ends: bool = True) -> None:
    """Record one call; one that does not end is lost."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    exchange = recorder.request("/v1/chat/completions", body, at_s=at_s)
    if ends:
        exchange.response(200, at_s=at_s + 1, content_type="application/json")
        exchange.chunk(json.dumps(ANSWER).encode(), at_s=at_s + 1)
        exchange.end(at_s=at_s + 1)


def put(folder: Path, journal: BytesIO) -> Path:
    path = folder / "run-0001.journal.jsonl"
    path.write_bytes(journal.getvalue())
    return path


def recover(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["recover", *map(str, arguments)])


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """What a recording leaves that is killed while its second call runs."""
    written = BytesIO()
    recorder = Recorder(JournalWriter(written))
    ask(recorder, "is it so?", at_s=0)
    ask(recorder, "is it really so?", at_s=5, ends=False)
    return put(tmp_path, written)


def test_the_trace_is_made_beside_the_journal_and_the_lost_call_is_in_it(journal: Path) -> None:
    done = recover(journal)

    trace = load(journal.with_name("run-0001.trace.json"))
    assert [call.finish_reason for call in trace.calls()] == ["stop", "lost"]
    assert done.exit_code == 0
    assert "trace: " in done.stdout
    assert journal.exists()


def test_it_is_the_trace_that_the_recording_would_have_made(tmp_path: Path) -> None:
    written = BytesIO()
    recorder = Recorder(JournalWriter(written))
    ask(recorder, "one", at_s=0)
    ask(recorder, "two", at_s=5)
    recover(put(tmp_path, written), "-o", tmp_path / "recovered.trace.json")

    assert load(tmp_path / "recovered.trace.json") == recorder.close()


def test_a_cut_last_line_is_left_out(journal: Path) -> None:
    journal.write_bytes(journal.read_bytes()[:-5])
    recover(journal)

    events = load(journal.with_name("run-0001.trace.json")).events
    assert [event.finish_reason for event in events if isinstance(event, Call)] == ["stop"]


def test_damage_in_the_middle_is_told_with_its_line(journal: Path) -> None:
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:2], b"{\n", *lines[3:]]))
    done = recover(journal)

    assert isinstance(done.exception, TraceError)
    assert f"{journal}:3: " in str(done.exception)
    assert not journal.with_name("run-0001.trace.json").exists()


def test_a_trace_that_is_there_is_left_alone(journal: Path) -> None:
    target = journal.with_name("run-0001.trace.json")
    target.write_text("mine")
    done = recover(journal)

    assert isinstance(done.exception, UnusableInput)
    assert target.read_text() == "mine"


def test_a_journal_without_a_call_is_told(tmp_path: Path) -> None:
    written = BytesIO()
    Recorder(JournalWriter(written))
    done = recover(put(tmp_path, written))

    assert isinstance(done.exception, UnusableInput)
    assert "no call was recorded" in str(done.exception)


def test_a_journal_that_is_not_there_is_told(tmp_path: Path) -> None:
    done = recover(tmp_path / "none.journal.jsonl")

    assert isinstance(done.exception, UnusableInput)
    assert "none.journal.jsonl: cannot be read: No such file" in str(done.exception)


def test_in_a_folder_every_journal_without_a_trace_becomes_one(journal: Path, tmp_path: Path) -> None:
    (tmp_path / "run-0002.journal.jsonl").write_bytes(journal.read_bytes())
    (tmp_path / "run-0002.trace.json").write_text("mine")
    (tmp_path / "run-0003.journal.jsonl").write_bytes(journal.read_bytes())
    (tmp_path / "run-0004.journal.jsonl").touch()
    (tmp_path / "run-0005.journal.jsonl").write_bytes(journal.read_bytes()[:20])
    (tmp_path / "run-0006.journal.jsonl").write_bytes(journal.read_bytes().splitlines(keepends=True)[0])
    (tmp_path / "notes.txt").write_text("mine")
    done = recover(tmp_path)

    assert done.exit_code == 0
    assert (tmp_path / "run-0002.trace.json").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.glob("*.trace.json")) == [f"run-000{i}.trace.json" for i in (1, 2, 3)]
    said = done.stdout.splitlines()
    assert f"trace: {tmp_path / 'run-0003.trace.json'}" in said
    assert f"{tmp_path / 'run-0002.journal.jsonl'}: its trace is there already" in said
    assert [line for line in said if line.endswith(": no call was recorded")] == [
        f"{tmp_path / f'run-000{i}.journal.jsonl'}: no call was recorded" for i in (4, 5, 6)
    ]


def test_in_a_folder_a_damaged_journal_does_not_stop_the_others(journal: Path, tmp_path: Path) -> None:
    (tmp_path / "run-0000.journal.jsonl").write_text("said\n")
    (tmp_path / "run-0002.journal.jsonl").mkdir()
    done = recover(tmp_path)

    assert done.exit_code == 1
    assert "run-0000.journal.jsonl:1: format: expected" in done.stderr
    assert "run-0002.journal.jsonl: it cannot be read: Is a directory" in done.stderr
    assert load(tmp_path / "run-0001.trace.json")


def test_journal_that_is_being_recorded_is_left_alone(tmp_path: Path) -> None:
    place = claim(tmp_path)
    with place.open_journal() as file:
        ask(Recorder(JournalWriter(file)), "one", at_s=0)
        alone, among_others = recover(place.journal), recover(tmp_path)

    assert isinstance(alone.exception, UnusableInput)
    assert "it is being recorded" in str(alone.exception)
    assert among_others.stdout == f"{place.journal}: it is being recorded\n"
    assert not place.trace.exists()
    assert recover(tmp_path).exit_code == 0
    assert place.trace.exists()


def test_folder_without_journals_is_told(tmp_path: Path) -> None:
    done = recover(tmp_path)

    assert (done.exit_code, done.stdout) == (0, f"{tmp_path}: no recording left a journal here\n")


def test_traces_of_a_folder_are_beside_their_journals(tmp_path: Path) -> None:
    done = recover(tmp_path, "-o", tmp_path / "x.trace.json")

    assert isinstance(done.exception, UnusableInput)
    assert "leave out --output" in str(done.exception)


def test_a_file_of_something_else_is_no_journal(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("said\n")
    done = recover(tmp_path / "notes")

    assert isinstance(done.exception, TraceError)
    assert str(done.exception).endswith("notes:1: format: expected 'rotoscope.journal': this is no journal")


def test_a_place_that_cannot_be_written_is_told(journal: Path, tmp_path: Path) -> None:
    done = recover(journal, "-o", tmp_path / "none/run.trace.json")

    assert isinstance(done.exception, UnusableInput)
    assert str(done.exception) == f"{tmp_path / 'none/run.trace.json'}: cannot be written: No such file or directory"
