"""What was found out about a server: one check a question, what is known in the end, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias

from rotoscope.replayer.server import Server

Verdict: TypeAlias = Literal["ok", "warn", "fail", "none"]
"""`warn` makes results poorer, `fail` makes them wrong; `none` is what is absent or could not be tried."""

INVALID_EXIT_CODE = 3


@dataclass(frozen=True, slots=True)
class Check:
    """One question and its answer, in words for people.

    The server's own are the model's name and what it says of a request that failed, whose prompt was random."""

    name: str
    verdict: Verdict
    seen: str
    advice: str = ""


def ok(name: str, seen: str) -> Check:
    """Return a check that was passed."""
    return Check(name, "ok", seen)


def warn(name: str, seen: str, advice: str = "") -> Check:
    """Return a check that tells of something that makes results poorer."""
    return Check(name, "warn", seen, advice)


def fail(name: str, seen: str, advice: str = "") -> Check:
    """Return a check that tells of something that makes results wrong."""
    return Check(name, "fail", seen, advice)


def none(name: str, seen: str, advice: str = "") -> Check:
    """Return a check that was not made, or of something that need not be there."""
    return Check(name, "none", seen, advice)


@dataclass(slots=True)
class Known:
    """What is known of a server so far; checks fill it in as they go, None is not known."""

    server: Server
    engine: str | None = None
    """Name of the engine whose way of returning output ids works."""
    takes_ids: bool | None = None
    returns_ids: bool = False
    context_tokens: int | None = None
    reports_cached: bool = False
    block_size: int | None = None
    decode_reuse: bool | None = None
    apis: list[str] = field(default_factory=list)
    """APIs that answer, by their names for `--api`."""
    family: str | None = None
    """Of its metrics."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All that was found."""

    checks: Sequence[Check]
    command: str
    """A line that replays traces on this server, to be pasted; empty where none can."""

    @property
    def exit_code(self) -> int:
        """0, or 3 where a check failed."""
        return INVALID_EXIT_CODE if any(check.verdict == "fail" for check in self.checks) else 0

    def as_dict(self) -> dict[str, object]:
        """Return it for JSON."""
        return {
            "valid": self.exit_code == 0,
            "checks": [asdict(check) for check in self.checks],
            "command": self.command,
        }
