"""The edges between the requests of an agentic Mooncake file of version 2: when they let each request go, and in which order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from typing import Literal, TypeAlias

from rotoscope.traces.formats.mooncake_links import places_of, workflow_of
from rotoscope.traces.formats.mooncake_rows import SourceRow

Trigger: TypeAlias = Literal["dispatch", "completion"]
Relation: TypeAlias = Literal["sequence", "spawn", "join", "replay_barrier"]


@dataclass(frozen=True, slots=True)
class Edge:
    """What a request waits for."""

    request_id: str
    trigger: str
    """A `Trigger`: whether it waits until that request is sent or answered."""
    delay_ms: float
    """From then on."""
    relation: str
    """A `Relation`."""


@dataclass(frozen=True, slots=True)
class Step:
    """A request as it stands in the file; its time is the earliest it may be sent."""

    row: SourceRow
    edges: tuple[Edge, ...]
    ordinal: int = 0
    """The place of its play in the file it comes from."""


def in_sending_order(steps: Sequence[Step]) -> list[SourceRow]:
    """Return rows with the times they are sent and the gaps before them, in the order of these.

    Raises TraceError where a request repeats, or waits for an unknown one, itself, one of another play, or in a circle.
    """
    return _Sending(steps, _places_waited_for(steps)).in_order()


def _places_waited_for(steps: Sequence[Step]) -> list[list[int]]:
    places = places_of([step.row for step in steps])
    return [
        [_place(steps, index, number, places) for number in range(len(step.edges))] for index, step in enumerate(steps)
    ]


def _place(steps: Sequence[Step], index: int, number: int, places: dict[str, int]) -> int:
    row = steps[index].row
    place = places.get(steps[index].edges[number].request_id)
    found = None
    if place is None:
        found = "none that is known"
    elif place == index:
        found = "itself"
    elif workflow_of(steps[place].row).play != workflow_of(row).play:
        found = f"that of line {steps[place].row.line} in another one"
    if place is None or found is not None:
        raise row.error(
            f"expected the request_id of another request of its play, found {found}",
            f"dependencies[{number}].request_id",
        )
    return place


@dataclass(slots=True)
class _Sending:
    steps: Sequence[Step]
    waited: list[list[int]]
    """By step: the places of the requests of its edges."""
    sent_ms: list[float] = field(default_factory=list)

    def in_order(self) -> list[SourceRow]:
        """Send each request when all that it waits for are sent: none of them is sent later than it."""
        followers: dict[int, list[int]] = defaultdict(list)
        for index, waited in enumerate(self.waited):
            for place in waited:
                followers[place].append(index)
        left = [len(waited) for waited in self.waited]
        self.sent_ms = [step.row.at_ms or 0.0 for step in self.steps]
        ready = [self._key(index) for index, count in enumerate(left) if not count]
        heapify(ready)
        rows: list[SourceRow] = []
        while ready:
            index = heappop(ready)[-1]
            rows.append(replace(self.steps[index].row, at_ms=self.sent_ms[index], delay_ms=self._gap_ms(index)))
            for follower in followers[index]:
                left[follower] -= 1
                if not left[follower]:
                    self.sent_ms[follower] = self._time_ms(follower)
                    heappush(ready, self._key(follower))
        if len(rows) < len(self.steps):
            stuck = next(step.row for step, count in zip(self.steps, left, strict=True) if count)
            raise stuck.error("expected requests that are sent before it, found a circle of them", "dependencies")
        return rows

    def _key(self, index: int) -> tuple[float, int, int]:
        return self.sent_ms[index], self.steps[index].ordinal, index

    def _time_ms(self, index: int) -> float:
        """Return the time that is said where it is later than those of all it waits for: recorded answers may overlap it."""
        said_ms = self.sent_ms[index]
        if said_ms > max(self.sent_ms[place] for place in self.waited[index]):
            return said_ms
        times = [said_ms]
        for edge, place in zip(self.steps[index].edges, self.waited[index], strict=True):
            waited_ms = 0.0 if edge.trigger == "dispatch" else (self._duration_ms(place) or 0.0)
            times.append(self.sent_ms[place] + waited_ms + edge.delay_ms)
        return round(max(times), 3)

    def _gap_ms(self, index: int) -> float | None:
        """Return the time from the last answer that a request waits for to the request."""
        edges = list(zip(self.steps[index].edges, self.waited[index], strict=True))
        named = [(edge, place) for edge, place in edges if edge.relation != "replay_barrier"] or edges
        if not named:
            return None
        delays = {self._after_answer_ms(edge, place) for edge, place in named}
        durations = [self._duration_ms(place) for _, place in edges]
        if len(delays) == 1 or None in durations:
            return min(delays)
        ended_ms = max(self.sent_ms[place] + (self._duration_ms(place) or 0.0) for _, place in edges)
        return max(round(self.sent_ms[index] - ended_ms, 3), 0.0)

    def _after_answer_ms(self, edge: Edge, place: int) -> float:
        if edge.trigger == "completion":
            return edge.delay_ms
        duration_ms = self._duration_ms(place)
        return 0.0 if duration_ms is None else max(round(edge.delay_ms - duration_ms, 3), 0.0)

    def _duration_ms(self, place: int) -> float | None:
        return workflow_of(self.steps[place].row).duration_ms
