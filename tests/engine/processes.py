"""Run an engine's processes for the length of a `with`, on free ports of loopback."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0
_POLL_S = 0.1


class EngineFailed(AssertionError):
    """An engine ended, or did not answer in time; the end of its log is in the message."""


@contextmanager
def running(
    commands: Sequence[Sequence[str]],
    url: str,
    log: Path,
    *,
    model: str = "any",
    variables: Mapping[str, str] | None = None,
    patience_s: float = PATIENCE_S,
) -> Iterator[None]:
    """Start the commands, wait until the server at `url` completes a prompt of ids, and end them, last one first."""
    with ExitStack() as started:
        output = started.enter_context(log.open("wb"))
        processes = [started.enter_context(_process(command, output.fileno(), variables or {})) for command in commands]
        _wait_until_it_answers(url, model, processes, log, patience_s)
        yield


@contextmanager
def _process(command: Sequence[str], output: int, variables: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    environment = os.environ | variables
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=PATIENCE_S)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # workers of an engine that was ended while it started stay


def free_port(ports: range = range(1)) -> int:
    """Return a port that nobody listens on at the moment, of those given if any but 0 are."""
    for port in random.sample(ports, len(ports)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
    raise EngineFailed(f"no port from {ports.start} to {ports.stop - 1} is free")


def post(url: str, body: object, headers: Mapping[str, str] | None = None) -> Any:
    """Send JSON and return the JSON of the answer."""
    sent = {"content-type": "application/json", **(headers or {})}
    request = urllib.request.Request(url, json.dumps(body).encode(), sent)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        return json.load(response)


def get(url: str) -> str:
    """Return the text of an answer."""
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
        return str(response.read().decode())


def _wait_until_it_answers(
    url: str, model: str, processes: Sequence[subprocess.Popen[bytes]], log: Path, patience_s: float
) -> None:
    until = time.monotonic() + patience_s
    while time.monotonic() < until and all(process.poll() is None for process in processes):
        try:
            post(f"{url}/v1/completions", {"model": model, "prompt": [300, 301], "max_tokens": 1})
            return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(_POLL_S)
    said = log.read_text(errors="replace")
    errors = "\n".join(line for line in said.splitlines() if "Error" in line)
    raise EngineFailed(f"the engine did not answer:\n{errors[:2000]}\n\nThe end of its log:\n{said[-1000:]}")
