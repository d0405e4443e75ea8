from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rotoscope.cli import app
from rotoscope.testing import make_trace
from rotoscope.traces import RunFailed, UnusableInput, dumps


def audit(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["audit", *map(str, arguments)])


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    folder = tmp_path / "recordings"
    folder.mkdir()
    (folder / "run-0001.trace.json").write_bytes(dumps(make_trace(turns=3)))
    return folder


def test_recordings_without_content_are_clean(recordings: Path) -> None:
    done = audit(recordings)

    assert done.exit_code == 0
    assert "traces 1, campaigns 1, calls 3, tools 1" in done.stdout
    assert done.stdout.endswith("clean: 1 file, every field is allowed\n")


def test_what_is_found_fails_and_is_told_without_its_value(recordings: Path) -> None:
    path = recordings / "run-0001.trace.json"
    path.write_bytes(path.read_bytes().replace(b'"stop"', b'"what was said"'))

    done = audit(recordings)

    assert isinstance(done.exception, RunFailed)
    assert done.exception.exit_code == 1
    assert f"{path}:18: events[8].finish_reason: expected 'stop'" in done.stdout
    assert "what was said" not in done.output


def test_many_findings_are_counted_and_not_all_printed(recordings: Path) -> None:
    for number in range(70):
        (recordings / f"run-{number}.txt").write_bytes(b"")

    done = audit(recordings)

    assert "and 20 more" in done.stdout
    assert done.stdout.count("of no kind") == 50


def test_many_names_are_counted_and_not_all_printed(recordings: Path) -> None:
    for number in range(52):
        (recordings / f"coder-{number}.trace.json").write_bytes(dumps(make_trace()))

    done = audit(recordings)

    assert done.exit_code == 0
    assert done.stdout.count("  file name: coder-") == 50
    assert "  file name: and 2 more, see --json" in done.stdout


def test_canaries_are_looked_for(recordings: Path, tmp_path: Path) -> None:
    canaries = tmp_path / "canaries.txt"
    canaries.write_text("the first canary\n\nthe second canary\n")
    assert (
        "clean: 1 file, every field is allowed and no canary was found"
        in audit(recordings, "--canary", canaries).stdout
    )

    (recordings / "agent.log").write_text("GET /?q=the%20second%20canary")
    found = audit(recordings, "--canary", canaries, "--only-canaries")

    assert f"{recordings}/agent.log: holds canary 3 at byte 8, in a URL\n" in found.stdout
    assert isinstance(found.exception, RunFailed)


def test_the_same_as_json(recordings: Path) -> None:
    (recordings / "notes.txt").write_text("")

    told = json.loads(audit(recordings, "--json").stdout)

    assert (told["clean"], told["files"], told["findings_total"]) == (False, 2, 1)
    assert told["findings"][0]["file"] == f"{recordings}/notes.txt"
    assert told["census"]["calls_with_a_prompt_length_of_their_own"] == 3


def test_what_cannot_be_used_is_told_apart_from_what_is_found(recordings: Path, tmp_path: Path) -> None:
    assert isinstance(audit(tmp_path / "missing").exception, UnusableInput)
    assert isinstance(audit(recordings, "--only-canaries").exception, UnusableInput)
    assert isinstance(audit(recordings, "--canary", tmp_path / "missing").exception, UnusableInput)
