"""A shell command in a folder: bounded in time and output, and without the agent's environment, so without its keys.

That is no sandbox: a command can read whatever its user can read. Where the model is not trusted, run the agent in a
container.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

FILE_LIMIT_BLOCKS = 4096
"""Blocks of 512 bytes that a command may write into one file, its output included."""


def run_shell(command: str, folder: Path, *, timeout_s: float) -> tuple[str, str]:
    """Run a command line; return how it ended (`exit status 0`, `stopped after 5 seconds`) and what it printed."""
    environment = {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]),
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",  # a cache would hide an edit of the same size in the same second
    }
    # Into a file, not a pipe: a process left in the background keeps a pipe open, and memory has no limit.
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"ulimit -f {FILE_LIMIT_BLOCKS}\n{command}"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            ending = f"exit status {process.wait(timeout_s)}"
        except subprocess.TimeoutExpired:
            ending = f"stopped after {timeout_s:g} seconds"
        finally:
            with contextlib.suppress(ProcessLookupError):  # the command and what it left in the background
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.seek(0)
        return ending, output.read().decode("utf-8", errors="replace")
