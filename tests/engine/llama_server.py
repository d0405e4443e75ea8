"""Run llama.cpp's server from its package-index wheel, on a free port of loopback, for the length of a test."""

from __future__ import annotations

import json
import socket
import subprocess
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = "llama-server-vulkan"
PATIENCE_S = 60.0

ONE_SLOT = ("-np", "1", "-sps", "0.95", "--cache-ram", "64")
"""One prefix at a time plus a host cache: every stored prompt is found again, token by token."""
FOUR_SLOTS = ("-np", "4")
"""The server's documented default: a slot is cut back when a prompt leaves its prefix."""


def program() -> Path | None:
    """Return the engine's program in this environment, None where it is not installed."""
    path = Path(sysconfig.get_path("scripts")) / PROGRAM
    return path if path.exists() else None


@contextmanager
def llama_server(model: Path, options: Sequence[str], log: Path, *, context: int = 32768) -> Iterator[str]:
    """Start the server, wait until it answers a request, yield its URL, and end it."""
    path = program()
    assert path is not None, f"{PROGRAM} is not installed"
    port = _free_port()
    command = [str(path), "-m", str(model), "--host", "127.0.0.1", "--port", str(port)]
    command += ["-t", "1", "-c", str(context), "--metrics", "--no-ui", *options]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            _wait_until_it_answers(url, process, log)
            yield url
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE_S)


def post(url: str, body: object) -> Any:
    """Send JSON and return the JSON of the answer."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
        return json.load(response)


def engine_version() -> str | None:
    """Return what the installed engine says it is, None where there is none."""
    path = program()
    if path is None:
        return None
    answer = subprocess.run([str(path), "--version"], capture_output=True, text=True, check=False)
    lines = (answer.stdout + answer.stderr).splitlines()
    return f"llama.cpp {next((line for line in lines if 'version' in line), 'of unknown version')}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_it_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            post(f"{url}/v1/completions", {"prompt": [300, 301], "max_tokens": 1})
            return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise AssertionError(f"the engine did not answer:\n{log.read_text(errors='replace')[-2000:]}")
