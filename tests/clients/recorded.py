"""One real client behind `rotoscope record` in front of a scripted server: what each of the three saw."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clients.script import Script, Words
from clients.scripted_server import Seen, scripted_server

from rotoscope.traces import Trace, load

AGENTS = Path(__file__).parent
AT_ONCE = 2
PATIENCE_S = 300.0
"""Only a client that hangs takes as long."""
RUN_AGENT = """\
ln "$RECORDINGS"/*.journal.jsonl "$RECORDINGS"/kept.jsonl
exec "$0" "$1" >"$AGENT_LOG" 2>&1
"""
"""Keep the journal, which goes when the trace is there; the agent's own output holds content and goes elsewhere."""
AGENT_CANARIES = 7
SERVER_CANARIES = 4


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

    async def record_all() -> list[Recorded | BaseException]:
        slots = asyncio.Semaphore(AT_ONCE)

        async def record(name: str) -> Recorded:
            async with slots:
                return await _record(name, environments / name / "bin/python", folder / name)

        return await asyncio.gather(*map(record, names), return_exceptions=True)

    return dict(zip(names, asyncio.run(record_all()), strict=True))


async def _record(name: str, python: Path, folder: Path) -> Recorded:
    canaries = [_canary() for _ in range(AGENT_CANARIES + SERVER_CANARIES)]
    of_agent, of_server = canaries[:AGENT_CANARIES], canaries[AGENT_CANARIES:]
    words = Words(*of_server)
    home = folder / "home"
    home.mkdir(parents=True)
    log = home / "agent.log"
    agent = AGENTS / f"{name.replace('-', '_')}_agent.py"
    async with scripted_server(Script(words), says_in_errors=words.error) as server:
        command = [sys.executable, "-m", "rotoscope", "record", "--upstream", f"{server.url}/v1"]
        command += ["-o", str(folder / "recordings")]
        command += ["--", "sh", "-c", RUN_AGENT, str(python), str(agent)]
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=home,
            env=_environment(home)
            | {"CLIENT_CANARIES": " ".join(of_agent), "AGENT_LOG": str(log), "RECORDINGS": str(folder / "recordings")},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            said, _ = await asyncio.wait_for(process.communicate(), PATIENCE_S)
        except TimeoutError:
            process.terminate()
            said, _ = await process.communicate()
    agent_said = log.read_text()[-4000:] if log.exists() else "the agent was not started"
    assert process.returncode == 0, f"{said.decode()}\n{agent_said}"
    (path,) = (folder / "recordings").glob("*.trace.json")
    return Recorded(name, load(path), server.seen, folder / "recordings", said, canaries)


def _environment(home: Path) -> dict[str, str]:
    """Return an environment without anything of the person who runs the tests."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "SYSTEMROOT") if name in os.environ}
    return kept | {"HOME": str(home), "TMPDIR": str(home), "NO_PROXY": "127.0.0.1"}


def _canary() -> str:
    """Return a word that occurs nowhere else, and that tokenizers and file formats leave in one piece."""
    return "kanari" + secrets.token_hex(6)
