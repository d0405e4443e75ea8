"""`rotoscope` as a process of its own, in an environment that leads to no server.

Most of what such a process costs is loading, so it is forked from one that has loaded the commands: it has its own
identifier, streams, environment, signals and exit status like any other. `test_cli.py` starts the command line from
nothing, and so does an environment that changes how Python itself starts.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import DupFd
from typing import Any, Protocol

from rotoscope.proxy.addresses import BARE_VARIABLES, BASE_URL_VARIABLES

LOADED_ONCE = [
    "rotoscope.cli",
    *(f"rotoscope.proxy.{name}" for name in ("record", "service", "suite")),
    *(f"rotoscope.replayer.{name}" for name in ("run", "simulator.server")),
]


@dataclass(frozen=True)
class Ended:
    """What is left of a process."""

    status: int
    out: str
    err: str


class Running(Protocol):
    """What a test does with a process; `asyncio.subprocess.Process` is one."""

    @property
    def stdout(self) -> asyncio.StreamReader | None:
        """What it writes to standard output."""

    @property
    def stderr(self) -> asyncio.StreamReader | None:
        """What it writes to standard error."""

    @property
    def returncode(self) -> int | None:
        """The exit status, the negative number of a signal, or None while it runs."""

    def send_signal(self, signal: int) -> None:
        """Send it a signal."""

    def terminate(self) -> None:
        """Ask it to end."""

    def kill(self) -> None:
        """End it."""

    async def wait(self) -> int:
        """Wait for its end."""

    async def communicate(self) -> tuple[bytes, bytes]:
        """Read all that is left to read, and wait for its end."""


def clean_environment(**changes: str) -> dict[str, str]:
    """Return this environment without what leads to a server, and without what takes long to load."""
    servers = {*BASE_URL_VARIABLES, *BARE_VARIABLES}
    kept = {k: v for k, v in os.environ.items() if k not in servers and not k.lower().endswith("_proxy")}
    return kept | {"ROTOSCOPE_TOKENIZER": "none"} | changes


@contextlib.asynccontextmanager
async def rotoscope(*arguments: str, **environment: str) -> AsyncIterator[Running]:
    """Run the command line; its process is ended with the block."""
    start = _started if any(name.startswith("PYTHON") for name in environment) else _forked
    async with contextlib.AsyncExitStack() as stack:
        process = await start(stack, arguments, clean_environment(**environment))
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def _started(
    _: contextlib.AsyncExitStack, arguments: tuple[str, ...], environment: dict[str, str]
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rotoscope", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )


class _Forked:
    """A process that was forked from the one that has loaded the commands."""

    def __init__(self, process: BaseProcess, stdout: asyncio.StreamReader, stderr: asyncio.StreamReader) -> None:
        self.stdout = stdout
        self.stderr = stderr
        self._process = process

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, signal: int) -> None:
        assert self._process.pid is not None
        if self.returncode is None:
            os.kill(self._process.pid, signal)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self._process.sentinel, over.set)
        try:
            await over.wait()
        finally:
            loop.remove_reader(self._process.sentinel)
        assert self.returncode is not None
        return self.returncode

    async def communicate(self) -> tuple[bytes, bytes]:
        out, err = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return out, err


async def _forked(stack: contextlib.AsyncExitStack, arguments: tuple[str, ...], environment: dict[str, str]) -> _Forked:
    loader = multiprocessing.get_context("forkserver")
    loader.set_forkserver_preload(LOADED_ONCE)
    (out, out_end), (err, err_end) = os.pipe(), os.pipe()
    readers = [await _reader(stack, end) for end in (out, err)]
    process = loader.Process(target=_main, args=(_Streams(out_end, err_end), arguments, environment))
    process.start()
    stack.callback(process.close)
    for end in (out_end, err_end):
        os.close(end)
    return _Forked(process, *readers)


async def _reader(stack: contextlib.AsyncExitStack, descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", buffering=0)
    )
    stack.callback(transport.close)
    return reader


class _Streams:
    """Descriptors that become those of the process when they get there."""

    def __init__(self, *descriptors: int) -> None:
        self._descriptors = descriptors

    def __getstate__(self) -> list[Any]:
        return [DupFd(descriptor) for descriptor in self._descriptors]

    def __setstate__(self, passed: list[Any]) -> None:
        self._descriptors = tuple(each.detach() for each in passed)

    def take(self) -> None:
        """Write to them from now on."""
        for number, descriptor in enumerate(self._descriptors, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115


def _main(streams: _Streams, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
    from rotoscope.cli import main

    streams.take()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests in the background ignores it
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and with nohup this, too
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["rotoscope", *arguments]
    main()


async def ended(process: Running) -> Ended:
    """Wait for the end of a process."""
    out, err = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


async def first_line(process: Running) -> str:
    """Return the first line that a process writes to standard output."""
    assert process.stdout is not None
    return (await process.stdout.readline()).decode().rstrip("\n")


async def line_with(process: Running, words: str) -> str:
    """Read standard error up to a line that holds some words."""
    assert process.stderr is not None
    while line := (await process.stderr.readline()).decode():
        if words in line:
            return line
    raise AssertionError(f"{words!r} was not said")
