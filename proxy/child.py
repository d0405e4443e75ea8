"""The command that is recorded: run as it would run alone, with its own streams, signals and exit status."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence

from rotoscope.traces.errors import UnusableInput

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
OF_THE_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
"""Signals that a terminal sends to every process in its foreground, the command included."""


class Child:
    """A command; while it runs, the signals we get are its own."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._early: list[signal.Signals] = []

    async def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        name: str | None = None,
        stdin: int | None = None,
        core_limit: tuple[int, int] | None = None,
    ) -> None:
        """Start the command; `stdin` and `core_limit`, of the size of its core dumps, are ours where not given.

        Raises UnusableInput when it cannot be started, by `name`, which is its first word where none is given.
        """
        try:
            with _core_limited(core_limit):
                self._process = await asyncio.create_subprocess_exec(*command, env=environment, stdin=stdin)
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise UnusableInput(f"the command {name or command[0]!r} cannot be started: {reason}") from error
        for signum in self._early:
            self._send(signum)

    async def wait(self) -> int:
        """Wait for the command's end; return its exit status, 128 + n when signal n ended it."""
        assert self._process is not None
        status = await self._process.wait()
        return status if status >= 0 else 128 - status

    @contextlib.contextmanager
    def signals_forwarded(self) -> Iterator[None]:
        """Take the signals that ask us to end, and hand them on to the command; none of them ends us."""
        with signals_taken(self.forward):
            yield

    def forward(self, signum: signal.Signals) -> None:
        """Hand a signal on, later when the command is still to start, unless its terminal has sent it."""
        if self._process is None:
            self._early.append(signum)
        elif not (signum in OF_THE_TERMINAL and in_foreground()):
            self._send(signum)

    def _send(self, signum: signal.Signals) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signum)


@contextlib.contextmanager
def signals_taken(take: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Take the signals that ask us to end, but those that are ignored: they are to be so for what is started, too."""
    loop = asyncio.get_running_loop()
    taken = [signum for signum in FORWARDED if signal.getsignal(signum) is not signal.SIG_IGN]
    for signum in taken:
        loop.add_signal_handler(signum, take, signum)
    try:
        yield
    finally:
        for signum in taken:
            loop.remove_signal_handler(signum)


@contextlib.contextmanager
def _core_limited(limit: tuple[int, int] | None) -> Iterator[None]:
    """Let processes that start in the block have a limit of core dumps that we gave up for ourselves."""
    if limit is None:
        yield
        return
    ours = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, limit)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, ours)


def in_foreground() -> bool:
    """Tell whether this process group is the one that its terminal sends signals to."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
