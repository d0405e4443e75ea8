"""Run llama.cpp's server from its package-index wheel, on a free port of loopback, for the length of a test."""

from __future__ import annotations

import subprocess
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from engine.processes import free_port, running

PROGRAM = "llama-server-vulkan"

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
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [str(path), "-m", str(model), "--host", "127.0.0.1", "--port", str(port)]
    command += ["-t", "1", "-c", str(context), "--metrics", "--no-ui", *options]
    with running([command], url, log):
        yield url


def engine_version() -> str | None:
    """Return what the installed engine says it is, None where there is none."""
    path = program()
    if path is None:
        return None
    answer = subprocess.run([str(path), "--version"], capture_output=True, text=True, check=False)
    lines = (answer.stdout + answer.stderr).splitlines()
    return f"llama.cpp {next((line for line in lines if 'version' in line), 'of unknown version')}"
