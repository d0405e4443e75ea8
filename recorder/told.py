"""What an agent told of itself, in the journal of its run and on the way into the trace.

In the journal a mark is a record with pseudonyms and numbers; here those are found again by the branch that they stand on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import TypeAlias, TypedDict

from rotoscope.recorder.marks import BranchMark, JoinMark, Mark, ToolMark, WaitMark
from rotoscope.recorder.run import Run
from rotoscope.traces.journal import (
    BranchBegan,
    CallEnded,
    CallOpened,
    EmbeddingEnded,
    JournalRecord,
    RegionJoined,
    ToolRan,
    Waited,
)

Timed: TypeAlias = ToolRan | Waited


def record_of(mark: Mark, run: Run) -> JournalRecord:
    """Return what stands of a mark in the journal of a run."""
    match mark:
        case ToolMark():
            return ToolRan(tool=run.tool(mark.name), **_timed(mark, run))
        case WaitMark():
            return Waited(kind=mark.kind, **_timed(mark, run))
        case BranchMark():
            thread, parent = run.reader.thread_called(mark.thread), run.reader.thread_called(mark.parent)
            at_ms = run.moment_ms(mark.start_s)
            return BranchBegan(thread=thread, parent=parent, region=run.region(mark.region), at_ms=at_ms)
        case JoinMark():
            return RegionJoined(region=run.region(mark.region), at_ms=run.moment_ms(mark.end_s))


def _timed(mark: ToolMark | WaitMark, run: Run) -> _Timed:
    duration_ms = max(0.0, round((mark.end_s - mark.start_s) * 1000, 3))
    thread = run.reader.thread_called(mark.thread)
    return _Timed(thread=thread, at_ms=run.moment_ms(mark.start_s), duration_ms=duration_ms)


class _Timed(TypedDict):
    thread: int
    at_ms: float
    duration_ms: float


def ended_ms(timed: Timed) -> float:
    """Return when something was over, in whole microseconds as all times are."""
    return round(timed.at_ms + timed.duration_ms, 3)


def from_zero(records: Sequence[JournalRecord]) -> Sequence[JournalRecord]:
    """Return records whose times begin at zero, where an agent told of something before its first request."""
    marks = (ToolRan, Waited, BranchBegan, RegionJoined)
    first_ms = min((record.at_ms for record in records if isinstance(record, marks)), default=0.0)
    if first_ms >= 0.0:
        return records
    timed = (*marks, CallOpened, CallEnded, EmbeddingEnded)
    return [replace(x, at_ms=round(x.at_ms - first_ms, 3)) if isinstance(x, timed) else x for x in records]


@dataclass(slots=True)
class Told:
    """The marks of a run."""

    timed: defaultdict[int, list[Timed]] = field(default_factory=lambda: defaultdict(list))
    """By thread."""
    began: dict[int, BranchBegan] = field(default_factory=dict)
    """By thread."""
    joined: dict[int, RegionJoined] = field(default_factory=dict)
    """By region."""

    @classmethod
    def of(cls, records: Iterable[JournalRecord]) -> Told:
        """Sort out the marks among the records of a journal."""
        told = cls()
        for record in records:
            match record:
                case ToolRan() | Waited():
                    told.timed[record.thread].append(record)
                case BranchBegan():
                    told.began.setdefault(record.thread, record)
                case RegionJoined():
                    told.joined.setdefault(record.region, record)
        return told

    def line_of(self, thread: int) -> Iterator[int]:
        """Yield who began a thread, who began that one, and so on."""
        seen = {thread}
        while thread in self.began and (thread := self.began[thread].parent) not in seen:
            seen.add(thread)
            yield thread

    def joined_ms(self, thread: int | None) -> float:
        """Return when the branch of a thread had ended, as who began it told; infinity where nobody told."""
        began = None if thread is None else self.began.get(thread)
        joined = None if began is None else self.joined.get(began.region)
        return inf if joined is None else joined.at_ms
