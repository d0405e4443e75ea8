"""Processes that end with the block that runs them, and so does all that they started, also when a test fails."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Sequence
from typing import Any

from event_loops import GUARD_S


@contextlib.asynccontextmanager
async def running(*command: str, **given: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a command in a session of its own as long as the block runs."""
    process = await asyncio.create_subprocess_exec(*command, start_new_session=True, **given)
    try:
        yield process
    finally:
        end_all(process.pid)
        await process.communicate()


def ran(command: Sequence[str], **given: Any) -> subprocess.CompletedProcess[str]:
    """Run a command in a session of its own to its end; fail with what it said if it hangs."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, start_new_session=True, stdout=pipe, stderr=pipe, text=True, **given) as process:
        try:
            out, err = process.communicate(timeout=GUARD_S)
        except subprocess.TimeoutExpired:
            end_all(process.pid)
            out, err = process.communicate()
            raise AssertionError(f"it hangs: {out}\n{err}") from None
        finally:
            end_all(process.pid)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def end_all(leader: int) -> None:
    """End what is left of a group of processes, whose first has this number."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
