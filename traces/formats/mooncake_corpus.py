"""The sessions of a Mooncake file as traces of one corpus: calls, common prefixes, clock and order."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.fields import MAX_TIME_MS, derived_id
from rotoscope.traces.formats.mooncake_rows import SourceRow
from rotoscope.traces.formats.shared_forest import BlockTree, SharedForest, forest_of
from rotoscope.traces.model import Branch, Call, Prefix, Trace, TraceEvent
from rotoscope.traces.validation import validate

FORMAT = "mooncake"

LENGTHS = Aspect("prompt and output lengths", "kept")
PREFIXES = Aspect(
    "common prefixes", "kept", "in whole blocks, or the whole prompt: a lower bound, as two prompts part within a block"
)
NO_PREFIXES = Aspect("common prefixes", "lost", "the row has no block ids; anything from nothing to all may be shared")
TIMES = Aspect("arrival times and order", "kept")
CLOCK = Aspect("arrival times", "approximated", "counted from the first request instead of the clock's own zero")
NO_START = Aspect("arrival times", "lost", "the first request of the session has none, from which they would count")
CORPUS_ASPECTS = (LENGTHS, PREFIXES, NO_PREFIXES, TIMES, CLOCK, NO_START)


@dataclass(frozen=True, slots=True)
class SourceCorpus:
    """The rows of a file in the order of their calls, and the session of each."""

    rows: Sequence[SourceRow]
    sessions: Sequence[int]
    """By row, dense, numbered by their first rows."""
    block_size: int
    domains: Sequence[int]
    forest: SharedForest
    zero_ms: float
    """Where the corpus's clock begins on that of the file."""
    campaign: str

    @classmethod
    def of(
        cls, rows: Sequence[SourceRow], sessions: Sequence[int], tree: BlockTree, domains: Sequence[int]
    ) -> SourceCorpus:
        """Put together rows that were added to a tree in their order; raise TraceError where times are too far apart."""
        forest, campaign = forest_of(tree, sessions), _campaign(rows, tree)
        return cls(rows, sessions, tree.block_size, domains, forest, _zero_ms(rows), campaign)

    def rows_by_session(self) -> list[list[int]]:
        """Return the rows of each session, in order; those of a session are its calls 0, 1, ..."""
        found: list[list[int]] = [[] for _ in range(max(self.sessions, default=-1) + 1)]
        for index, session in enumerate(self.sessions):
            found[session].append(index)
        return found

    def member(self, session: int, indices: Sequence[int], events: Iterable[TraceEvent]) -> Member:
        """Return a session as a trace; its calls are the rows `indices`."""
        first_ms = self.rows[indices[0]].at_ms
        trace = Trace(
            trace_id=derived_id(FORMAT, self.campaign, str(session)),
            campaign=self.campaign,
            token_source="given",
            prefix_granularity=self.block_size,
            outputs="unknown",
            shared_prefixes=self.forest.shared_prefixes(session),
            events=tuple(events),
        )
        validate(trace)
        start_ms = None if first_ms is None else round(first_ms - self.zero_ms, 3)
        return Member(name=str(session), trace=trace, start_ms=start_ms, ranks=tuple(indices))

    def call(
        self,
        index: int,
        *,
        number: int,
        first_ms: float | None,
        conversation: int = 0,
        turn: int | None = None,
        duration_ms: float | None = None,
        branch: Branch | None = None,
    ) -> Call:
        """Return the call of a row; answers have odd message indices, as if one message came before each."""
        row = self.rows[index]
        return Call(
            call=number,
            domain=self.domains[index],
            conversation_id=conversation,
            message_index=2 * (number if turn is None else turn) + 1,
            prompt_tokens=row.prompt_tokens,
            completion_tokens=row.completion_tokens,
            prefix=self._prefix(index),
            at_ms=since(first_ms, row.at_ms),
            duration_ms=duration_ms,
            branch=branch,
            branch_path=() if branch is None else (branch[1],),
        )

    def _prefix(self, index: int) -> Prefix:
        row = self.rows[index]
        return self.forest.prefixes[index] if row.block_ids else Prefix(None, 0, "opaque", high=row.prompt_tokens)

    def note(self, fidelity: Fidelity) -> None:
        """Note what becomes of lengths, prefixes and times."""
        known = sum(1 for row in self.rows if row.block_ids)
        fidelity.note(LENGTHS, len(self.rows))
        fidelity.note(PREFIXES, known)
        fidelity.note(NO_PREFIXES, len(self.rows) - known)
        timed = [session for row, session in zip(self.rows, self.sessions, strict=True) if row.at_ms is not None]
        started: dict[int, bool] = {}
        for row, session in zip(self.rows, self.sessions, strict=True):
            started.setdefault(session, row.at_ms is not None)
        kept = sum(started[session] for session in timed)
        fidelity.note(CLOCK if self.zero_ms else TIMES, kept)
        fidelity.note(NO_START, len(timed) - kept)


def since(first_ms: float | None, at_ms: float | None) -> float | None:
    """Return the time from one row to another, where both times are known; at least 0."""
    return None if first_ms is None or at_ms is None else max(round(at_ms - first_ms, 3), 0.0)


def in_order(rows: Sequence[SourceRow]) -> list[SourceRow]:
    """Return rows by their times, ties in the order of the file, which also holds where times are missing."""
    times = [row.at_ms for row in rows]
    if None in times:
        return list(rows)
    return sorted(rows, key=lambda row: row.at_ms or 0.0)


def check_turns(rows: Sequence[SourceRow], sessions: Sequence[int]) -> None:
    """Raise TraceError where a session's rows go back in time."""
    latest: dict[int, SourceRow] = {}
    for row, session in zip(rows, sessions, strict=True):
        before = latest.get(session)
        if row.at_ms is not None:
            if before is not None and before.at_ms is not None and row.at_ms < before.at_ms:
                raise row.error(
                    f"expected at least the time of line {before.line}, the turn before it in its session", "timestamp"
                )
            latest[session] = row


def domains_of(rows: Sequence[SourceRow]) -> list[int]:
    """Return the cache domain of each row: one a model."""
    models: dict[str | None, int] = {}
    return [models.setdefault(row.model, len(models)) for row in rows]


def tree_of(rows: Sequence[SourceRow], domains: Sequence[int], block_size: int) -> BlockTree:
    """Return the tree of the rows' blocks."""
    tree = BlockTree(block_size)
    for row, domain in zip(rows, domains, strict=True):
        tree.add(row.block_ids, row.prompt_tokens, domain)
    return tree


def _zero_ms(rows: Sequence[SourceRow]) -> float:
    times = [row.at_ms for row in rows if row.at_ms is not None]
    if max(times, default=0.0) <= MAX_TIME_MS:
        return 0.0
    latest = max(rows, key=lambda row: row.at_ms or 0.0)
    if max(times) - min(times) > MAX_TIME_MS:
        raise latest.error(f"expected a time at most {MAX_TIME_MS:.1e} ms after the first", "timestamp")
    return min(times)


def _campaign(rows: Sequence[SourceRow], tree: BlockTree) -> str:
    """Return an id that depends on what a file says, but not on how its blocks are named."""
    digest = hashlib.sha256()
    digest.update(tree.parents.tobytes())
    digest.update(array("q", _numbers(rows, tree)).tobytes())
    digest.update(array("d", [-1.0 if row.at_ms is None else row.at_ms for row in rows]).tobytes())
    return derived_id(FORMAT, "campaign of", digest.hexdigest())


def _numbers(rows: Sequence[SourceRow], tree: BlockTree) -> Iterator[int]:
    for row, path in zip(rows, tree.paths, strict=True):
        yield row.prompt_tokens
        yield row.completion_tokens
        yield path.nodes[-1] if path.nodes else -1
