from __future__ import annotations

import json
import resource
import stat
from pathlib import Path

import orjson
import pytest

from rotoscope.recorder.names_file import NamesFile, names_file
from rotoscope.recorder.recorded_run import RecordedRun, begin_in
from rotoscope.traces.errors import UnusableInput

ANSWER = {
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {"tool_calls": [{"id": "c", "type": "function", "function": {"name": "look", "arguments": ""}}]},
        }
    ]
}


def called(run: RecordedRun) -> RecordedRun:
    """Let one call pass."""
    body = orjson.dumps({"model": "a/model", "messages": [{"role": "user", "content": "hello"}]})
    headers = {"x-rotoscope-branch": "planner"}
    exchange = run.recorder.request("/v1/chat/completions", body, at_s=1.0, headers=headers)
    exchange.response(200, at_s=2.0, content_type="application/json")
    exchange.chunk(json.dumps(ANSWER).encode(), at_s=2.0)
    exchange.end(at_s=2.0)
    return run


def test_names_of_each_trace_are_a_line_in_a_private_file(tmp_path: Path) -> None:
    file = names_file(tmp_path / "names.jsonl", tmp_path / "traces")
    for name in ("nightly", ""):
        run = called(begin_in(tmp_path / "traces", None, keeps_names=True))
        run.called = name
        assert run.names is not None
        run.names.tool(2, "\ud800")
        finished = run.finish()
        file.add(finished)

    first, second = map(json.loads, file.path.read_text().splitlines())
    assert finished.trace is not None
    assert second == {
        "trace": "run-0002.trace.json",
        "trace_id": finished.trace.trace_id,
        "run": None,
        "models": {"0": "a/model"},
        "branches": {"root": ["planner"]},
        "tools": {"tool01": "look", "tool02": "\\ud800"},
    }
    assert first["run"] == "nightly"
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600


def test_run_without_a_trace_or_without_names_is_no_line(tmp_path: Path) -> None:
    file = names_file(tmp_path / "names.jsonl", tmp_path / "traces")
    file.add(begin_in(tmp_path / "traces", None, keeps_names=True).finish())
    file.add(called(begin_in(tmp_path / "traces", None)).finish())

    assert file.path.read_bytes() == b""


def test_names_that_cannot_be_written_are_told_and_hurt_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = called(begin_in(tmp_path / "traces", None, keeps_names=True))

    NamesFile(tmp_path / "none" / "names.jsonl").add(run.finish())

    assert caplog.messages == ["names of a run could not be written to the file for them (No such file or directory)"]


def test_name_of_a_run_that_is_no_text_is_written_as_it_can_be(tmp_path: Path) -> None:
    file = names_file(tmp_path / "names.jsonl", tmp_path / "traces")
    run = called(begin_in(tmp_path / "traces", None, keeps_names=True))
    run.called = b"caf\xe9".decode(errors="surrogateescape")

    file.add(run.finish())

    assert json.loads(file.path.read_text())["run"] == "caf\\udce9"


def test_names_that_a_full_disk_cuts_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = names_file(tmp_path / "names.jsonl", tmp_path / "traces")
    finished = called(begin_in(tmp_path / "traces", None, keeps_names=True)).finish()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))
    try:
        file.add(finished)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert caplog.messages == ["names of a run could not be written to the file for them (File too large)"]


def test_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "names.jsonl").touch(mode=0o644)

    with pytest.raises(UnusableInput, match="yours alone: chmod 600"):
        names_file(tmp_path / "names.jsonl", tmp_path / "traces")


def test_names_do_not_belong_beside_the_traces(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="do not belong beside the traces"):
        names_file(tmp_path / "traces" / "below" / ".." / "names.jsonl", tmp_path / "traces")


def test_file_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for path in (tmp_path / "none" / "names", tmp_path / "link", tmp_path):
        with pytest.raises(UnusableInput, match="names cannot be written here"):
            names_file(path, tmp_path / "traces")
