from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rotoscope.cli import main

SCRIPT = """
from rotoscope.replayer.simulator.model import Answer

def answer(request):
    return Answer(text=f"seed {request.seed}")
"""
PATIENCE_S = 120.0
"""Only a failure takes as long."""


@contextlib.contextmanager
def serving(*options: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the command and yield it with the URL it prints."""
    command = [sys.executable, "-m", "rotoscope", "serve", "--port", "0", *options]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[object, str]]:
    """Return a function that runs the command in this process and returns its exit code and what it said."""

    def run(*options: str) -> tuple[object, str]:
        monkeypatch.setattr("sys.argv", ["rotoscope", "serve", "--port", "0", *options])
        with pytest.raises(SystemExit) as left:
            main()
        return left.value.code, capsys.readouterr().err

    return run


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_a_signal_ends_it_cleanly(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "says.py").write_text(SCRIPT)
    with serving("--script", "says:answer", "--seed", "7", "--speed", "max", folder=tmp_path) as (process, url):
        body = json.dumps({"prompt": "Hi"}).encode()
        with urllib.request.urlopen(f"{url}/v1/completions", data=body, timeout=PATIENCE_S) as response:
            answer = json.load(response)
        process.send_signal(number)
        output, talk = process.communicate(timeout=PATIENCE_S)

    assert url.startswith("http://127.0.0.1:")
    assert answer["choices"][0]["text"] == "seed 7"
    assert process.returncode == 0
    assert output == ""
    assert talk.startswith("rotoscope simulator: no model is computed")
    assert "Traceback" not in talk


def test_a_signal_ends_it_while_an_answer_is_on_its_way(tmp_path: Path) -> None:
    with serving(folder=tmp_path) as (process, url):
        body = json.dumps({"prompt": "Hi", "max_tokens": 100_000, "ignore_eos": True, "stream": True}).encode()
        with urllib.request.urlopen(f"{url}/v1/completions", data=body, timeout=PATIENCE_S) as response:
            assert response.readline().startswith(b"data: ")
            process.send_signal(signal.SIGTERM)
            _, talk = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 0
    assert "Traceback" not in talk


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--profile", "fast"], "error: no engine profile 'fast'"),
        (["--speed", "warp"], "error: speed 'warp' is neither a number nor 'max'"),
        (["--speed", "-1"], "error: speed -1.0 is not a factor"),
        (["--script", "nothing"], "error: script 'nothing' is not of the form MODULE:NAME"),
        (["--script", "nothing:here"], "error: script 'nothing:here' cannot be loaded"),
    ],
)
def test_what_cannot_be_served_is_one_line_and_exit_code_2(
    options: list[str], message: str, refused: Callable[..., tuple[object, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.path", [*sys.path])  # a script is looked for in the working directory too
    code, talk = refused(*options)

    assert code == 2
    assert talk.startswith(message)
    assert talk.count("\n") == 1


def test_a_host_that_is_not_here_is_one_line_and_exit_code_1(refused: Callable[..., tuple[object, str]]) -> None:
    code, talk = refused("--host", "203.0.113.1")

    assert code == 1
    assert talk.startswith("error: cannot listen on 203.0.113.1 port 0: ")
    assert talk.count("\n") == 1
