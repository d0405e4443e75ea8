"""`rotoscope proxy` as a process: what clients, the person and the disk get."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from loopback import PATIENCE_S, WHOLE, chat_answer, serving
from rotoscope_process import ended, first_line, line_with, rotoscope

from rotoscope.proxy.door import Door
from rotoscope.proxy.service import chosen_door
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.reader import load

TOKEN = "a-token-of-some-length"


async def answer(request: web.Request) -> web.StreamResponse:
    """Answer any chat request."""
    await request.read()
    return web.json_response(chat_answer())


async def ask(base_url: str, **headers: str) -> int:
    async with aiohttp.ClientSession() as client:
        lines = {name.replace("_", "-"): value for name, value in headers.items()}
        async with client.post(base_url + "/chat/completions", json=WHOLE, headers=lines) as answer:
            await answer.read()
            return answer.status


def calls_in(folder: Path) -> dict[str, int]:
    """Return the traces in a folder, each with its number of calls."""
    return {path.name: len(list(load(path).calls())) for path in sorted(folder.iterdir())}


def proxy(folder: Path, upstream: str, *options: str, **environment: str) -> Any:
    return rotoscope("proxy", "--upstream", upstream, "--port", "0", "-o", str(folder), *options, **environment)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_each_session_leaves_a_trace_when_the_proxy_is_told_to_end(signum: signal.Signals, tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(answer) as origin, proxy(tmp_path, origin) as process:
            base_url = await first_line(process)
            for session in ("a", "b", "a"):
                assert await ask(base_url, session_id=session) == 200
            process.send_signal(signum)
            done = await ended(process)

        assert (done.status, done.out) == (0, "")
        assert f"clients take as their base URL {base_url}" in done.err
        assert done.err.splitlines()[-1] == "rotoscope: 2 traces written"

    asyncio.run(run())

    assert calls_in(tmp_path) == {"run-0001.trace.json": 2, "run-0002.trace.json": 1}


def test_run_that_is_idle_is_written_while_the_proxy_runs(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(answer) as origin, proxy(tmp_path, origin, "--idle", "1", "--runs-by", "name") as process:
            base_url = await first_line(process)
            assert await ask(base_url, session_id="not a run") == 200
            said = await asyncio.wait_for(line_with(process, "1 call,"), PATIENCE_S)

            assert said.endswith(f": {tmp_path / 'run-0001.trace.json'}\n")
            assert calls_in(tmp_path) == {"run-0001.trace.json": 1}

    asyncio.run(run())


def test_second_signal_cuts_what_is_open(tmp_path: Path) -> None:
    arrived = asyncio.Event()

    async def never(request: web.Request) -> web.StreamResponse:
        await request.read()
        arrived.set()
        await asyncio.Event().wait()
        return web.Response()

    async def run() -> None:
        async with serving(never) as origin, proxy(tmp_path, origin) as process:
            base_url = await first_line(process)
            asking = asyncio.create_task(ask(base_url))
            await asyncio.wait_for(arrived.wait(), PATIENCE_S)
            process.terminate()
            assert "1 request in flight" in await line_with(process, "ending")
            process.terminate()
            assert (await ended(process)).status == 0
            with pytest.raises(aiohttp.ClientError):
                await asking

    asyncio.run(run())

    (call,) = load(tmp_path / "run-0001.trace.json").calls()
    assert call.finish_reason == "cancelled"


def test_token_of_the_environment_is_asked_for_and_no_secret_is_shown(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(answer) as origin, proxy(tmp_path, origin, ROTOSCOPE_TOKEN=TOKEN) as process:
            base_url = await first_line(process)
            assert await ask(base_url) == 401
            assert await ask(base_url, x_rotoscope_token=TOKEN) == 200
            assert await ask(base_url.replace("/v1", f"/token/{TOKEN}/run/a-run-name/v1")) == 200
            assert await ask(base_url, x_rotoscope_token=TOKEN, session_id="a-session-name") == 200
            process.terminate()
            done = await ended(process)

        assert "each request must bring the token" in done.err
        assert not any(secret in done.err + done.out for secret in (TOKEN, "a-run-name", "a-session-name"))

    asyncio.run(run())

    assert list(calls_in(tmp_path).values()) == [1, 1, 1]
    assert not any(TOKEN.encode() in path.read_bytes() for path in tmp_path.iterdir())


def test_folder_that_cannot_be_written_is_told_before_anything_begins(tmp_path: Path) -> None:
    async def run() -> None:
        async with proxy(Path("/dev/null"), "http://127.0.0.1:9") as process:
            done = await ended(process)

        assert (done.status, done.out) == (2, "")
        assert done.err.startswith("error: /dev/null: traces cannot be written here")

    asyncio.run(run())


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost", "::1"])
def test_loopback_needs_no_token(host: str) -> None:
    assert chosen_door(host, allow_remote=False, token_file=None, environment={}) == Door()
    assert chosen_door(host, allow_remote=False, token_file=None, environment={"ROTOSCOPE_TOKEN": TOKEN}) == Door(TOKEN)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "example.org", ""])
def test_other_machines_are_let_in_only_by_option_and_with_a_token(host: str, tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="--allow-remote"):
        chosen_door(host, allow_remote=False, token_file=None, environment={"ROTOSCOPE_TOKEN": TOKEN})
    with pytest.raises(UnusableInput, match="needs a token"):
        chosen_door(host, allow_remote=True, token_file=None, environment={})
    (tmp_path / "token").write_text(TOKEN + "\n")
    assert chosen_door(host, allow_remote=True, token_file=tmp_path / "token", environment={}) == Door(TOKEN)


@pytest.mark.parametrize(
    "content", [b"", b"short", b"with spaces in it, that is", b"a/slash/stands/in/it", b"\xff" * 20]
)
def test_token_that_cannot_be_one_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(content)

    with pytest.raises(UnusableInput, match="token"):
        chosen_door("127.0.0.1", allow_remote=False, token_file=tmp_path / "token", environment={})


def test_token_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="the token cannot be read: No such file"):
        chosen_door("127.0.0.1", allow_remote=False, token_file=tmp_path / "none", environment={})
