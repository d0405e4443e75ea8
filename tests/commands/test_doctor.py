from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from doctor_server import Patient
from raw_server import serving

from rotoscope.cli import main


@contextlib.contextmanager
def in_a_thread(patient: Patient) -> Iterator[str]:
    """Serve from an event loop in another thread: the command runs one of its own."""
    started: queue.SimpleQueue[tuple[str, Callable[[], object]]] = queue.SimpleQueue()

    async def serve() -> None:
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        async with serving(patient.handlers({"/metrics": patient.metrics})) as url:
            started.put((url, lambda: loop.call_soon_threadsafe(ended.set)))
            await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    url, end = started.get()
    try:
        yield url
    finally:
        end()
        thread.join()


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr("sys.argv", ["rotoscope", "doctor", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    return left.value.code


def test_a_good_server_is_a_table_and_a_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with in_a_thread(Patient()) as url:
        code = run(monkeypatch, url)

    printed = capsys.readouterr()
    assert code == 0
    assert "what to do" in printed.out.splitlines()[0]
    assert printed.out.splitlines()[-1] == f"rotoscope replay TRACES --url {url}/v1 --profile vllm --vocab 1000:30000"
    assert printed.err == ""
    assert "\x1b" not in printed.out


def test_what_makes_results_wrong_is_3(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with in_a_thread(Patient(told_prompt=lambda tokens: 2 * tokens)) as url:
        code = run(monkeypatch, url, "--timeout", "60")

    assert code == 3
    assert "FAIL" in capsys.readouterr().out


def test_json_says_the_same(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with in_a_thread(Patient()) as url:
        run(monkeypatch, url, "--json")

    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert told["valid"]
    assert told["command"].startswith("rotoscope replay TRACES")
    assert {check["name"]: check["verdict"] for check in told["checks"]}["block size"] == "ok"


def test_nobody_there_is_1_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(monkeypatch, "http://127.0.0.1:1")

    assert code == 1
    assert capsys.readouterr().err == (
        "error: nothing listens at http://127.0.0.1:1/v1: start the server or correct the URL\n"
    )


def test_a_key_that_is_not_there_is_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(monkeypatch, "http://127.0.0.1:1", "--api-key-env", "UNSET_KEY")

    assert code == 2
    assert "'UNSET_KEY' is not set" in capsys.readouterr().err
