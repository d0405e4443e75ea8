"""One play of one coding agent behind `rotoscope record`, in front of a scripted server."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from clients.recorded import Recorded, record_command
from clients.scripted_server import Seen, serving
from clients.stage import environment
from coding_agents.agent_server import AgentServer
from coding_agents.agents import Agent, Canaries, Play, ToolIds, Truth, make_project
from coding_agents.anonymous import without_names
from coding_agents.terminal import terminal
from coding_agents.vendor import standing_in

from rotoscope.traces import load

FROM_OUTSIDE = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
"""Set by scripts/offline.sh where it cannot take the network away."""


@dataclass(frozen=True)
class Played(Recorded):
    """What each side saw of a play."""

    agent: Agent
    play: Play
    names: Mapping[str, Any]
    """What `--names` wrote: models, tools, and who worked in which branch."""
    output: str
    """What the agent wrote on its terminal."""
    status: int
    """With which `rotoscope record` ended."""

    @property
    def senders(self) -> Truth:
        """Return how the server was told who sends a request."""
        return self.play.senders or self.agent.senders or ToolIds()


def perform(
    agent: Agent,
    play: Play,
    *,
    installed: Path,
    folder: Path,
    canaries: Canaries | None = None,
    through: Path | None = None,
) -> Played:
    """Let an agent do a play and record it; `installed` is the folder that the agent was installed in.

    It goes to its maker's host where it is recorded `through` an interception, by the Python of an environment with mitmproxy.
    """
    canaries = canaries or Canaries()
    home = folder / "home"
    (home / "bin").mkdir(parents=True)
    (program,) = installed.glob(agent.program)
    (home / "bin" / agent.command).symlink_to(program)
    project, commit = make_project(home, canaries)
    variables = {**_environment(play, home, canaries, project), **play.environment}
    seen, status, said = asyncio.run(_record(agent, play, canaries, folder, variables, through))
    output = (home / "agent.log").read_text(errors="replace") if (home / "agent.log").exists() else ""
    assert (status != 0) == play.fails, f"{said.decode()}\n{output[-4000:]}"
    (path,) = (folder / "recordings").glob("*.trace.json")
    return Played(
        agent.name,
        load(path),
        seen,
        folder / "recordings",
        said,
        [*canaries.words, commit],
        agent,
        play,
        names=orjson.loads((folder / "names.jsonl").read_bytes()),
        output=output,
        status=status,
    )


async def _record(
    agent: Agent, play: Play, canaries: Canaries, folder: Path, variables: dict[str, str], through: Path | None
) -> tuple[Sequence[Seen], int, bytes]:
    says = canaries.said.error
    server = AgentServer(play.script(canaries), says_in_errors=says, flowing_call=play.interrupted_in_call)
    server.refusals = play.refusals
    server.broken = play.broken_in_calls
    async with (
        serving(server),
        without_names() as anonymous,
        _sitting_at_terminal(play, server.seen) as terminal,
        _way(agent, through, server, folder) as way,
    ):
        status, said = await record_command(
            ["sh", "-c", f'cd "$PROJECT"\n{play.lines}'],
            upstream=way.upstream,
            folder=folder / "recordings",
            environment=way.environment(
                {
                    **variables,
                    "ANONYMOUS": anonymous,
                    **agent.environment(folder / "home", server.url, f"sk-{canaries.in_key}"),
                }
            ),
            options=["--names", str(folder / "names.jsonl"), *way.options],
            rotoscope=way.rotoscope,
            interrupted_by=server.flowing if play.interrupted_in_call else None,
            terminal=terminal,
            patience_s=play.patience_s,
        )
    return server.seen, status, said


@dataclass(frozen=True)
class _Way:
    """How an agent is recorded."""

    upstream: str | None
    rotoscope: Sequence[str] = (sys.executable, "-m", "rotoscope")
    options: Sequence[str] = ()
    more: Mapping[str, str] = field(default_factory=dict)
    unset: Sequence[str] = ()

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of an agent, without those that name an address where it is told of none."""
        return {name: value for name, value in variables.items() if name not in self.unset} | dict(self.more)


@asynccontextmanager
async def _way(agent: Agent, through: Path | None, server: AgentServer, folder: Path) -> AsyncIterator[_Way]:
    if through is None:
        yield _Way(f"{server.url}{agent.upstream}")
        return
    vendor = agent.vendor
    assert vendor is not None
    async with standing_in(vendor.host, urlsplit(server.url).port or 0, python=through, folder=folder) as stand_in:
        more = {**stand_in.environment, **vendor.environment}
        yield _Way(None, stand_in.rotoscope, ["--intercept"], more, vendor.unset)


@asynccontextmanager
async def _sitting_at_terminal(play: Play, seen: Sequence[Seen]) -> AsyncIterator[str | None]:
    """Let the person of a play sit at a terminal, whose file is yielded."""
    if play.person is None:
        yield None
        return
    with terminal(seen) as opened:
        sitting = asyncio.create_task(play.person(opened))
        try:
            yield opened.name
            assert sitting.done(), "the agent has ended before it was told to"
        except (AssertionError, TimeoutError) as error:
            error.add_note(f"on the screen, since what was waited for last: {opened.unread[-2000:]}")
            raise
        finally:
            sitting.cancel()
            with suppress(asyncio.CancelledError):
                await sitting


def _environment(play: Play, home: Path, canaries: Canaries, project: Path) -> dict[str, str]:
    theirs = environment(home)
    return (
        theirs
        | {name: os.environ[name] for name in FROM_OUTSIDE if name in os.environ}
        | {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "CACHE", "DATA", "STATE")}
        | {
            "PATH": f"{home / 'bin'}{os.pathsep}{theirs['PATH']}",
            "PROJECT": str(project),
            "TERM": "dumb" if play.person is None else "xterm-256color",
        }
        | {"AGENT_LOG": str(home / "agent.log"), "IN_PROMPT": canaries.in_prompt}
    )
