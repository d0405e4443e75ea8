"""One real client in front of a scripted server, behind `rotoscope record` or recorded by itself: what each of them saw."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from clients.script import Script
from clients.scripted_server import Seen, scripted_server
from clients.stage import run_each, stage

from rotoscope.traces import Trace

AGENTS = Path(__file__).parent
ALONE = "alone:"
"""Stands before the name of a client that records itself."""
PATIENCE_S = 300.0
"""Only a client that hangs takes as long."""
RUN_AGENT = """\
ln "$RECORDINGS"/*.journal.jsonl "$RECORDINGS"/kept.jsonl
exec "$0" "$@" >"$AGENT_LOG" 2>&1
"""
"""Keep the journal, which goes when the trace is there; the agent's own output holds content and goes elsewhere."""
QUIETLY = 'exec "$0" "$@" >"$AGENT_LOG" 2>&1'
OPEN_TERMINAL = """exec "$0" "$@" 0<>"$TERMINAL\""""
"""The first terminal that the first process of a session opens is that of all in it."""


@dataclass(frozen=True)
class Recorded:
    """One run of one client."""

    client: str
    trace: Trace
    seen: Sequence[Seen]
    """Every request, as the server saw it."""
    folder: Path
    """Where the recording is, and nothing that the agent wrote."""
    said: bytes
    """All that `rotoscope record` wrote on its terminal."""
    canaries: Sequence[str] = field(repr=False)


def record_clients(environments: Path, names: Sequence[str], folder: Path) -> dict[str, Recorded | BaseException]:
    """Record one run of each client's agent, some of them at the same time; return the error where one failed."""

    async def record(name: str) -> Recorded:
        client = name.removeprefix(ALONE)
        return await _record(client, environments / client / "bin/python", folder / name, is_alone=client != name)

    return run_each(names, record)


async def _record(name: str, python: Path, folder: Path, *, is_alone: bool) -> Recorded:
    on = stage(folder)
    agent = AGENTS / f"{name.replace('-', '_')}_agent.py"
    async with scripted_server(Script(on.words), says_in_errors=on.words.error) as server:
        if is_alone:
            status, said = await _record_itself(
                python, agent, server=server.url, folder=on.recordings, environment=on.environment
            )
        else:
            status, said = await record_command(
                [str(python), str(agent)],
                upstream=f"{server.url}/v1",
                folder=on.recordings,
                environment=on.environment,
            )
    return Recorded(name, on.trace(status, said), server.seen, on.recordings, said, on.canaries)


async def _record_itself(
    python: Path, agent: Path, *, server: str, folder: Path, environment: Mapping[str, str]
) -> tuple[int, bytes]:
    """Let an agent record itself; return its exit status, and nothing, as it says nothing of that by itself."""
    packages = [str(AGENTS.parents[1] / "src"), *(path for path in sys.path if path.endswith("site-packages"))]
    variables = {"RECORDINGS": str(folder), "SERVER": server, "PACKAGES": os.pathsep.join(packages)}
    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", QUIETLY, str(python), str(AGENTS / "alone.py"), str(agent)),
        cwd=environment["HOME"],
        env={**environment, **variables},
        stdin=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return await asyncio.wait_for(process.wait(), PATIENCE_S), b""
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


async def record_command(
    command: Sequence[str],
    *,
    upstream: str | None,
    folder: Path,
    environment: Mapping[str, str],
    options: Sequence[str] = (),
    interrupted_by: asyncio.Event | None = None,
    terminal: str | None = None,
    patience_s: float = PATIENCE_S,
    rotoscope: Sequence[str] = (sys.executable, "-m", "rotoscope"),
) -> tuple[int, bytes]:
    """Run a command under `rotoscope record`; return its exit status and what `rotoscope record` said.

    Where there is no `upstream` the options say what is recorded.
    What the command says goes to the file that AGENT_LOG names, or to the terminal whose file is `terminal`, from where
    it also reads. It gets SIGINT when `interrupted_by` is set. All that it has begun is ended with it, and with this
    task, and when it takes too long.
    """
    arguments = [*rotoscope, "record", "-o", str(folder), *options]
    arguments += ["--upstream", upstream] if upstream else []
    arguments += ["--", "sh", "-c", RUN_AGENT, *command]
    variables = {**environment, "RECORDINGS": str(folder)}
    if terminal is not None:
        arguments = ["sh", "-c", OPEN_TERMINAL, *arguments]
        variables |= {"TERMINAL": terminal, "AGENT_LOG": "/dev/tty"}
    process = await asyncio.create_subprocess_exec(
        *arguments,
        cwd=environment["HOME"],
        env=variables,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    interrupting = asyncio.create_task(_interrupt(process, interrupted_by))
    try:
        said, _ = await asyncio.wait_for(process.communicate(), patience_s)
    finally:
        interrupting.cancel()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode is not None
    return process.returncode, said


async def _interrupt(process: asyncio.subprocess.Process, when: asyncio.Event | None) -> None:
    if when is not None:
        await when.wait()
        process.send_signal(signal.SIGINT)
