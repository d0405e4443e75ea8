"""What an agent tells of itself beside its calls: tools and waits that it timed, branches that it began and joined.

A mark is told by our code in the agent, with names in RAM alone and times in seconds of one monotonic clock. This
module is light, because agents load it; what becomes of a mark in the journal and in the trace stands in `told.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from rotoscope.traces.model import WaitKind


@dataclass(frozen=True, slots=True)
class ToolMark:
    """A tool that has run."""

    name: str = field(repr=False)
    thread: str = field(repr=False)
    """Who ran it, as its requests say in `x-rotoscope-branch`."""
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class WaitMark:
    """A wait that is over."""

    kind: WaitKind
    thread: str = field(repr=False)
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class BranchMark:
    """A branch that begins."""

    thread: str = field(repr=False)
    parent: str = field(repr=False)
    region: str = field(repr=False)
    """Those of one fan-out have it in common."""
    start_s: float
    """When the fan-out began."""


@dataclass(frozen=True, slots=True)
class JoinMark:
    """A fan-out that was waited for."""

    region: str = field(repr=False)
    end_s: float


Mark: TypeAlias = ToolMark | WaitMark | BranchMark | JoinMark
