"""Embeddings among the events of a trace: behind the last call that began before them, on the branch of who sent them.

They are beside the calls: the time they take is that of the tools or waits between calls.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rotoscope.recorder.part_sizes import BYTES_PER_TOKEN
from rotoscope.traces.journal import EmbeddingEnded
from rotoscope.traces.model import Branch, Call, Embedding, ParallelEnd, ParallelStart, TraceEvent


def with_embeddings(
    events: Sequence[TraceEvent], embeddings: Iterable[EmbeddingEnded], threads: Mapping[int, int | None]
) -> tuple[TraceEvent, ...]:
    """Return events with embeddings among them; `threads` are those of the calls by number."""
    calls = [(event.at_ms or 0.0, index) for index, event in enumerate(events) if isinstance(event, Call)]
    starts, places = [at_ms for at_ms, _ in calls], [index + 1 for _, index in calls]
    behind: defaultdict[int, list[EmbeddingEnded]] = defaultdict(list)
    for embedding in sorted(embeddings, key=lambda x: x.at_ms):
        behind[places[count - 1] if (count := bisect_right(starts, embedding.at_ms)) else 0].append(embedding)
    branches, merged = _Branches(threads), list[TraceEvent]()
    for index in range(len(events) + 1):
        merged.extend(_event(embedding, branches.of(embedding.thread)) for embedding in behind[index])
        if index < len(events):
            branches.pass_by(events[index])
            merged.append(events[index])
    return tuple(merged)


def _event(embedding: EmbeddingEnded, branch: Branch | None) -> Embedding:
    tokens = embedding.prompt_tokens
    return Embedding(
        branch=branch,
        prompt_tokens=round(embedding.text_bytes / BYTES_PER_TOKEN) if tokens is None else tokens,
        at_ms=embedding.at_ms,
        duration_ms=embedding.duration_ms,
    )


class _Branches:
    """Which branches are open, and on which one each thread was last."""

    def __init__(self, threads: Mapping[int, int | None]) -> None:
        self._threads = threads
        self._last: dict[int, Branch | None] = {}
        self._above: dict[int, Branch | None] = {}
        """By region, the branch that it stands on."""
        self._open: set[int] = set()

    def pass_by(self, event: TraceEvent) -> None:
        """Take in the next event."""
        match event:
            case ParallelStart():
                self._above[event.region] = event.branch
                self._open.add(event.region)
            case ParallelEnd():
                self._open.discard(event.region)
            case Call() if (thread := self._threads.get(event.call)) is not None:
                self._last[thread] = event.branch

    def of(self, thread: int | None) -> Branch | None:
        """Return the branch of a thread, or what is left open above it; the root where it is not known."""
        branch = None if thread is None else self._last.get(thread)
        line = []
        while branch is not None:
            line.append(branch)
            branch = self._above.get(branch[0])
        closed = [index for index, step in enumerate(line) if step[0] not in self._open]
        rest = line[closed[-1] + 1 :] if closed else line
        return rest[0] if rest else None
