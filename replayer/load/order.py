"""How far the order in which an open loop's requests were sent is from the planned one.

Sessions start in the planned order at the planned times on any server; later requests start as fast as it answers. The
planned order is that of a server that takes for each request the time that was recorded: a request's planned time is
the start of its session and, from there on, the recorded answers, tools and waits that lead to it. An answer whose time
was not recorded takes none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rotoscope.replayer.load.plan import LoadPlan
from rotoscope.replayer.results import RequestResult
from rotoscope.replayer.schedule import Schedule
from rotoscope.replayer.session import Part
from rotoscope.traces.model import Call

_FEW = 32
"""So many values are compared each with each."""


@dataclass(frozen=True, slots=True)
class Order:
    """Pairs of requests of different sessions that were sent."""

    pairs: int
    inverted: int
    """Sent in the other order than planned; those that were planned for the same moment, or sent in it, are not."""
    share: float
    """Inverted / pairs."""


def order_of(load: LoadPlan, parts: Sequence[Part], requests: Iterable[RequestResult]) -> Order | None:
    """Compare the order of requests with the planned one, in n log n steps; None in a closed loop or without a pair."""
    if load.concurrency is not None:
        return None
    starts_s = dict(zip(load.numbers, load.starts_s, strict=True))
    offsets_s = [planned_offsets_s(part.schedule, part.calls) for part in parts]
    sent = [
        (one.session, starts_s[one.session] + offsets_s[one.trace][one.call], one.start_s)
        for one in requests
        if one.start_s is not None
    ]
    return _compared(sent)


def planned_offsets_s(schedule: Schedule, calls: Mapping[int, Call]) -> dict[int, float]:
    """Return when each call would be sent if answers took the recorded time, from the start of the session, in seconds."""
    ends_s: list[float] = []
    sent_s: dict[int, float] = {}
    for step in schedule.steps:
        waits_s = [ends_s[earlier] for earlier in step.after]
        waits_s += [sent_s[call] + _delivery_s(calls[call], tokens) for call, tokens in step.delivered]
        start_s = max(waits_s, default=0.0)
        if step.call is not None:
            sent_s[step.call] = start_s
        ends_s.append(start_s + (step.seconds if step.call is None else _duration_s(calls[step.call])))
    return sent_s


def _duration_s(call: Call) -> float:
    return (call.duration_ms or 0.0) / 1000


def _delivery_s(call: Call, tokens: int) -> float:
    """Return when so many tokens of an answer have come, if they come evenly."""
    return _duration_s(call) * min(1.0, tokens / max(1, call.completion_tokens))


def _compared(sent: list[tuple[int, float, float]]) -> Order | None:
    """Compare (session, planned, sent) of requests; pairs within a session do not count."""
    by_session = [list(group) for _, group in groupby(sorted(sent), key=itemgetter(0))]
    pairs = _pairs(len(sent)) - sum(_pairs(len(group)) for group in by_session)
    if not pairs:
        return None
    inverted = _inverted(sent) - sum(_inverted(group) for group in by_session)
    return Order(pairs, inverted, inverted / pairs)


def _pairs(count: int) -> int:
    return count * (count - 1) // 2


def _inverted(sent: Sequence[tuple[int, float, float]]) -> int:
    """Count the pairs that were sent in the other order than planned."""
    ordered = sorted((planned_s, sent_s) for _, planned_s, sent_s in sent)
    return _inversions(np.array([sent_s for _, sent_s in ordered], np.float64))[0]


def _inversions(values: NDArray[Any]) -> tuple[int, NDArray[Any]]:
    """Count the pairs of which the first is larger, and return the values in order: by merging sorted halves."""
    if len(values) <= _FEW:
        return int(np.triu(values[:, None] > values, 1).sum()), np.sort(values)
    middle = len(values) // 2
    (before, left), (behind, right) = _inversions(values[:middle]), _inversions(values[middle:])
    across = len(left) * len(right) - int(left.searchsorted(right, side="right").sum())
    return before + behind + across, np.sort(np.concatenate([left, right]), kind="stable")
