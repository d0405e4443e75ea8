"""Which conversations ran at the same time, and where their regions begin and end.

The conversation of the first call is the root's. Another one that was never in flight together with any other runs
inside the root branch, in order. Of those that were, each set that hangs together by overlaps is a region whose
branches they are; it begins before its first call, or before the call of the root that was in flight then, and is
joined before the next thing that the root does after all of it has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rotoscope.recorder.calls import SeenCall
from rotoscope.recorder.conversations import Turn
from rotoscope.traces.model import Branch


@dataclass(slots=True)
class Region:
    """A set of conversations that ran beside one another and the root."""

    number: int
    conversations: list[int]
    """Branch by branch, by their first calls."""
    begins_before: int = 0
    """The call that the start of the region stands before."""
    last_call: int = 0
    start_ms: float = 0.0
    end_ms: float = 0.0
    is_started: bool = False
    is_joined: bool = False


@dataclass(slots=True)
class Lanes:
    """The branch of each conversation, and the regions."""

    branches: dict[int, Branch | None]
    regions: list[Region] = field(default_factory=list)


def find_lanes(calls: Sequence[SeenCall], turns: Sequence[Turn]) -> Lanes:
    """Assign conversations to branches."""
    groups = _concurrent(calls, turns)
    lanes = Lanes({turn.conversation: None for turn in turns})
    for conversations in groups:
        region = Region(len(lanes.regions), conversations)
        lanes.regions.append(region)
        for index, conversation in enumerate(conversations):
            lanes.branches[conversation] = (region.number, index)
    for region in lanes.regions:
        _place_in_time(region, calls, turns, lanes)
    return lanes


def _concurrent(calls: Sequence[SeenCall], turns: Sequence[Turn]) -> list[list[int]]:
    """Return the sets of conversations that overlap, without the root's, each in order of first calls."""
    leader: dict[int, int] = {}
    in_flight: list[SeenCall] = []

    def find(conversation: int) -> int:
        while leader.setdefault(conversation, conversation) != conversation:
            conversation = leader[conversation]
        return conversation

    for call in calls:
        mine = turns[call.number].conversation
        in_flight = [x for x in in_flight if x.end_ms > call.start_ms]
        for other in {turns[x.number].conversation for x in in_flight} - {mine}:
            first, second = sorted((find(mine), find(other)))
            if 0 not in (mine, other):
                leader[second] = first
        in_flight.append(call)
    leader.pop(0, None)
    groups: dict[int, list[int]] = {}
    for conversation in sorted(leader):
        groups.setdefault(find(conversation), []).append(conversation)
    return list(groups.values())


def _place_in_time(region: Region, calls: Sequence[SeenCall], turns: Sequence[Turn], lanes: Lanes) -> None:
    members = [call for call in calls if turns[call.number].conversation in region.conversations]
    first = members[0]
    region.last_call = members[-1].number
    region.end_ms = max(call.end_ms for call in members)
    around = [
        call
        for call in calls[: first.number]
        if lanes.branches[turns[call.number].conversation] is None and call.end_ms > first.start_ms
    ]
    begins = around[0] if around else first
    region.begins_before, region.start_ms = begins.number, begins.start_ms
