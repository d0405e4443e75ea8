from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rotoscope
from rotoscope.cli import TRACEBACK_VARIABLE, app, main
from rotoscope.testing import make_trace
from rotoscope.traces import save


def run(
    *arguments: str | Path, program: str = "from rotoscope.cli import main", **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the command line; `program` may add to it before it starts."""
    return subprocess.run(
        [sys.executable, "-c", f"{program}\nmain()", *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )


def with_command(body: str) -> str:
    """Return a program with a command `do` of one line."""
    return f"from rotoscope.cli import *\n@app.command()\ndef do() -> None:\n    {body}\n"


def test_version_is_that_of_the_package() -> None:
    assert run("--version").stdout == f"rotoscope {rotoscope.__version__}\n"


def test_without_a_command_the_help_is_shown_and_the_usage_is_wrong() -> None:
    done = run()

    assert "Usage:" in done.stdout + done.stderr
    assert done.returncode == 2


def test_list_of_commands_has_the_whole_sentence_of_each() -> None:
    told = CliRunner().invoke(app, ["--help"], terminal_width=200).output

    sentences = [
        str(command.callback.__doc__).splitlines()[0] for command in app.registered_commands if command.callback
    ]
    assert len(sentences) > 10
    assert [sentence for sentence in sentences if sentence not in told] == []


def test_the_module_and_the_installed_command_are_the_same() -> None:
    module = subprocess.run([sys.executable, "-m", "rotoscope", "--help"], check=True, capture_output=True, text=True)
    command = subprocess.run(
        [Path(sys.executable).parent / "rotoscope", "--help"], check=True, capture_output=True, text=True
    )

    assert "record" in module.stdout
    assert [line for line in module.stdout.splitlines() if "Usage" not in line] == [
        line for line in command.stdout.splitlines() if "Usage" not in line
    ]


def test_unusable_input_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "empty.trace.json").touch()
    done = run("show", tmp_path / "empty.trace.json")

    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {tmp_path / 'empty.trace.json'}: ")
    assert done.stdout == ""


def test_traceback_is_shown_where_it_is_asked_for(tmp_path: Path) -> None:
    done = run("show", tmp_path / "none.trace.json", **{TRACEBACK_VARIABLE: "1"})

    assert "Traceback" in done.stderr
    assert "none.trace.json: cannot be read" in done.stderr


def test_wrong_usage_is_exit_code_2() -> None:
    assert run("show").returncode == 2
    assert run("show", "--no-such-option").returncode == 2
    assert run("fly").returncode == 2


def test_a_failed_run_is_exit_code_1() -> None:
    done = run(
        "do", program=with_command("from rotoscope.traces.errors import RunFailed; raise RunFailed('no server')")
    )

    assert (done.returncode, done.stderr) == (1, "error: no server\n")


def test_an_error_of_ours_that_is_a_fault_keeps_its_traceback() -> None:
    done = run("do", program=with_command("1 / 0"))

    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert "Traceback" in done.stderr


def test_interrupt_is_exit_code_130() -> None:
    done = run("do", program=with_command("raise KeyboardInterrupt"))

    assert done.returncode == 130
    assert "Traceback" not in done.stderr


def test_warnings_of_the_library_are_shown_as_lines() -> None:
    program = with_command("logging.getLogger('rotoscope.traces').warning('%s calls left out', 3)")

    assert run("do", program=program).stderr == "warning: 3 calls left out\n"


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_closed_streams_keep_no_command_from_being_recorded(closed: str, tmp_path: Path) -> None:
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "rotoscope"]
    command = ["sh", "-c", f"echo ran > {tmp_path}/ran; exit 3"]
    options = ["--tokenizer", "none", "--upstream", "http://127.0.0.1:9", "-o", str(tmp_path / "out")]

    status = subprocess.run([*shell, "record", *options, "--", *command], check=False).returncode

    assert status == 3
    assert (tmp_path / "ran").read_text() == "ran\n"


def test_results_go_to_stdout(tmp_path: Path) -> None:
    save(make_trace(turns=2), tmp_path / "run.trace.json")
    done = run("show", tmp_path / "run.trace.json")

    assert done.returncode == 0
    assert "call 1" in done.stdout
    assert done.stderr == ""


def test_what_shows_warnings_is_gone_when_the_command_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["rotoscope", "--version"])
    before = list(logging.getLogger("rotoscope").handlers)

    with pytest.raises(SystemExit):
        main()

    assert logging.getLogger("rotoscope").handlers == before
