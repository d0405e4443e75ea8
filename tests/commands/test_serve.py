from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from rotoscope_process import Ended, Running, ended, first_line, rotoscope

from rotoscope.cli import main

SCRIPT = """
from rotoscope.replayer.simulator.model import Answer

def answer(request):
    return Answer(text=f"seed {request.seed}")
"""


@contextlib.asynccontextmanager
async def serving(*options: str) -> AsyncIterator[tuple[Running, str]]:
    """Run the command and yield it with the URL it prints."""
    async with rotoscope("serve", "--port", "0", *options) as process:
        yield process, await first_line(process)


async def asked(url: str, **body: object) -> Any:
    """Return the answer to a completion."""
    async with aiohttp.ClientSession() as session, session.post(f"{url}/v1/completions", json=body) as response:
        return await response.json()


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
def test_it_serves_until_a_signal_ends_it_cleanly(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "says.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)

    async def run() -> tuple[str, Any, Ended]:
        async with serving("--script", "says:answer", "--seed", "7", "--speed", "max") as (process, url):
            answer = await asked(url, prompt="Hi")
            process.send_signal(number)
            return url, answer, await ended(process)

    url, answer, done = asyncio.run(run())

    assert url.startswith("http://127.0.0.1:")
    assert answer["choices"][0]["text"] == "seed 7"
    assert (done.status, done.out) == (0, "")
    assert done.err.startswith("rotoscope simulator: no model is computed")
    assert "Traceback" not in done.err


def test_a_signal_ends_it_while_an_answer_is_on_its_way() -> None:
    body = {"prompt": "Hi", "max_tokens": 100_000, "ignore_eos": True, "stream": True}

    async def run() -> Ended:
        async with (
            serving() as (process, url),
            aiohttp.ClientSession() as session,
            session.post(f"{url}/v1/completions", json=body) as response,
        ):
            assert (await response.content.readline()).startswith(b"data: ")
            process.send_signal(signal.SIGTERM)
            return await ended(process)

    done = asyncio.run(run())

    assert done.status == 0
    assert "Traceback" not in done.err


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
