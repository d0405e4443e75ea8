"""Read Weka traces (AgentX JSON): block ids become a prefix forest, times and sub-agents branches, tools and waits.

A file holds one session, or one a line.

1. Requests and sub-agents are put on one clock and numbered (`weka_schedule.py`); events follow from that
   (`weka_timeline.py`).
2. Prefixes follow from the block ids (`block_forest.py`). Where ids mean the same in several sessions of a file, what
   these share are shared prefixes of kind group (`shared_forest.py`).
3. Every model is a cache domain of its own. Outputs have no ids: they are unknown.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rotoscope.traces.corpus import Member
from rotoscope.traces.errors import TraceError
from rotoscope.traces.formats.block_forest import BlockForest
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.fields import Notes, derived_id, trace_id_of
from rotoscope.traces.formats.shared_forest import Row, shared_forest
from rotoscope.traces.formats.source import HEAD_BYTES, Source
from rotoscope.traces.formats.weka_requests import SourceTrace, parse_session
from rotoscope.traces.formats.weka_schedule import Schedule, Sent
from rotoscope.traces.formats.weka_timeline import Timeline
from rotoscope.traces.model import ParallelEnd, ParallelStart, Prefix, SharedPrefix, ToolCall, Trace, Wait
from rotoscope.traces.reader import parse_json
from rotoscope.traces.validation import validate

logger = logging.getLogger(__name__)

FORMAT = "weka"

LENGTHS = Aspect("prompt and output lengths", "kept")
DOMAINS = Aspect("models", "kept", "as cache domains, without their names")
TIMES = Aspect("times of requests", "kept")
DURATIONS = Aspect("durations of answers", "kept")
FIRST_TOKENS = Aspect("times to the first token", "kept")
WAITS = Aspect("gaps that are no tools", "kept", "as waits", "gaps")
AGENTS = Aspect("sub-agents", "kept", "as branches", "sub-agents")
SCOPE = Aspect("what sessions share", "kept", "as shared prefixes of kind group", "sessions")
PREFIXES = Aspect("prefixes", "approximated", "whole blocks, each at least as long as is said")
TOOLS = Aspect("tools", "approximated", "one for each gap before a tool's result, without a name", "gaps")
REASONING = Aspect("reasoning", "approximated", "that there was some, but not how much")
JOINS = Aspect("joins", "approximated", "before the first request after all sub-agents have ended", "regions")
OUTPUTS = Aspect("reuse of outputs", "lost", "the file does not say which tokens were generated")
NO_DURATIONS = Aspect("durations of some answers", "lost", "the file does not have them")
NO_SCOPE = Aspect("what files share", "lost", "ids hold across files, but a file is read by itself", "sessions")
MESSAGES = Aspect("messages", "lost", "the file has none")
SIZES = Aspect("sizes of tools and system prompt, totals, kinds of sub-agents", "lost", unit="sessions")

READ_ASPECTS = (
    *(LENGTHS, DOMAINS, TIMES, DURATIONS, FIRST_TOKENS, WAITS, AGENTS, SCOPE),
    *(PREFIXES, TOOLS, REASONING, JOINS),
    *(OUTPUTS, NO_DURATIONS, NO_SCOPE, MESSAGES, SIZES),
)


def read(source: Source, fidelity: Fidelity) -> list[Member]:
    """Read the sessions of a file; what is left out or assumed is logged as warnings.

    Where ids mean the same in several sessions, the order of the file is the order of their calls. Raise TraceError
    where the file is damaged.
    """
    reading = _Reading(fidelity)
    try:
        for line, value in _values(source):
            reading.add(parse_session(value, reading.notes, line=line))
        members = reading.members()
    except TraceError as error:
        raise error.at(source.name) from error.__cause__
    reading.notes.log(logger, source.name)
    return members


def read_weka(data: bytes, path: str = "") -> Trace:
    """Read the only session of a file from its bytes; `path` is for messages. Raise TraceError where it is damaged."""
    members = read(Source.of_bytes(data, path), Fidelity())
    if len(members) != 1:
        raise TraceError(f"expected one session, found {len(members)}", path=path)
    return members[0].trace


def _values(source: Source) -> Iterator[tuple[int | None, Any]]:
    """Yield the JSON values of a file with their lines, one for all of it where it is not one a line."""
    if _is_one_a_line(source.head):
        yield from source.lines()
    else:
        yield None, parse_json(source.whole())


def _is_one_a_line(head: bytes) -> bool:
    """Say whether the first line is an object and others follow; where no line ends in the head, it may be either."""
    first, ends, rest = head.lstrip().partition(b"\n")
    if not ends:
        return len(head) >= HEAD_BYTES
    try:
        return bool(rest.strip()) and isinstance(parse_json(first), dict)
    except TraceError:
        return False


@dataclass(frozen=True, slots=True)
class _Session:
    """A session whose ids mean the same in others, until all of these are known."""

    place: int
    trace_id: str
    source: SourceTrace
    schedule: Schedule


@dataclass(slots=True)
class _Reading:
    """Takes the sessions of a file one by one."""

    fidelity: Fidelity
    notes: Notes = field(default_factory=Notes)
    traces: dict[int, Trace] = field(default_factory=dict)
    """By place in the file."""
    waiting: dict[int, list[_Session]] = field(default_factory=dict)
    """Sessions whose ids mean the same in all of them, by block size."""
    ids: Counter[str] = field(default_factory=Counter)
    seen: set[int] = field(default_factory=set)
    sessions: int = 0

    def add(self, source: SourceTrace) -> None:
        """Add the next session."""
        same = hash(source.entries)
        self.notes.add("session with the same requests as an earlier one (kept)", same in self.seen)
        self.seen.add(same)
        session = _Session(self.sessions, self._trace_id(source), source, Schedule.of(source))
        self.sessions += 1
        if source.is_global:
            self.waiting.setdefault(source.block_size, []).append(session)
        else:
            self._add_alone(session)

    def members(self) -> list[Member]:
        """Return all of them; those whose ids mean the same have one order."""
        for sessions in self.waiting.values():
            if len(sessions) > 1:
                self._add_together(sessions)
            else:
                self._add_alone(sessions[0])
        traces = [self.traces[place] for place in range(self.sessions)]
        if len(traces) == 1:
            return [Member(name="", trace=traces[0])]
        ranks = _ranks(traces) if any(len(sessions) > 1 for sessions in self.waiting.values()) else [None] * len(traces)
        return [
            Member(name=str(place), trace=trace, ranks=rank)
            for place, (trace, rank) in enumerate(zip(traces, ranks, strict=True))
        ]

    def _trace_id(self, source: SourceTrace) -> str:
        trace_id = trace_id_of(FORMAT, source.trace_id)
        self.ids[trace_id] += 1
        if self.ids[trace_id] == 1:
            return trace_id
        self.notes.add("session with the id of an earlier one (numbered)")
        return derived_id(FORMAT, trace_id, str(self.ids[trace_id]))

    def _add_alone(self, session: _Session) -> None:
        calls = session.schedule.calls()
        domains = _domains(calls, {})
        forest = BlockForest(session.source.block_size)
        prefixes = [
            forest.prefix(
                sent.call,
                domain=domain,
                block_ids=sent.request.block_ids,
                prompt_tokens=sent.request.prompt_tokens,
            )
            for sent, domain in zip(calls, domains, strict=True)
        ]
        campaign = derived_id(FORMAT, "campaign of", session.trace_id)
        trace = self._trace(session, campaign, domains, prefixes, ())
        self.notes.add("hash_id_scope global in a file of one session (read as local)", session.source.is_global)
        self._keep(session, trace, NO_SCOPE if session.source.is_global else None)

    def _add_together(self, sessions: Sequence[_Session]) -> None:
        """Add sessions whose ids mean the same; so do their domains and shared prefixes."""
        models: dict[str | None, int] = {}
        calls = [session.schedule.calls() for session in sessions]
        domains = [_domains(sent, models) for sent in calls]
        rows = (
            Row(number, sent.request.block_ids, sent.request.prompt_tokens, domain)
            for number, of in enumerate(calls)
            for sent, domain in zip(of, domains[number], strict=True)
        )
        forest = shared_forest(rows, sessions[0].source.block_size)
        campaign = derived_id(FORMAT, "campaign of", *(session.trace_id for session in sessions))
        first = 0
        for number, session in enumerate(sessions):
            prefixes = list(forest.prefixes[first : first + len(calls[number])])
            first += len(calls[number])
            shared = forest.shared_prefixes(number) if calls[number] else ()
            self._keep(session, self._trace(session, campaign, domains[number], prefixes, shared), SCOPE)

    def _trace(
        self,
        session: _Session,
        campaign: str,
        domains: list[int],
        prefixes: list[Prefix],
        shared: tuple[SharedPrefix, ...],
    ) -> Trace:
        return Trace(
            trace_id=session.trace_id,
            campaign=campaign,
            token_source="given",
            prefix_granularity=session.source.block_size,
            outputs="unknown",
            shared_prefixes=shared,
            events=Timeline.of(session.schedule, domains, prefixes, self.notes).in_order(),
        )

    def _keep(self, session: _Session, trace: Trace, scope: Aspect | None) -> None:
        validate(trace)
        self.traces[session.place] = trace
        _note(trace, self.fidelity)
        if scope is not None:
            self.fidelity.note(scope)


def _domains(calls: Sequence[Sent], models: dict[str | None, int]) -> list[int]:
    """Return the domain of each call, numbering models by their first call."""
    return [models.setdefault(sent.request.model, len(models)) for sent in calls]


def _ranks(traces: Sequence[Trace]) -> list[tuple[int, ...] | None]:
    """Return the ranks of calls that come one trace after the other."""
    ranks: list[tuple[int, ...] | None] = []
    first = 0
    for trace in traces:
        calls = sum(1 for _ in trace.calls())
        ranks.append(tuple(range(first, first + calls)))
        first += calls
    return ranks


def _note(trace: Trace, fidelity: Fidelity) -> None:
    calls, events = list(trace.calls()), trace.events
    for aspect in (LENGTHS, DOMAINS, TIMES, PREFIXES, OUTPUTS, MESSAGES):
        fidelity.note(aspect, len(calls))
    timed = sum(call.duration_ms is not None for call in calls)
    fidelity.note(DURATIONS, timed)
    fidelity.note(NO_DURATIONS, len(calls) - timed)
    fidelity.note(FIRST_TOKENS, sum(call.ttft_ms is not None for call in calls))
    fidelity.note(REASONING, sum(call.reasoning_unsized for call in calls))
    fidelity.note(TOOLS, sum(isinstance(event, ToolCall) for event in events))
    fidelity.note(WAITS, sum(isinstance(event, Wait) for event in events))
    fidelity.note(AGENTS, sum(event.num_branches for event in events if isinstance(event, ParallelStart)))
    fidelity.note(JOINS, sum(isinstance(event, ParallelEnd) for event in events))
    fidelity.note(SIZES)
