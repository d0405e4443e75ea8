from __future__ import annotations

import asyncio
import csv
import json
import os
import shlex
import signal
import sys
from pathlib import Path

import pytest
import rotoscope_process
import started_server
from typed_commands import Run, typed

from rotoscope.testing import make_trace
from rotoscope.traces import save

SERVER = shlex.join([sys.executable, started_server.__file__])
PATIENCE_S = 120.0
"""Only a failure takes as long."""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Return a function that runs the command in this process, in a folder of its own that holds `run.trace.json`."""
    monkeypatch.chdir(tmp_path)
    save(make_trace(turns=2, isl=200, osl=5, system=0, tool_ms=1.0), tmp_path / "run.trace.json")
    return typed(monkeypatch, capsys, "sweep")


def rows(folder: str) -> list[dict[str, str]]:
    with Path(folder, "sweep.csv").open(newline="") as file:
        return [*csv.DictReader(file)]


def test_a_grid_on_servers_that_are_started_for_each_point(run: Run) -> None:
    ended = run(
        *("run.trace.json", "--concurrency", "1,2", "--sessions-per-user", "3", "-o", "out", "--no-preflight"),
        *("--set", "max_batch=2,8", "--server-command", f"{SERVER} {{port}} --batch {{max_batch}}"),
    )

    assert ended.code == 0, ended.err
    assert [line.split()[0] for line in ended.out.splitlines()] == ["max_batch", "2", "2", "8", "8"]
    assert [(row["max_batch"], row["concurrency"], row["setup.max_batch"]) for row in rows("out")] == [
        ("2", "1", "2"),
        ("2", "2", "2"),
        ("8", "1", "8"),
        ("8", "2", "8"),
    ]
    assert len({row["setup.salt"] for row in rows("out")}) == 4
    assert not any(b"loading the model" in path.read_bytes() for path in Path("out").rglob("*.*"))
    assert ended.err.count("the server is ready") == 4


def test_a_simulated_grid_says_so(run: Run) -> None:
    ended = run(
        *("run.trace.json", "--concurrency", "1,4", "--sessions-per-user", "3", "-o", "out"),
        *("--simulate", "--set", "max_batch=1,8", "--set", "blocks=1024"),
    )

    assert ended.code == 0, ended.err
    assert "simulated: times are modelled" in ended.out
    assert ended.out.split()[0] == "max_batch"
    assert "blocks" not in ended.out.splitlines()[0]
    assert [row["setup.simulated"] for row in rows("out")] == ["true"] * 4
    assert ended.err.count("note: measured on a simulator") == 1


def test_a_call_that_is_repeated_runs_nothing_and_another_is_refused(run: Run) -> None:
    arguments = ("run.trace.json", "--concurrency", "1,2", "--sessions", "4", "-o", "out", "--simulate")
    first = run(*arguments)

    again = run(*arguments)
    other = run(*arguments, "--ramp", "3")

    assert again.out == first.out
    assert "2 of 2 points have ended before" in again.err
    assert other.code == 2
    assert "differs in ramp_s" in other.err


def test_a_point_that_is_not_valid_is_3_and_named(run: Run) -> None:
    save(make_trace(turns=1, isl=3000, osl=5, system=0), Path("long.trace.json"))
    ended = run(
        *("run.trace.json", "long.trace.json", "--concurrency", "1", "--sessions", "14", "-o", "out"),
        *("--simulate", "--set", "blocks=64,1024", "--set", "block_size=16"),
    )

    assert ended.code == 3
    assert "point 1 is not valid, errors jobs: blocks 64, block_size 16, C 1" in ended.err
    assert [row["valid"] for row in rows("out")] == ["no", "yes"]


def test_servers_that_do_not_start_are_1_and_tell_their_last_words(run: Run) -> None:
    ended = run(
        *("run.trace.json", "--concurrency", "1,2", "--sessions", "4", "-o", "out"),
        *("--server-command", f"{SERVER} {{port}} dies"),
    )

    assert ended.code == 1
    assert "server: out of memory" in ended.err
    assert "point 1 left no result: C 1" in ended.err
    assert not Path("out/sweep.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--concurrency", "1,x", "--url", "http://h"), "a list like 1,2,4,8"),
        (("--concurrency", "1"), "expected the --url of a server"),
        (("--concurrency", "1", "--simulate", "--url", "http://h"), "a simulation has no server"),
        (("--concurrency", "1", "--simulate", "--set", "batch=8"), "no setting 'batch'"),
        (("--concurrency", "1", "--url", "http://h", "--set", "batch=8"), "give --server-command"),
        (("--concurrency", "1", "--server-command", f"{SERVER} {{prot}}"), "{prot}"),
        (("--concurrency", "1", "--simulate", "--sessions", "2", "--sessions-per-user", "2"), "not both"),
    ],
)
def test_wrong_usage_is_2_and_leaves_nothing(run: Run, arguments: tuple[str, ...], says: str) -> None:
    ended = run("run.trace.json", "-o", "out", *arguments)

    assert ended.code == 2
    assert says in ended.err
    assert not Path("out").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("how", ["silent", "slow 3600"])
def test_an_interruption_is_130_and_leaves_no_server(run: Run, how: str, number: signal.Signals) -> None:
    """While a server is waited for, and while it is measured."""
    words = f"{SERVER} {{port}} tells pid {how}"
    arguments = ("run.trace.json", "--concurrency", "1", "--sessions", "2", "-o", "out", "--no-preflight")

    os.mkfifo("pid")

    async def interrupted() -> tuple[int, rotoscope_process.Ended]:
        async with rotoscope_process.rotoscope("sweep", *arguments, "--server-command", words) as process:
            pid = int(await asyncio.wait_for(asyncio.to_thread(Path("pid").read_text), PATIENCE_S))
            until = "point 1 of 1" if how == "silent" else "results go to out/points"
            await asyncio.wait_for(rotoscope_process.line_with(process, until), PATIENCE_S)
            process.send_signal(number)
            return pid, await asyncio.wait_for(rotoscope_process.ended(process), PATIENCE_S)

    pid, done = asyncio.run(interrupted())

    assert done.status == 130, done.err
    assert "interrupted" in done.err
    with pytest.raises(ProcessLookupError):
        os.killpg(pid, 0)
    assert json.loads(Path("out/sweep.json").read_text())["concurrency"] == [1]


def test_a_sweep_that_is_killed_leaves_no_server(run: Run) -> None:
    os.mkfifo("pid")
    words = ("sweep", "run.trace.json", "--concurrency", "1", "-o", "out", "--stop-timeout", "0.01")

    async def killed() -> int:
        async with rotoscope_process.rotoscope(
            *words, "--server-command", f"{SERVER} {{port}} stubborn tells pid silent"
        ) as process:
            pid = int(await asyncio.wait_for(asyncio.to_thread(Path("pid").read_text), PATIENCE_S))
            process.kill()
            await process.wait()
            return pid

    assert started_server.has_ended(asyncio.run(killed()), within_s=PATIENCE_S)
