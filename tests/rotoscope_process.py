"""`rotoscope` as a process of its own, in an environment that leads to no server."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

from rotoscope.proxy.addresses import BARE_VARIABLES, BASE_URL_VARIABLES


@dataclass(frozen=True)
class Ended:
    """What is left of a process."""

    status: int
    out: str
    err: str


def clean_environment(**changes: str) -> dict[str, str]:
    """Return this environment without what leads to a server, and without what takes long to load."""
    servers = {*BASE_URL_VARIABLES, *BARE_VARIABLES}
    kept = {k: v for k, v in os.environ.items() if k not in servers and not k.lower().endswith("_proxy")}
    return kept | {"ROTOSCOPE_TOKENIZER": "none"} | changes


@contextlib.asynccontextmanager
async def rotoscope(*arguments: str, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the command line; its process is ended with the block."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rotoscope", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=clean_environment(**environment),
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def ended(process: asyncio.subprocess.Process) -> Ended:
    """Wait for the end of a process."""
    out, err = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


async def first_line(process: asyncio.subprocess.Process) -> str:
    """Return the first line that a process writes to standard output."""
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().rstrip("\n")


async def line_with(process: asyncio.subprocess.Process, words: str) -> str:
    """Read standard error up to a line that holds some words."""
    assert process.stderr is not None
    while line := (await process.stderr.readline()).decode():
        if words in line:
            return line
    raise AssertionError(f"{words!r} was not said")
