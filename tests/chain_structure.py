"""What a conversion there and back must leave as it was: which prompts begin alike, up to the names of blocks."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from rotoscope.traces import Trace
from rotoscope.traces.corpus import Member, calls_in_order
from rotoscope.traces.formats.block_ids import block_ids
from rotoscope.traces.model import Call

Place = tuple[int, int]
"""A member, by its index, and one of its calls."""


def members_of(traces: Sequence[Trace], starts_ms: Sequence[float] | None = None) -> list[Member]:
    """A corpus of traces, with a clock where it is said when each starts."""
    starts: Sequence[float | None] = starts_ms or [None] * len(traces)
    return [Member(name=str(i), trace=t, start_ms=s) for i, (t, s) in enumerate(zip(traces, starts, strict=True))]


def in_order(members: Sequence[Member]) -> list[tuple[Place, Call]]:
    """All calls in the order of their corpus."""
    return [((index, call.call), call) for index, call in calls_in_order(members)]


def chains(
    members: Sequence[Member], places: Sequence[Place], block_size: int, *, with_partial: bool
) -> list[tuple[int, ...]]:
    """The block ids of prompts in the order given, numbered by first appearance."""
    ids = block_ids(members, block_size, with_partial=with_partial)
    number = {
        (index, call.call): place
        for index, member in enumerate(members)
        for place, call in enumerate(member.trace.calls())
    }
    names: dict[int, int] = {}
    return [tuple(names.setdefault(id_, len(names)) for id_ in ids[p[0]][number[p]]) for p in places]


def partition(labels: Sequence[Hashable]) -> list[int]:
    """Which of them are the same, whatever they are."""
    names: dict[Hashable, int] = {}
    return [names.setdefault(label, len(names)) for label in labels]
