"""What a coding agent is to the tests: how it is started, what it is made to do, and in which folder it works.

Each agent has a module here, named like its folder in scripts/coding_agents/, with an `AGENT`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from importlib import import_module
from pathlib import Path

from clients.script import Words
from clients.scripted_server import Script
from clients.stage import canary
from coding_agents.terminal import Person

COMMITTED_AT = "2026-01-01T12:00:00+0000"
"""The same words make the same commit, in plays that are compared."""


@dataclass(frozen=True)
class Canaries:
    """Words that occur nowhere else, by where they are planted."""

    in_prompt: str = field(default_factory=canary)
    in_file: str = field(default_factory=canary)
    in_path: str = field(default_factory=canary)
    """Of the folder that the agent works in."""
    in_remote: str = field(default_factory=canary)
    in_commit: str = field(default_factory=canary)
    in_key: str = field(default_factory=canary)
    said: Words = field(default_factory=lambda: Words(canary(), canary(), canary(), canary()))
    """What the model and its server say."""

    @property
    def words(self) -> list[str]:
        """Return all of them, as `with_words` takes them."""
        *of_agent, said = astuple(self)
        return [*of_agent, *said]

    @classmethod
    def with_words(cls, words: Sequence[str]) -> Canaries:
        """Return canaries that are these words, for a play that is compared with one that had them."""
        prompt, file, path, remote, commit, key, *said = words
        return cls(prompt, file, path, remote, commit, key, Words(*said))


PLANTED = {
    name: number
    for number, name in enumerate(
        [
            *[one.name for one in fields(Canaries) if one.name != "said"],
            *[f"in_{one.name}" for one in fields(Words)],
            "in_commit_hash",
        ],
        start=1,
    )
}
"""Where each canary of a play is planted: its number in `Played.canaries`, and in what an audit finds."""


@dataclass(frozen=True)
class Senders:
    """Headers, in lower case, by which a client says who sends a request."""

    sender: str
    parent: str
    is_main_without_id: bool = False
    """Whether the main agent has no id, so that who names no parent was begun by it."""


@dataclass(frozen=True)
class ToolIds:
    """Who sends a request is whose tool calls its history holds: each id was given out once, by the server.

    Where they were taken off on the way to the recorder, one stands in a header, in lower case.
    """

    header: str = ""


Truth = Senders | ToolIds
"""How the server learns who sends a request."""


@dataclass(frozen=True)
class Play:
    """One recorded run of an agent."""

    lines: str
    """Typed into a shell in the agent's folder, with the variables that `Agent.environment` and the canaries give."""
    script: Callable[[Canaries], Script]
    environment: Mapping[str, str] = field(default_factory=dict)
    interrupted_in_call: int | None = None
    """SIGINT is sent while this call is being answered, counted from one."""
    refusals: Mapping[int, str] = field(default_factory=lambda: {429: "rate_limit_error", 500: "api_error"})
    """Statuses and kinds of error that a prompt with the words of `scripted_server.REFUSE` meets, one after another."""
    fails: bool = False
    """Whether the last line ends with another exit status than 0."""
    senders: Truth | None = None
    """How the server learns who sends a request, where the recorder does not."""
    broken_in_calls: Mapping[int, int] = field(default_factory=dict)
    """Calls, counted from one, whose connection the server closes, and how many tokens of the answer it has sent then."""
    person: Person | None = None
    """Who sits at the terminal that it runs in; where nobody does it has none."""
    patience_s: float = 120.0


@dataclass(frozen=True)
class Vendor:
    """The server that an agent asks where nobody tells it another one."""

    host: str
    play: str
    """That it does there too."""
    environment: Mapping[str, str] = field(default_factory=dict)
    unset: Sequence[str] = ()
    """Variables that lead it to another server."""


@dataclass(frozen=True)
class Agent:
    """A coding agent."""

    name: str
    command: str
    """What is typed to start it."""
    program: str
    """Where that is in the agent's folder, as a pattern."""
    upstream: str
    """Its base URL is the server's, followed by this."""
    environment: Callable[[Path, str, str], Mapping[str, str]]
    """Variables for a home, a server's URL without a path, and a key; files that it needs at home are written."""
    plays: Mapping[str, Play]
    senders: Senders | None = None
    """How it says who sends a request; None where it does not."""
    vendor: Vendor | None = None


def agent_named(name: str) -> Agent:
    """Return an agent by the name of its folder in scripts/coding_agents/."""
    agent = import_module(f"coding_agents.{name.replace('-', '_')}").AGENT
    assert isinstance(agent, Agent)
    return agent


def make_project(home: Path, canaries: Canaries) -> tuple[Path, str]:
    """Make a repository with a file in it, canaries everywhere; return its folder and its commit."""
    project = home / f"project-{canaries.in_path}"
    project.mkdir()
    (project / "notes.md").write_text(f"# Notes\n\nThe meeting is at nine, says {canaries.in_file}.\n")
    identity = ["-c", "user.name=Somebody", "-c", f"user.email={canaries.in_commit}@example.invalid"]
    for arguments in (
        ["init", "--quiet", "--initial-branch", "main"],
        ["remote", "add", "origin", f"https://example.invalid/{canaries.in_remote}.git"],
        ["add", "."],
        [*identity, "commit", "--quiet", "--message", f"notes: {canaries.in_commit}"],
    ):
        at = {"GIT_AUTHOR_DATE": COMMITTED_AT, "GIT_COMMITTER_DATE": COMMITTED_AT}
        subprocess.run(
            ["git", *arguments], cwd=project, env={"HOME": str(home), "PATH": "/usr/bin:/bin", **at}, check=True
        )
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=project, check=True, capture_output=True, text=True)
    return project, head.stdout.strip()
