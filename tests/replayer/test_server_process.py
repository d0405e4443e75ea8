from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import started_server
from yarl import URL

from rotoscope.replayer.server_process import LAST_LINES, Patience, free_port, running_server
from rotoscope.replayer.server_ready import listens
from rotoscope.traces.errors import RunFailed

PATIENCE = Patience(ready_s=120.0, stop_s=60.0)
"""Only a failure takes as long."""
HASTE = Patience(ready_s=120.0, stop_s=0.0)


def server(port: int, *how: str) -> list[str]:
    return [sys.executable, started_server.__file__, str(port), *how]


def is_there(port: int) -> bool:
    return asyncio.run(listens(URL(f"http://127.0.0.1:{port}")))


def run(*how: str, patience: Patience = PATIENCE, do: Callable[[], None] = lambda: None) -> list[str]:
    """Run a server, do something while it runs, see that nobody listens afterwards, and return what was said."""
    said: list[str] = []
    port = free_port()
    try:
        with running_server(server(port, *how), f"http://127.0.0.1:{port}", patience=patience, say=said.append):
            assert is_there(port)
            do()
    except RunFailed as error:
        said.append(str(error))
    assert not is_there(port)
    return said


def test_a_server_runs_as_long_as_the_block() -> None:
    (ready,) = run()

    assert ready.startswith("the server is ready after ")


def test_a_server_that_ignores_sigterm_is_killed() -> None:
    run("stubborn", patience=HASTE)


def test_children_that_ignore_sigterm_end_with_their_server(tmp_path: Path) -> None:
    run("forks", str(tmp_path / "pid"), patience=HASTE)

    child = int((tmp_path / "pid").read_text())
    assert started_server.has_ended(child, within_s=PATIENCE.stop_s)


def test_a_server_behind_a_script_has_the_time_that_it_may_take_to_end(tmp_path: Path) -> None:
    run("lingers", str(tmp_path / "file"))

    assert (tmp_path / "file").read_text() == "ended"


def test_a_server_that_dies_at_its_start_tells_its_last_words_without_their_colours() -> None:
    said = run("dies")

    assert said == [
        "the server ended with exit code 1",
        "server: loading the model",
        "server: out of memory:  [31mno room [0m for the model",
        "the server ended before it was ready",
    ]


def test_a_server_that_is_never_ready_is_ended_and_told() -> None:
    said = run("silent", patience=Patience(ready_s=0.0, stop_s=60.0))

    assert said[-1].startswith("the server was not ready within 0 s")


def test_no_more_than_the_last_lines_are_kept() -> None:
    many = f"for number in range({LAST_LINES + 5}): print(number)"
    said: list[str] = []
    port = free_port()
    with (
        pytest.raises(RunFailed),
        running_server([sys.executable, "-c", many], f"http://127.0.0.1:{port}", patience=PATIENCE, say=said.append),
    ):
        pass

    assert said[1:] == [f"server: {number}" for number in range(5, LAST_LINES + 5)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_server_is_stopped_when_the_block_fails(error: type[BaseException]) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(error):
        run(do=fail)


def test_a_server_that_ends_while_it_is_measured_is_told(tmp_path: Path) -> None:
    def end_it() -> None:
        pid = int((tmp_path / "pid").read_text())
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    said = run("tells", str(tmp_path / "pid"), do=end_it)

    assert said[1:] == [
        "the server ended while it was measured",
        "the server ended with exit code -9",
        "server: loading the model",
    ]


def test_a_program_that_cannot_be_run_is_told(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no program")
    with (
        pytest.raises(RunFailed, match="cannot be started"),
        running_server([str(tmp_path / "data")], "http://127.0.0.1:1", patience=PATIENCE, say=print),
    ):
        pass


def test_somebody_else_who_listens_there_is_not_measured() -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with (
        running_server(server(port), url, patience=PATIENCE, say=lambda text: None),
        pytest.raises(RunFailed, match="somebody listens"),
        running_server(server(port), url, patience=PATIENCE, say=lambda text: None),
    ):
        pass
