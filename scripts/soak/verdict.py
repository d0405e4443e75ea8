"""Whether a soak went as it should: what the clients know against what was written, and what the gateway takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rotoscope.traces.model import Trace
from rotoscope.traces.reader import load
from rotoscope.traces.validation import validate
from scripts.soak.ledger import RunLedger, attempts_in
from scripts.soak.upstream import Seen
from scripts.soak.watching import Rest

MOST_GROWTH = 0.05
"""Resident memory may grow by this share from one rest to the next, as heaps break into pieces."""
MOST_GROWTH_MIB = 16.0
"""Or by as much."""
MOST_BLOCKS_A_CALL = 0.5
"""Blocks of memory that Python may keep for each call that has ended and was written,"""
MOST_BLOCKS = 50_000
"""beside so many in caches of a fixed size that fill up."""
MOST_DESCRIPTORS = 3
"""How many descriptors more may be open at rest."""


@dataclass(frozen=True)
class Written:
    """The traces of a soak, by run."""

    by_run: Mapping[str, list[Trace]]
    unknown: Sequence[Trace]
    """Traces of no run that is known."""

    @property
    def all(self) -> list[Trace]:
        return [*(trace for traces in self.by_run.values() for trace in traces), *self.unknown]


def read_traces(folder: Path, ledgers: Sequence[RunLedger], files_of: Mapping[str, Sequence[str]]) -> Written:
    """Read and check all traces of a folder, and find the run of each: by name, else by the calls that it holds."""
    by_run: dict[str, list[Trace]] = {ledger.name: [] for ledger in ledgers}
    names = {file: run for run, files in files_of.items() for file in files}
    nameless = [ledger for ledger in ledgers if ledger.name not in files_of]
    unknown: list[Trace] = []
    for path in sorted(folder.glob("*.trace.json")):
        trace = load(path)
        validate(trace)
        run = names.get(path.name)
        if run is None and nameless:
            best = max(nameless, key=lambda ledger: ledger.likeness(trace))
            run = best.name if best.likeness(trace) > 0 else None
        if run in by_run:
            by_run[run].append(trace)
        else:
            unknown.append(trace)
    return Written(by_run, unknown)


def trace_problems(ledgers: Sequence[RunLedger], written: Written) -> Iterator[str]:
    """Yield what is in the traces and should not be, and what is not and should be."""
    for ledger in ledgers:
        yield from ledger.problems(written.by_run[ledger.name])
    for trace in written.unknown:
        if any(call.finish_reason == "stop" for call in trace.calls()):
            yield "a trace of no known run holds whole calls"


def killed_problems(known: Sequence[RunLedger], written: Written) -> Iterator[str]:
    """Yield the same of a gateway that was killed, which tells no names and may have lost what was in flight.

    A run of which no client got anything whole leaves a trace in which nothing says that it is of this run.
    """
    told = [ledger for ledger in known if written.by_run[ledger.name]]
    for ledger in told:
        yield from ledger.problems(written.by_run[ledger.name], lost=ledger.outcomes["unsure"])
    rest = RunLedger.of_all([ledger for ledger in known if not written.by_run[ledger.name]])
    yield from rest.problems(list(written.unknown), lost=rest.outcomes["unsure"])


def count_problems(written: Written, *, refused: int, calls: int) -> Iterator[str]:
    """Yield where the gateway took more or fewer requests for calls than there are in traces."""
    found = sum(map(attempts_in, written.all))
    if found + refused != calls:
        yield f"the gateway heard {calls} calls, its traces hold {found}, and {refused} were refused"


def byte_problems(seen: Seen, digests: Mapping[str, bytes]) -> Iterator[str]:
    """Yield where bytes are not what the other side sent."""
    if seen.changed:
        yield f"{len(seen.changed)} requests were changed on their way: {seen.changed[:5]}"
    if seen.repeated:
        yield f"{seen.repeated} requests came to the server twice"
    if seen.holding or seen.forgotten:
        yield f"{seen.holding + seen.forgotten} connections to the server outlived their clients"
    if different := [key for key, digest in digests.items() if seen.digests.get(key) != digest]:
        yield f"{len(different)} answers were changed on their way: {different[:5]}"


def growth_problems(before: Rest, after: Rest, calls: int) -> Iterator[str]:
    """Yield what the gateway keeps of calls that are over."""
    grown = after.rss_mib - before.rss_mib
    if grown > max(MOST_GROWTH_MIB, MOST_GROWTH * before.rss_mib):
        yield f"resident memory grew by {grown:.1f} MiB over {calls} calls"
    if (blocks := after.blocks - before.blocks) > MOST_BLOCKS + MOST_BLOCKS_A_CALL * calls:
        yield f"{blocks:,} more blocks of memory are kept after {calls} calls"
    if after.descriptors > before.descriptors + MOST_DESCRIPTORS:
        yield f"{after.descriptors} descriptors are open at rest, before there were {before.descriptors}"
    if after.tasks > before.tasks:
        yield f"{after.tasks} tasks are left, before there were {before.tasks}"
