from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from rotoscope.cli import app
from rotoscope.testing import make_trace
from rotoscope.traces import UnusableInput, dumps, load


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    folder = tmp_path / "recordings"
    folder.mkdir()
    for number in (1, 2):
        (folder / f"run-000{number}.trace.json").write_bytes(dumps(make_trace(turns=3, tool_ms=5.3)))
    return folder


def test_a_corpus_is_published_and_its_effect_is_told(recordings: Path, tmp_path: Path) -> None:
    done = run("publish", recordings, "-o", tmp_path / "corpus", "--round-tokens", "64", "--round-ms", "10")

    assert done.exit_code == 0
    assert f"published: 2 traces in {tmp_path}/corpus, audit clean" in done.stdout
    assert "planned token hit rate, block 16" in done.stdout
    assert run("audit", tmp_path / "corpus").exit_code == 0
    trace = load(tmp_path / "corpus/trace-0001.trace.json")
    assert [call.prompt_tokens for call in trace.calls()] == [128, 129, 192]
    assert [call.at_ms for call in trace.calls()] == [0.0, 110.0, 210.0]


def test_the_effect_is_told_to_programs_too(recordings: Path, tmp_path: Path) -> None:
    told = json.loads(run("publish", recordings, "-o", tmp_path / "corpus", "--json").stdout)

    assert told["files"] == ["trace-0001.trace.json", "trace-0002.trace.json"]
    assert all(effect["before"] == effect["after"] for effect in told["effects"])


def test_a_seed_gives_the_same_files(recordings: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        run("publish", recordings, "-o", tmp_path / name, "--seed", "3")

    files = ["corpus.json", "trace-0001.trace.json", "trace-0002.trace.json"]
    assert [(tmp_path / "a" / name).read_bytes() for name in files] == [
        (tmp_path / "b" / name).read_bytes() for name in files
    ]


def test_what_a_foreign_format_does_not_hold_is_said(tmp_path: Path) -> None:
    rows = [{"timestamp": 1000 * n, "input_length": 1024, "output_length": 5, "hash_ids": [n, n + 1]} for n in range(3)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")

    done = run("publish", tmp_path / "rows.jsonl", "-o", tmp_path / "corpus")

    assert done.exit_code == 0
    assert "reading: kept arrival times and order (3 calls)" in done.stderr
    assert run("audit", tmp_path / "corpus").exit_code == 0


def test_a_folder_that_holds_something_is_left_alone(recordings: Path) -> None:
    assert isinstance(run("publish", recordings, "-o", recordings).exception, UnusableInput)
    assert len(list(recordings.iterdir())) == 2


def test_a_corpus_is_called_what_is_said(recordings: Path, tmp_path: Path) -> None:
    done = run("publish", recordings, "-o", tmp_path / "corpus", "--name", "coding-agents@1.0")
    refused = run("publish", recordings, "-o", tmp_path / "other", "--name", "My agents")

    assert done.exit_code == 0
    assert '"name": "coding-agents",\n"version": "1.0",\n' in (tmp_path / "corpus/corpus.json").read_text()
    assert "corpus: coding-agents (1)" in run("audit", tmp_path / "corpus").stdout
    assert isinstance(refused.exception, UnusableInput)
    assert not (tmp_path / "other").exists()
