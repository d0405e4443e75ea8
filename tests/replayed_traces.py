"""Traces, replayed once each on a simulator, and what has to hold of it: the law of prefixes and the law of order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from captured_simulator import Ids, Place, lengths_of, replayed
from clients.truth import common
from forest_truth import Truth

from rotoscope.traces import Call, ParallelEnd, ParallelStart, Trace
from rotoscope.traces.model import Branch


@dataclass(frozen=True)
class Replayed:
    """Traces that were replayed, one after the other."""

    traces: Sequence[Trace]
    prompts: dict[Place, Ids]
    ran: dict[Place, tuple[float, float]]
    """When each call began and ended, in seconds."""


def replay_once(traces: Sequence[Trace], folder: Path) -> Replayed:
    """Replay each trace once; results go to the folder."""
    prompts = asyncio.run(replayed(traces, folder, lambda ids: ids))
    lines = map(json.loads, (folder / "results.jsonl").read_bytes().splitlines())
    ran = {
        Place(line["session"], line["call"]): (line["start_s"], line["start_s"] + line["latency_s"]) for line in lines
    }
    return Replayed(traces, prompts, ran)


def check_prefixes(replay: Replayed) -> None:
    """Check that prompts have their lengths, and that any two share what the traces say, not a token more."""
    truth = Truth.of(list(replay.traces), len(replay.traces))
    domains = {Place(session, call.call): call.domain for session, call in calls_of(replay.traces)}
    assert {place: len(ids) for place, ids in replay.prompts.items()} == lengths_of(replay.traces)
    for a, b in combinations(sorted(replay.prompts), 2):
        expected = truth.common(("session", *a), ("session", *b)) if domains[a] == domains[b] else 0
        one, other = replay.prompts[a], replay.prompts[b]
        assert common(one, other) == min(expected, len(one), len(other)), (a, b)


def check_order(replay: Replayed) -> None:
    """Check that no call began before what it waits for had ended."""
    early = [(a, b) for a, of in awaited(replay.traces).items() for b in of if replay.ran[a][0] < replay.ran[b][1]]
    assert early == []


def awaited(traces: Sequence[Trace]) -> dict[Place, set[Place]]:
    """Return what each call waits for."""
    return {Place(n, a): {Place(n, b) for b in of} for n, trace in enumerate(traces) for a, of in waits(trace)}


def calls_of(traces: Sequence[Trace]) -> Iterator[tuple[int, Call]]:
    for session, trace in enumerate(traces):
        yield from ((session, call) for call in trace.calls())


def waits(trace: Trace) -> Iterator[tuple[int, set[int]]]:
    """Yield each call with those that have to end before: the one before in its branch, and the last ones of its joins."""
    last: dict[Branch | None, set[int]] = {None: set()}
    for event in trace.events:
        match event:
            case ParallelStart():
                last |= {(event.region, index): last[event.branch] for index in range(event.num_branches)}
            case ParallelEnd():
                joined = [calls for branch, calls in last.items() if branch and branch[0] == event.region]
                last[event.branch] = last[event.branch].union(*joined)
            case Call():
                yield event.call, last[event.branch]
                last[event.branch] = {event.call}
