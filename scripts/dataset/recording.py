"""Record the runs of a pattern, offline, by `rotoscope record --each` in front of a server that counts.

Runs whose traces are there are not recorded again, so that a recording that was interrupted goes on where it was.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from clients.scripted_server import serving

from examples.offline import environment
from examples.scripted_model import answer
from rotoscope.traces.errors import RunFailed
from scripts.dataset.patterns import RUNS, Pattern
from scripts.example_traces.counting import CountingServer

ROOT = Path(__file__).parents[2]
CAMPAIGN = "dataset"
CAMPAIGNS, LOG = "campaigns", "agents.log"
"""Where the key of the campaign is while all is recorded, and what the agents print."""
ENDED = re.compile(r"\[(\d+ of \d+)\] line (\d+), exit status (-?\d+): (\d+) calls.*: (\S.*\.trace\.json)$")
RUN_AGENT = 'exec "$0" "$@" >>"$AGENTS_LOG" 2>&1'


@dataclass(frozen=True)
class Settings:
    """How all is recorded."""

    folder: Path
    """Where everything goes: traces, what agents print, and while all is recorded, keys and names."""
    jobs: int = 2
    """Agents that run at once."""
    speed: float = 1.0
    """Times faster than modelled at which the server answers."""

    def traces_of(self, pattern: Pattern) -> Path:
        """Return the folder of a pattern's traces."""
        return self.folder / "traces" / pattern.name

    def statuses_of(self, pattern: Pattern) -> Path:
        """Return the folder of the exit statuses of a pattern's agents, a file each; they are no part of a trace."""
        return self.folder / "statuses" / pattern.name

    def new(self, pattern: Pattern) -> Path:
        """Return the folder into which a pattern is recorded."""
        return self.folder / "new" / pattern.name


async def record(pattern: Pattern, settings: Settings) -> int:
    """Record the runs of a pattern that are not there yet; return how many of those ended with another status than 0."""
    kept, new = settings.traces_of(pattern), settings.new(pattern)
    kept.mkdir(parents=True, exist_ok=True)
    settings.statuses_of(pattern).mkdir(parents=True, exist_ok=True)
    shutil.rmtree(new, ignore_errors=True)  # what is left of runs that were cut short
    missing = [run for run in range(1, RUNS + 1) if not trace_of(kept, run).exists()]
    if not missing:
        return 0
    server = CountingServer(answer, speed=settings.speed)
    async with serving(server):
        failed = await _record(pattern, missing, f"{server.url}/v1", settings)
    lost = [run for run in missing if not trace_of(kept, run).exists()]
    if lost:
        raise RunFailed(f"{pattern.name}: no trace of runs {lost}, see {settings.folder / LOG}; make dataset goes on")
    return failed


def trace_of(folder: Path, run: int) -> Path:
    """Return the file of a run's trace."""
    return folder / f"run-{run:02}.trace.json"


def status_of(folder: Path, run: int) -> Path:
    """Return the file of the status that a run's agent ended with."""
    return folder / f"run-{run:02}"


@dataclass(frozen=True)
class Ended:
    """What `rotoscope record` tells of a run."""

    of_all: str
    run: int
    status: int
    calls: int
    trace: Path

    @classmethod
    def told_in(cls, line: str) -> Ended | None:
        """Return what a line tells, None where it tells of no run."""
        found = ENDED.search(line)
        if found is None:
            return None
        return cls(found[1], int(found[2]), int(found[3]), int(found[4]), Path(found[5]))

    def keep(self, traces: Path, statuses: Path) -> None:
        """Move the trace to where it stays and note the status; the trace of a run which a signal ended is left."""
        if self.status in (0, 1):
            status_of(statuses, self.run).write_text(f"{self.status}\n")
            self.trace.rename(trace_of(traces, self.run))


async def _record(pattern: Pattern, runs: Collection[int], url: str, settings: Settings) -> int:
    """Run `rotoscope record` and show how far it is; return how many runs failed."""
    options = ["--each", "-", "--jobs", str(settings.jobs), "--measure", "--campaign", CAMPAIGN]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rotoscope", "record", *options, "-o", str(settings.new(pattern)), "--"),
        *("sh", "-c", RUN_AGENT, sys.executable, *pattern.arguments),
        cwd=ROOT,
        env=environment(url, os.environ)
        | {"AGENTS_LOG": str(settings.folder / LOG), "ROTOSCOPE_CAMPAIGNS": str(settings.folder / CAMPAIGNS)},
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    lines = [str(run) if run in runs else "" for run in range(1, RUNS + 1)]  # empty ones are passed over, but counted
    process.stdin.write("\n".join(lines).encode())
    process.stdin.close()
    try:
        return await _watched(pattern, process, settings)
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
            await process.communicate()


async def _watched(pattern: Pattern, process: asyncio.subprocess.Process, settings: Settings) -> int:
    """Keep each trace and say how many runs are done as they end; what is said besides is passed on."""
    failed = 0
    assert process.stderr is not None
    async for line in process.stderr:
        text = line.decode().strip()
        if ended := Ended.told_in(text):
            ended.keep(settings.traces_of(pattern), settings.statuses_of(pattern))
            failed += ended.status != 0
            print(f"{pattern.name}: {ended.of_all} recorded, {ended.calls} calls", flush=True)
        else:
            print(f"{pattern.name}: {text.removeprefix('rotoscope: ')}", flush=True)
    await process.wait()
    return failed
