import os
import select
from pathlib import Path

import pytest

from examples.react.shell import FILE_LIMIT_BLOCKS, run_shell


def test_the_agents_environment_stays_with_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-the-shell")

    ending, output = run_shell("env", tmp_path, timeout_s=20)

    assert ending == "exit status 0"
    assert "sk-not-for-the-shell" not in output
    names = {line.partition("=")[0] for line in output.splitlines()}
    assert names <= {"PATH", "HOME", "LANG", "PYTHONDONTWRITEBYTECODE", "PWD", "OLDPWD", "SHLVL", "_"}


def test_output_and_errors_come_in_order(tmp_path: Path) -> None:
    assert run_shell("echo one; echo two >&2; echo three", tmp_path, timeout_s=20)[1] == "one\ntwo\nthree\n"


def test_there_is_nothing_to_read_from(tmp_path: Path) -> None:
    assert run_shell("cat", tmp_path, timeout_s=20) == ("exit status 0", "")


def test_a_command_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    assert run_shell("echo begun; sleep 60; echo done", tmp_path, timeout_s=0.2) == (
        "stopped after 0.2 seconds",
        "begun\n",
    )


def test_what_a_command_leaves_in_the_background_ends_with_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        ending, _ = run_shell("exec 3> pipe; sleep 60 &", tmp_path, timeout_s=20)

        assert ending == "exit status 0"
        poll = select.poll()
        poll.register(reader, select.POLLIN)
        assert poll.poll(10_000) == [(reader, select.POLLHUP)]  # nobody holds the other end any more
    finally:
        os.close(reader)


def test_endless_output_has_an_end(tmp_path: Path) -> None:
    ending, output = run_shell("yes", tmp_path, timeout_s=60)

    assert ending != "exit status 0"
    assert len(output) <= 1024 * FILE_LIMIT_BLOCKS
