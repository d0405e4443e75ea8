"""Read Mooncake JSONL and its dialects: every session of the file becomes a trace, all on the clock of the file.

1. Rows are parsed line by line (`mooncake_rows.py`) and put in the order of their times; ties keep the order of the file.
2. Sessions are those of `session_id` (AIPerf) or of `parent_chat_id` (Bailian). Where no row has either they are inferred
   from chains of block ids, with the doubts that `mooncake_sessions.py` gives.
3. What sessions share becomes shared prefixes of kind `group` (`shared_forest.py`).
4. Before a turn stands its `delay`. Where the file has times only, the wait is the time from the request before it: when
   that was answered is not known, so that is the most it can have been.

Files whose rows name other requests, or tools, are agentic Mooncake (`mooncake_agentic.py`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from rotoscope.traces.corpus import Member
from rotoscope.traces.errors import TraceError
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.mooncake_corpus import (
    CORPUS_ASPECTS,
    SourceCorpus,
    check_turns,
    domains_of,
    in_order,
    since,
    tree_of,
)
from rotoscope.traces.formats.mooncake_increments import hold_increments, whole_prompts
from rotoscope.traces.formats.mooncake_rows import SourceRows, parse_rows
from rotoscope.traces.formats.mooncake_sessions import Sessions, by_chain, by_id, by_parent
from rotoscope.traces.formats.source import Source
from rotoscope.traces.model import TraceEvent, Wait

logger = logging.getLogger(__name__)

SESSIONS = Aspect("sessions", "kept", unit="sessions")
INFERRED = Aspect(
    "sessions", "approximated", "inferred: a prompt goes on with all whole blocks of an earlier one", unit="sessions"
)
DOUBTFUL_STARTS = Aspect(
    "sessions",
    "approximated",
    "begins like an earlier prompt of one session but not like its last; taken as a session of its own",
)
DOUBTFUL_TURNS = Aspect(
    "sessions", "approximated", "goes on with less than the last prompt and its answer; taken as the next turn"
)
DELAYS = Aspect("waits between turns", "kept", unit="waits")
INCREMENTS = Aspect(
    "lengths of later turns",
    "approximated",
    "taken for what a turn adds to the turns and answers before it, since none begins like the one before it",
    unit="sessions",
)
TOLD_INCREMENTS = Aspect(
    "lengths of later turns",
    "kept",
    "what a turn adds to the turns and answers before it, as rows say",
    unit="sessions",
)
LONGEST_WAITS = Aspect(
    "waits between turns", "approximated", "time between the requests, which is the most it can have been", unit="waits"
)
FIRST_DELAYS = Aspect("delay before a session", "lost", "there is nothing that it could follow", unit="sessions")
READ_ASPECTS = (
    *CORPUS_ASPECTS,
    SESSIONS,
    TOLD_INCREMENTS,
    INCREMENTS,
    INFERRED,
    DOUBTFUL_STARTS,
    DOUBTFUL_TURNS,
    DELAYS,
    LONGEST_WAITS,
    FIRST_DELAYS,
)


def read_mooncake(source: Source, fidelity: Fidelity) -> list[Member]:
    """Read a Mooncake file, with or without sessions, or an agentic one; raise TraceError where it is damaged."""
    try:
        file = parse_rows(source, dialect="mooncake")
        if any(row.workflow is not None and row.workflow.is_linked for row in file.rows):
            from rotoscope.traces.formats.mooncake_agentic import agentic_members

            members = agentic_members(file, fidelity)
        elif any(row.session is not None for row in file.rows):
            members = _told(file, fidelity)
        else:
            members = _inferred(file, fidelity)
    except TraceError as error:
        raise error.at(source.name) from error.__cause__
    file.notes.log(logger, source.name)
    return members


def read_bailian(source: Source, fidelity: Fidelity) -> list[Member]:
    """Read a Bailian file; raise TraceError where it is damaged."""
    try:
        file = parse_rows(source, dialect="bailian")
        members = _members(file, by_parent(file.rows), fidelity)
    except TraceError as error:
        raise error.at(source.name) from error.__cause__
    file.notes.log(logger, source.name)
    return members


def _inferred(file: SourceRows, fidelity: Fidelity) -> list[Member]:
    rows = in_order(file.rows)
    file.notes.add("row earlier than the one before it (put in order)", _steps_back(file))
    domains = domains_of(rows)
    tree = tree_of(rows, domains, file.block_size)
    sessions = by_chain(rows, tree)
    fidelity.note(DOUBTFUL_STARTS, sessions.doubtful_starts)
    fidelity.note(DOUBTFUL_TURNS, sessions.doubtful_turns)
    return _traces(SourceCorpus.of(rows, sessions.of_rows, tree, domains), fidelity, INFERRED)


def _told(file: SourceRows, fidelity: Fidelity) -> list[Member]:
    """Return the sessions that rows name; their lengths are those of whole prompts, or what each turn adds."""
    sessions = by_id(file.rows)
    check_turns(file.rows, sessions.of_rows)
    if hold_increments(file.rows, sessions.of_rows, file.block_size):
        aspect = TOLD_INCREMENTS if any(row.is_delta for row in file.rows) else INCREMENTS
        fidelity.note(aspect, sum(turns > 1 for turns in Counter(sessions.of_rows).values()))
        file = replace(file, rows=whole_prompts(file.rows, sessions.of_rows, file.block_size))
    return _members(file, sessions, fidelity)


def _members(file: SourceRows, sessions: Sessions, fidelity: Fidelity) -> list[Member]:
    """Return sessions that the file tells; their turns stand in the order of their times."""
    rows = in_order(file.rows)
    names = dict(zip((row.line for row in file.rows), sessions.of_rows, strict=True))
    numbers: dict[int, int] = {}
    of_rows = [numbers.setdefault(names[row.line], len(numbers)) for row in rows]
    domains = domains_of(rows)
    tree = tree_of(rows, domains, file.block_size)
    return _traces(SourceCorpus.of(rows, of_rows, tree, domains), fidelity, SESSIONS)


def _traces(corpus: SourceCorpus, fidelity: Fidelity, sessions: Aspect) -> list[Member]:
    corpus.note(fidelity)
    rows = corpus.rows_by_session()
    fidelity.note(sessions, len(rows))
    return [corpus.member(session, indices, _events(corpus, indices, fidelity)) for session, indices in enumerate(rows)]


def _events(corpus: SourceCorpus, indices: Sequence[int], fidelity: Fidelity) -> Iterator[TraceEvent]:
    first_ms = corpus.rows[indices[0]].at_ms
    if corpus.rows[indices[0]].delay_ms:
        fidelity.note(FIRST_DELAYS)
    for number, index in enumerate(indices):
        if number:
            yield from _waits(corpus, indices[number - 1], index, fidelity)
        yield corpus.call(index, number=number, first_ms=first_ms)


def _waits(corpus: SourceCorpus, before: int, index: int, fidelity: Fidelity) -> Iterator[Wait]:
    row = corpus.rows[index]
    wait_ms = since(corpus.rows[before].at_ms, row.at_ms) if row.delay_ms is None else row.delay_ms
    if wait_ms:
        fidelity.note(LONGEST_WAITS if row.delay_ms is None else DELAYS)
        yield Wait(kind="think", duration_ms=wait_ms)


def _steps_back(file: SourceRows) -> int:
    times = [row.at_ms for row in file.rows if row.at_ms is not None]
    return sum(later < earlier for earlier, later in pairwise(times)) if len(times) == len(file.rows) else 0
