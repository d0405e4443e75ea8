from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rotoscope.cli import app
from rotoscope.recorder import Recorder
from rotoscope.traces import Call, TraceError, UnusableInput, load
from rotoscope.traces.journal import JournalWriter

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


def test_a_folder_is_no_journal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    done = recover(Path())

    assert isinstance(done.exception, UnusableInput)
    assert str(done.exception) == ".: cannot be read: Is a directory"


def test_a_file_of_something_else_is_no_journal(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("said\n")
    done = recover(tmp_path / "notes")

    assert isinstance(done.exception, TraceError)
    assert str(done.exception).endswith("notes:1: format: expected 'rotoscope.journal': this is no journal")


def test_a_place_that_cannot_be_written_is_told(journal: Path, tmp_path: Path) -> None:
    done = recover(journal, "-o", tmp_path / "none/run.trace.json")

    assert isinstance(done.exception, UnusableInput)
    assert str(done.exception) == f"{tmp_path / 'none/run.trace.json'}: cannot be written: No such file or directory"
