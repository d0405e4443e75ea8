"""Where an agent is recorded: a home without anything of who runs the tests, and words that no recording may hold."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from clients.script import Words

from rotoscope.traces import Trace, load

T = TypeVar("T")

AT_ONCE = 2
AGENT_CANARIES = 7
SERVER_CANARIES = 4


@dataclass(frozen=True)
class Stage:
    """What one run of an agent begins with, and where it leaves what it says."""

    environment: dict[str, str]
    recordings: Path
    canaries: Sequence[str] = field(repr=False)
    log: Path
    """The agent's own output, which holds content."""

    @property
    def words(self) -> Words:
        """The canaries of the server."""
        return Words(*self.canaries[AGENT_CANARIES:])

    def trace(self, status: int, said: bytes) -> Trace:
        """Return what was recorded by a command that ended with this status and said this; it did not fail."""
        of_agent = self.log.read_text()[-4000:] if self.log.exists() else "the agent was not started"
        assert status == 0, f"{said.decode()}\n{of_agent}"
        (path,) = self.recordings.glob("*.trace.json")
        return load(path)


def stage(folder: Path, canaries: Sequence[str] = ()) -> Stage:
    """Prepare a run below a folder; runs that are compared have the same canaries, others new ones."""
    canaries = canaries or new_canaries()
    home = folder / "home"
    home.mkdir(parents=True)
    log = home / "agent.log"
    told = {"CLIENT_CANARIES": " ".join(canaries[:AGENT_CANARIES]), "AGENT_LOG": str(log)}
    return Stage(environment(home) | told, folder / "recordings", canaries, log)


async def _each(names: Sequence[str], run: Callable[[str], Awaitable[T]]) -> list[T | BaseException]:
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> T:
        async with slots:
            return await run(name)

    return await asyncio.gather(*map(one, names), return_exceptions=True)


def run_each(names: Sequence[str], run: Callable[[str], Awaitable[T]]) -> dict[str, T | BaseException]:
    """Run what has these names, some at the same time; return the error where one failed."""
    return dict(zip(names, asyncio.run(_each(names, run)), strict=True))


def result(of: T | BaseException) -> T:
    """Return what came of a run. Raises the error where it failed."""
    if isinstance(of, BaseException):
        raise of
    return of


def environment(home: Path) -> dict[str, str]:
    """Return an environment without anything of the person who runs the tests."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "SYSTEMROOT") if name in os.environ}
    return kept | {"HOME": str(home), "TMPDIR": str(home), "NO_PROXY": "127.0.0.1"}


def new_canaries() -> list[str]:
    """Return canaries for a run."""
    return [canary() for _ in range(AGENT_CANARIES + SERVER_CANARIES)]


def canary() -> str:
    """Return a word that occurs nowhere else, and that tokenizers and file formats leave in one piece."""
    return "kanari" + secrets.token_hex(6)
