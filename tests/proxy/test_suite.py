"""`rotoscope record --each` as a process: a run for each task, one campaign, and what is told of them."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest
from aiohttp import web
from loopback import chat_answer, serving
from rotoscope_process import Ended, ended, line_with, rotoscope
from typer.testing import CliRunner

from rotoscope.cli import app
from rotoscope.traces import Trace
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.reader import load

CANARY = "canary-7f3a91"

AGENT = """
import http.client, json, os, signal, sys
task = sys.argv[1]
body = {"model": "m", "messages": [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": task}]}
if task != "idle":
    host, _, path = os.environ["OPENAI_BASE_URL"].removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host)
    connection.request("POST", f"/{path}/chat/completions", json.dumps(body))
    connection.getresponse().read()
if "fail" in task:
    sys.exit(3)
if "wait" in task:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    print("waiting", flush=True)
    sys.exit(128 + signal.sigwait([signal.SIGINT]))
print(sys.stdin.read() + "done")
"""

COMMAND = (sys.executable, "-IS", "-c", AGENT)


class Upstream:
    """Answers when as many calls are open as it waits for."""

    def __init__(self, together: int = 1) -> None:
        self._missing = together
        self._all_arrived = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a call."""
        await request.read()
        self._missing -= 1
        if self._missing <= 0:
            self._all_arrived.set()
        await self._all_arrived.wait()
        return web.json_response(chat_answer())


def suite(folder: Path, tasks: str, *options: str, together: int = 1, command: tuple[str, ...] = COMMAND) -> Ended:
    """Record a suite in front of a server that runs here."""
    (folder / "tasks").write_text(tasks)

    async def run() -> Ended:
        arguments = ["--tokenizer", "none", "-o", str(folder / "out"), "--each", str(folder / "tasks"), *options]
        async with (
            serving(Upstream(together).answer) as origin,
            rotoscope("record", "--upstream", origin, *arguments, "--", *command) as process,
        ):
            return await ended(process)

    return asyncio.run(run())


def traces(folder: Path) -> list[Trace]:
    return [load(path) for path in sorted((folder / "out").iterdir())]


def test_each_task_is_a_run_and_their_system_prompt_has_one_id(tmp_path: Path) -> None:
    done = suite(tmp_path, f"{CANARY} one\n\n{CANARY} two words\n{CANARY} three\n")

    assert (done.status, done.out) == (0, "done\n" * 3)
    said = done.err.splitlines()
    assert said[0].startswith("rotoscope: recording 3 tasks in front of http://127.0.0.1:")
    assert [line.partition(",")[0] for line in said[1:4]] == [
        "rotoscope: [1 of 3] line 1",
        "rotoscope: [2 of 3] line 3",
        "rotoscope: [3 of 3] line 4",
    ]
    assert said[-1] == "rotoscope: 3 tasks done"
    recorded = traces(tmp_path)
    assert [len(list(trace.calls())) for trace in recorded] == [1, 1, 1]
    assert len({trace.campaign for trace in recorded}) == 1
    assert len({shared.id for trace in recorded for shared in trace.shared_prefixes}) == 1
    assert CANARY not in done.err
    assert not any(CANARY.encode() in path.read_bytes() for path in (tmp_path / "out").iterdir())


def test_task_that_fails_does_not_stop_the_others_and_is_named_by_its_line(tmp_path: Path) -> None:
    done = suite(tmp_path, "one\nfail\nidle\nthree\n")

    assert (done.status, done.out) == (1, "done\n" * 3)
    assert done.err.splitlines()[-1] == (
        "rotoscope: 4 tasks done, 1 failed (line 2), NOTHING WAS RECORDED of 1 (line 3)"
    )
    assert "line 2, exit status 3: 1 call," in done.err
    assert "line 3, exit status 0: nothing was recorded" in done.err
    assert len(traces(tmp_path)) == 3


def test_as_many_tasks_as_jobs_run_at_once(tmp_path: Path) -> None:
    done = suite(tmp_path, "one\ntwo\nthree\n", "--jobs", "3", together=3)

    assert done.status == 0
    assert len(traces(tmp_path)) == 3


def test_interrupt_ends_what_runs_begins_no_other_and_keeps_what_is_recorded(tmp_path: Path) -> None:
    (tmp_path / "tasks").write_text("one\nwait\nthree\n")

    async def run() -> Ended:
        arguments = ["--tokenizer", "none", "-o", str(tmp_path / "out"), "--each", str(tmp_path / "tasks")]
        async with (
            serving(Upstream().answer) as origin,
            rotoscope("record", "--upstream", origin, *arguments, "--", *COMMAND, "{}") as process,
        ):
            assert process.stdout is not None
            while await process.stdout.readline() != b"waiting\n":
                pass
            process.send_signal(signal.SIGINT)
            return await ended(process)

    done = asyncio.run(run())

    assert done.status == 130
    assert done.err.splitlines()[-1] == "rotoscope: 2 tasks done, 1 failed (line 2), 1 not begun"
    assert len(traces(tmp_path)) == 2


@pytest.mark.parametrize(
    ("tasks", "command", "says"),
    [("", "true", "there is no task"), ("one\n", "no-such-command", "the command 'no-such-command' cannot be started")],
)
def test_what_cannot_begin_fails_in_one_sentence(tasks: str, command: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "tasks").write_text(tasks)

    async def run() -> Ended:
        arguments = ["--tokenizer", "none", "-o", str(tmp_path / "out"), "--each", str(tmp_path / "tasks"), command]
        async with rotoscope("record", "--upstream", "http://127.0.0.1:9", *arguments) as process:
            return await ended(process)

    done = asyncio.run(run())

    assert done.status == 2
    assert says in done.err.splitlines()[-1]
    assert list(tmp_path.glob("out/*")) == []


def test_jobs_without_a_suite_are_refused() -> None:
    done = CliRunner().invoke(app, ["record", "--upstream", "http://127.0.0.1:9", "--jobs", "2", "true"])

    assert isinstance(done.exception, UnusableInput)
    assert "give it with --each FILE" in str(done.exception)


@pytest.mark.parametrize(("tasks", "line"), [("one\n%s\nthree\n", 2), ("%s\none\nthree\n", 1)])
def test_task_that_is_too_long_for_a_command_fails_alone(tasks: str, line: int, tmp_path: Path) -> None:
    done = suite(tmp_path, tasks % (CANARY * 50_000))

    assert done.status == 1
    assert "Argument list too long" in done.err
    assert f"line {line}, exit status 126: nothing was recorded" in done.err
    assert CANARY not in done.err
    assert len(traces(tmp_path)) == 2


def test_task_that_is_the_command_is_not_told_where_it_cannot_be_started(tmp_path: Path) -> None:
    done = suite(tmp_path, f"{CANARY}\ntrue\n", command=("{}",))

    assert done.status == 1
    assert "the command '{}' cannot be started: No such file or directory" in done.err
    assert "line 2, exit status 0" in done.err
    assert CANARY not in done.err


def test_campaign_of_a_name_is_shared_with_other_suites(tmp_path: Path) -> None:
    async def run(folder: Path) -> None:
        arguments = [
            "--tokenizer",
            "none",
            "-o",
            str(folder / "out"),
            "--each",
            str(folder / "tasks"),
            "--campaign",
            CANARY,
        ]
        async with (
            serving(Upstream().answer) as origin,
            rotoscope(
                *("record", "--upstream", origin, *arguments, *COMMAND),
                ROTOSCOPE_CAMPAIGNS=str(tmp_path / "campaigns"),
            ) as process,
        ):
            is_first = folder.name == "first"
            if is_first:
                await line_with(process, "a campaign begins")
            done = await ended(process)
            assert done.status == 0
            assert CANARY not in done.err

    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tasks").write_text("one\n")
        asyncio.run(run(tmp_path / name))

    first, second = (traces(tmp_path / name)[0] for name in ("first", "second"))
    assert first.shared_prefixes[0].id == second.shared_prefixes[0].id
    assert first.campaign == second.campaign
    written = [path.read_bytes() for name in ("first", "second") for path in (tmp_path / name / "out").iterdir()]
    assert not any(CANARY.encode() in content for content in written)
