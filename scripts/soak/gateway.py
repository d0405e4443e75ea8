"""The gateway of a soak: `rotoscope proxy` in a process of its own, what it says and what it answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

_REFUSED = re.compile(r"(\d+) requests? that the server refused")
_TROUBLE = ("Traceback", "outside any call", "recorder failed", "cannot be written", "FAILED", "could not be")


QUIET_S = 2.5
"""Connections that are given up when idle are not all given up at once."""


@dataclass
class Gateway:
    """A process that listens."""

    process: asyncio.subprocess.Process
    origin: str
    folder: Path
    log: Path
    probe: Path
    names: Path
    """Tells which run each trace is of."""
    session: aiohttp.ClientSession
    waits_s: list[float] = field(default_factory=list)
    """How long it took to answer how it is."""
    ends_s: list[float] = field(default_factory=list)
    """How long the end of a run took, its trace included."""

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.origin.removeprefix("http://").partition(":")
        return host, int(port)

    async def health(self) -> dict[str, Any]:
        """Return what it tells of itself."""
        started_s = time.monotonic()
        async with self.session.get(f"{self.origin}/_rotoscope/health") as answer:
            told: dict[str, Any] = await answer.json()
        self.waits_s.append(time.monotonic() - started_s)
        return told

    async def end(self, run: str) -> None:
        """End a run."""
        started_s = time.monotonic()
        async with self.session.post(f"{self.origin}/_rotoscope/runs/{run}/end") as answer:
            await answer.read()
        self.ends_s.append(time.monotonic() - started_s)

    async def ask_again_and_again(self) -> None:
        """Ask how it is until cancelled."""
        while True:
            await self.health()
            await asyncio.sleep(1)

    async def settle(self, *, longest_s: float) -> None:
        """Wait until no request and no run is open and idle connections are given up."""
        async with asyncio.timeout(longest_s):
            while (told := await self.health())["runs"]["open"] or told["in_flight"]:  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0.2)
        before = -1
        for _ in range(20):
            now = len(os.listdir(f"/proc/{self.process.pid}/fd"))
            if now == before:
                return
            before = now
            await asyncio.sleep(QUIET_S)

    async def calls(self) -> int:
        """Return how many calls it has heard, once it has nothing to do for a moment."""
        async with asyncio.timeout(60):
            before = None
            while (told := await self.health()) != before or told["in_flight"]:
                before = told
                await asyncio.sleep(0.1)
        return int(told["calls"])

    async def stop(self) -> int:
        """Let it end; return its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), 120)

    def traces_of(self) -> dict[str, list[str]]:
        """Return the files of traces by the names of their runs, as its private file of names says."""
        found: dict[str, list[str]] = {}
        for line in self.names.read_text().splitlines():
            told = json.loads(line)
            found.setdefault(str(told["run"]).rpartition("-session-")[2], []).append(told["trace"])
        return found

    def refused(self) -> int:
        """Return how many refused requests it left out of traces."""
        return sum(map(int, _REFUSED.findall(self.log.read_text())))

    def trouble(self) -> list[str]:
        """Return lines that it should not have said."""
        return [line for line in self.log.read_text().splitlines() if any(word in line for word in _TROUBLE)]


@contextlib.asynccontextmanager
async def gateway(upstream: str, work: Path, *, idle_s: float, tokenizer: str) -> AsyncIterator[Gateway]:
    """Run the gateway; its traces go to a folder below `work`."""
    folder, log, probe = work / "recordings", work / "gateway.log", work / "probe.jsonl"
    names = work / "names.jsonl"
    options = (
        "--upstream",
        upstream,
        "--port",
        "0",
        "-o",
        folder,
        "--idle",
        str(idle_s),
        "--tokenizer",
        tokenizer,
        "--names",
        names,
    )
    with log.open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "scripts.soak.probe", probe, "proxy", *options),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env=clean_environment(),
        )
    try:
        assert process.stdout is not None
        base_url = (await process.stdout.readline()).decode().strip()
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(force_close=True), timeout=aiohttp.ClientTimeout(total=120)
        ) as session:
            yield Gateway(process, base_url.removesuffix("/v1"), folder, log, probe, names, session)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def clean_environment(**changes: str) -> dict[str, str]:
    """Return this environment without what leads to a server, and with what is imported here."""
    kept = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy") and not k.startswith("OPENAI_")}
    return kept | {"PYTHONPATH": os.pathsep.join(filter(None, (os.getcwd(), os.environ.get("PYTHONPATH"))))} | changes


async def rotoscope(*arguments: str | Path) -> tuple[int, str]:
    """Run a command; return its exit status and what it said."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rotoscope", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=clean_environment(),
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode(errors="replace")


def canary_file(work: Path, canaries: Iterable[str]) -> Path:
    """Write a file of canaries."""
    file = work / "canaries.txt"
    file.write_text("".join(f"{canary}\n" for canary in canaries))
    return file


async def audited(paths: Sequence[Path], canaries: Iterable[str], work: Path) -> list[str]:
    """Return what `rotoscope audit` finds."""
    status, said = await rotoscope("audit", *paths, "--canary", canary_file(work, canaries))
    return [] if status == 0 else [f"audit: {line}" for line in said.splitlines()[-5:]]
