"""A server that is started for a measurement, and of which nothing is left afterwards.

1. It gets a process group of its own: a Ctrl-C in the terminal does not reach it, and a signal reaches its children too.
2. What it says goes to no file, as it may echo prompts; the last lines are kept in memory, and shown where it fails.
3. However the block ends, the group gets SIGTERM, some seconds, and SIGKILL.
4. Where this process itself is killed, a shell that waits for the end of a pipe does the same.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

from rotoscope.replayer.clock import LoopClock
from rotoscope.replayer.connection import client_session
from rotoscope.replayer.interruption import signals_held
from rotoscope.replayer.notes import Say
from rotoscope.replayer.server import api_url
from rotoscope.replayer.server_ready import ANSWER_S, is_ready, listens, until_ready
from rotoscope.traces.errors import RunFailed

LAST_LINES = 20
_LONGEST_LINE = 400
_POLL_S = 0.02
_KEEPER = 'read -r nothing; kill -s TERM -- "-$1"; sleep "$2"; kill -s KILL -- "-$1"'
_ORPHANS_S = 2.0
"""For children of a server that has ended, once none holds its pipe: where nobody reaps them, they are never seen to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a server may take, in seconds."""

    ready_s: float = 600.0
    """To be ready: to load a model takes minutes."""
    stop_s: float = 20.0
    """To end after SIGTERM."""


@contextmanager
def running_server(
    words: Sequence[str], url: str, *, patience: Patience, api_key: str | None = None, say: Say
) -> Iterator[None]:
    """Start a server, wait until it is ready at the URL, and stop it with the block.

    Raises RunFailed where it does not start, is not ready in time, or somebody else answers there already.
    """
    if asyncio.run(listens(api_url(url))):
        raise RunFailed(f"somebody listens at {url} already and would be measured instead: stop it, or use {{port}}")
    server: _Server | None = None
    try:
        with signals_held():
            server = _Server(_started(words), stop_s=patience.stop_s)
        took_s = asyncio.run(_until_ready(server, url, api_key=api_key, timeout_s=patience.ready_s))
        say(f"the server is ready after {took_s:.1f} s")
        yield
        if not server.is_alive():
            say("the server ended while it was measured")
            server.tell(say)
    except RunFailed:
        if server is not None:
            server.tell(say)
        raise
    finally:
        if server is not None:
            server.stop()


def free_port() -> int:
    """Return a port of loopback on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _started(words: Sequence[str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise RunFailed(f"the server {words[0]!r} cannot be started: {error.strerror}") from error


def _keeper(group: int, stop_s: float) -> subprocess.Popen[bytes]:
    """Start what ends a group of processes once the end of its pipe that is ours is closed, by whatever ended us."""
    return subprocess.Popen(
        ["sh", "-c", _KEEPER, "sh", str(group), f"{stop_s:f}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


async def _until_ready(server: _Server, url: str, *, api_key: str | None, timeout_s: float) -> float:
    async with client_session(api_key=api_key, timeout_s=ANSWER_S, reuses_connections=False) as http:
        return await until_ready(
            lambda: is_ready(http, api_url(url)), server.is_alive, clock=LoopClock(), timeout_s=timeout_s
        )


class _Server:
    """A process group and the last that it said."""

    def __init__(self, process: subprocess.Popen[bytes], *, stop_s: float) -> None:
        self._process = process
        self._stop_s = stop_s
        try:
            self._keeper = _keeper(process.pid, stop_s)
        except OSError as error:
            self._signal(signal.SIGKILL)
            process.communicate()
            raise RunFailed(f"no shell can be started beside the server: {error.strerror}") from error
        self._said: deque[str] = deque(maxlen=LAST_LINES)
        assert process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(process.stdout,), daemon=True)
        self._reader.start()

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def tell(self, say: Say) -> None:
        """Say how it ended, if it has, and the last lines that it wrote."""
        if not self.is_alive():
            self._reader.join(timeout=_ORPHANS_S)
            say(f"the server ended with exit code {self._process.returncode}")
        for line in [*self._said]:
            say(f"server: {line}")

    def stop(self) -> None:
        """End the group, by SIGKILL where SIGTERM is not enough; also when interrupted meanwhile."""
        try:
            self._signal(signal.SIGTERM)
            self._wait(self._stop_s)
        finally:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._keeper.kill()
            self._keeper.communicate()
            self._reader.join(timeout=_ORPHANS_S)  # a child that left the group may still hold the pipe
            if not self._reader.is_alive() and self._process.stdout is not None:
                self._process.stdout.close()

    def _read(self, out: IO[bytes]) -> None:
        """Keep the last lines until the end; the server never waits for us to read."""
        for line in iter(lambda: out.readline(1 << 16), b""):
            text = line.decode(errors="replace").rstrip()[:_LONGEST_LINE]
            self._said.append("".join(one if one.isprintable() else " " for one in text))

    def _wait(self, timeout_s: float) -> None:
        """Wait until the process has ended and then until its group has: what still holds our pipe has the whole time."""
        end_s = time.monotonic() + timeout_s
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return
        orphans_end_s = min(end_s, time.monotonic() + _ORPHANS_S)
        while self._signal(0) and time.monotonic() < (end_s if self._reader.is_alive() else orphans_end_s):
            time.sleep(_POLL_S)

    def _signal(self, number: int) -> bool:
        """Send a signal to the group; return whether there is one."""
        try:
            os.killpg(self._process.pid, number)
        except (ProcessLookupError, PermissionError):  # macOS says the latter of one that nobody has reaped
            return False
        return True
