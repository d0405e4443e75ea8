"""Where in a run the code stands: on which line of calls, and inside what.

A line is an agent's, or a branch's; its calls run one after another, and carry its name in `x-rotoscope-branch`. A scope
is what a decorator or a block puts around the code. It lives in a context variable, so that tasks have that of who began
them, and threads have none unless it is carried there.
"""

from __future__ import annotations

import os
import time
from contextvars import ContextVar, Token
from dataclasses import dataclass, field

from rotoscope.recorder.marks import BranchMark, JoinMark, Mark
from rotoscope.sdk.runs import Run

clock = time.monotonic
"""Seconds; the same clock as the gateway's on this machine."""


def new_name() -> str:
    """Draw a name that nobody else has. (As `secrets` does, which loads much.)"""
    return os.urandom(8).hex()


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line of calls."""

    run: Run
    name: str = field(default_factory=new_name)
    parent: Line | None = None
    """The line that began it."""

    def tell(self, mark: Mark) -> None:
        """Tell the run's recorder of something."""
        self.run.tell(mark)

    def fork(self, region: str, start_s: float) -> Line:
        """Begin a line beside this one, in a region that began at a time."""
        line = Line(self.run, parent=self)
        self.tell(BranchMark(line.name, self.name, region, start_s))
        return line

    def join(self, region: str) -> None:
        """Tell that all lines of a region have ended and this one goes on."""
        self.tell(JoinMark(region, clock()))


@dataclass(slots=True, eq=False)
class Scope:
    """What the code is inside of."""

    line: Line
    above: Scope | None = None
    is_branch: bool = False
    """Whether it is a branch in which nothing has happened yet: the agent that works there has no line of its own."""
    has_calls: bool = False
    """Whether a call was made, or a line begun, inside it: what holds those is no tool."""

    def called(self) -> None:
        """Note a call, or a line that begins, in this scope and all above it."""
        scope: Scope | None = self
        while scope is not None and not scope.has_calls:
            scope.has_calls, scope.is_branch, scope = True, False, scope.above


_scope: ContextVar[Scope | None] = ContextVar("rotoscope_scope", default=None)


def current_scope() -> Scope | None:
    """Return what the code is inside of; None outside of every run."""
    return _scope.get()


def enter(scope: Scope | None) -> Token[Scope | None]:
    """Let what follows in this context be inside a scope."""
    return _scope.set(scope)


def leave(token: Token[Scope | None]) -> None:
    """End that, unless the code has come into another context meanwhile, as a generator may that is closed late."""
    try:  # contextlib.suppress would cost as much as all else that is around a tool
        _scope.reset(token)
    except ValueError:
        return
