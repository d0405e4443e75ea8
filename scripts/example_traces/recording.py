"""Record one play of one coding agent, offline, by `rotoscope record` in front of a server that counts."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from clients.recorded import record_command
from clients.scripted_server import Script, serving
from clients.stage import environment
from coding_agents.agents import agent_named
from coding_agents.playing import FROM_OUTSIDE

from scripts.example_traces.counting import CountingServer

TOY_REPOSITORY = Path(__file__).parents[2] / "examples/react/toy_repository"
CAMPAIGN = "examples"
CAMPAIGNS, NAMES = "campaigns", "names.jsonl"
"""Where the key of the campaign is while all is recorded, and what pseudonyms stand for."""
KEY = "sk-nobody"


@dataclass(frozen=True)
class Example:
    """One example trace: which agent does what."""

    agent: str
    play: str
    shows: str
    """What a reader finds in it."""
    lines: str
    """Typed into a shell in the folder of the project."""
    script: Callable[[Path], Script]
    """What the model says, for the folder of the project."""
    variables: Mapping[str, str] = field(default_factory=dict)
    repairs: bool = True
    """Whether the tests of the project pass at the end."""

    @property
    def file(self) -> str:
        """Return the path of its trace below the folder of all."""
        return f"{self.agent}/{self.play}.trace.json"


def record(example: Example, *, agents: Path, folder: Path) -> Path:
    """Return the trace that `rotoscope record` wrote; raise AssertionError where the agent did not do its work.

    All plays take place at the same paths below `folder`, so that system prompts that name them are the same.
    """
    home, project = (_new_folder(folder / name) for name in ("home", "tally"))
    _install(example.agent, agents, home)
    _make_project(project)
    recordings = folder / "recordings" / example.agent / example.play
    status, said = asyncio.run(_record(example, home, project, recordings))
    log = home / "agent.log"
    assert status == 0, f"{said.decode()}\n{log.read_text(errors='replace')[-4000:] if log.exists() else ''}"
    if example.repairs:
        subprocess.run([sys.executable, "-m", "unittest", "discover", "-q", "tests"], cwd=project, check=True)
    (path,) = recordings.glob("*.trace.json")
    return path


async def _record(example: Example, home: Path, project: Path, recordings: Path) -> tuple[int, bytes]:
    agent = agent_named(example.agent)
    server = CountingServer(example.script(project))
    async with serving(server):
        return await record_command(
            ["sh", "-c", f'set -e; cd "$PROJECT"\n{example.lines}'],
            upstream=f"{server.url}{agent.upstream}",
            folder=recordings,
            environment={
                **_environment(home, project),
                **agent.environment(home, server.url, KEY),
                **example.variables,
                "ROTOSCOPE_CAMPAIGNS": str(home.parent / CAMPAIGNS),
            },
            options=["--campaign", CAMPAIGN, "--names", str(home.parent / NAMES)],
        )


def _new_folder(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path


def _install(name: str, agents: Path, home: Path) -> None:
    agent = agent_named(name)
    (home / "bin").mkdir()
    (program,) = (agents / name).glob(agent.program)
    (home / "bin" / agent.command).symlink_to(program)
    (home / "bin" / "python").symlink_to(sys.executable)


def _make_project(project: Path) -> None:
    shutil.copytree(TOY_REPOSITORY, project, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    identity = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.invalid"]
    for arguments in (
        ["init", "--quiet", "--initial-branch", "main"],
        ["add", "."],
        [*identity, "commit", "--quiet", "--message", "Share expenses"],
    ):
        subprocess.run(["git", *arguments], cwd=project, env={"HOME": "/", "PATH": os.environ["PATH"]}, check=True)


def _environment(home: Path, project: Path) -> dict[str, str]:
    theirs = environment(home)
    return (
        theirs
        | {name: os.environ[name] for name in FROM_OUTSIDE if name in os.environ}
        | {f"XDG_{kind}_HOME": str(home / kind.lower()) for kind in ("CONFIG", "CACHE", "DATA", "STATE")}
        | {"PATH": f"{home / 'bin'}{os.pathsep}{theirs['PATH']}", "PROJECT": str(project), "TERM": "dumb"}
        | {"AGENT_LOG": str(home / "agent.log"), "PYTHONDONTWRITEBYTECODE": "1"}
    )
