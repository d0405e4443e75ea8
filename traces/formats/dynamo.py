"""Read Dynamo request traces: sessions become traces, sub-sessions branches, replay hashes a prefix forest.

1. Records (`dynamo_records.py`) come in any order; requests are sorted by when they were received.
2. Sessions that go back to one are a trace (`dynamo_sessions.py`); requests that name no session are grouped by the
   prompts that they extend (`mooncake_sessions.py`).
3. Hashes mean the same in all sessions, so what these share are shared prefixes of kind group (`shared_forest.py`). A
   request without hashes may begin like anything: its prefix is opaque.
4. Tools have the times that the agent's harness reported; where it did not, the gap after an answer that asked for
   tools is theirs (`agent_timeline.py`).

Every model is a cache domain. Bodies, headers and names are never kept.
"""

from __future__ import annotations

import logging
import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rotoscope.traces.corpus import Member
from rotoscope.traces.errors import TraceError
from rotoscope.traces.formats.agent_lines import Line, Span, ToolNames, Turn
from rotoscope.traces.formats.agent_timeline import Timeline
from rotoscope.traces.formats.dynamo_records import Records, Request, SessionId, Tool, read_records
from rotoscope.traces.formats.dynamo_sessions import Run, Session, runs_of
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.fields import derived_id, trace_id_of
from rotoscope.traces.formats.mooncake_rows import SourceRow
from rotoscope.traces.formats.mooncake_sessions import by_chain
from rotoscope.traces.formats.shared_forest import BlockTree, SharedForest, forest_of
from rotoscope.traces.formats.source import Source
from rotoscope.traces.model import Call, Prefix, ToolName, Trace
from rotoscope.traces.validation import validate

logger = logging.getLogger(__name__)

FORMAT = "dynamo"

LENGTHS = Aspect("prompt and output lengths", "kept")
TIMES = Aspect("times of requests and first tokens", "kept")
CACHED = Aspect("cached tokens", "kept", "as what the server reported")
FINISH = Aspect("finish reasons", "kept")
DOMAINS = Aspect("models", "kept", "as cache domains, without their names")
SHARED = Aspect("what sessions share", "kept", "as shared prefixes of kind group", "sessions")
TOOLS = Aspect("tools that the harness reported", "kept", "with their times, under pseudonyms", "tools")
PREFIXES = Aspect("prefixes", "approximated", "whole blocks, each at least as long as is said")
BRANCHES = Aspect("sub-sessions", "approximated", "branches that fork and join where their times say", "sub-sessions")
AGENT_TOOLS = Aspect("tools that ran a sub-session", "approximated", "the branch stands for them", "tools")
GAP_TOOLS = Aspect("tools that nobody timed", "approximated", "the gap to the next request is theirs", "tools")
OVERLAPS = Aspect(
    "requests of one session that overlapped",
    "approximated",
    "branches beside the others, which join where their times say",
)
INFERRED = Aspect("sessions of requests that name none", "approximated", "inferred from prompts that grow")
CHOICES = Aspect("several choices of one request", "approximated", "a call each, with an equal share of the output")
NO_OUTPUT = Aspect("outputs without a length", "approximated", "taken as empty")
OPAQUE = Aspect("prefixes of requests without hashes", "lost", "they may begin like anything")
NO_PROMPT = Aspect("requests without a prompt length", "lost", "they cannot be replayed", "requests")
UNFINISHED = Aspect("tools that never ended", "lost", "nothing tells how long they ran", "tools")
BACKWARD = Aspect("tools that ended before they began", "lost", unit="tools")
STRAY_TOOLS = Aspect("tools of sessions without requests", "lost", unit="tools")
BODIES = Aspect("what requests and answers said", "lost", "content is never kept", "records")
HEADERS = Aspect("agent headers", "lost", "they may hold anything", "records")
OUTPUTS = Aspect("reuse of outputs", "lost", "the file does not say which tokens were generated")
SERVER = Aspect("workers, queues and other server times", "lost")

READ_ASPECTS = (
    *(LENGTHS, TIMES, CACHED, FINISH, DOMAINS, SHARED, TOOLS),
    *(PREFIXES, BRANCHES, AGENT_TOOLS, GAP_TOOLS, OVERLAPS, INFERRED, CHOICES, NO_OUTPUT),
    *(OPAQUE, NO_PROMPT, UNFINISHED, BACKWARD, STRAY_TOOLS, BODIES, HEADERS, OUTPUTS, SERVER),
)


def read(source: Source, fidelity: Fidelity) -> list[Member]:
    """Read the sessions of a file on its clock; what is left out or assumed is logged as warnings.

    Raise TraceError where the file is damaged.
    """
    records = read_records(source)
    try:
        members = _members(records, fidelity)
    except TraceError as error:
        raise error.at(source.name) from error.__cause__
    records.notes.add("segment of a rotated trace (put them together first, or sessions are cut)", _is_segment(source))
    records.notes.log(logger, source.name)
    return members


def _is_segment(source: Source) -> bool:
    """Whether a file has the name that Dynamo gives to one of several."""
    return re.search(r"\.\d{6}\.jsonl(\.gz)?$", source.name) is not None


def _members(records: Records, fidelity: Fidelity) -> list[Member]:
    requests = sorted((r for r in records.requests if r.prompt_tokens), key=lambda r: (r.start_ms, r.line))
    if not requests:
        raise TraceError("expected requests with the length of their prompt, found none")
    fidelity.note(NO_PROMPT, len(records.requests) - len(requests))
    _note(records, requests, fidelity)
    rows = _Rows.of(requests)
    runs = runs_of(requests)
    runs += rows.inferred_runs(fidelity)
    runs.sort(key=lambda run: min(index for session in run.sessions for index in session.requests))
    forest = rows.forest(runs)
    tools = _tools_by_session(records, runs, fidelity)
    names = ToolNames()
    campaign = derived_id(FORMAT, "campaign", *(request.id for request in requests))
    fidelity.note(SHARED, sum(bool(needed) for needed in forest.needed))
    members = []
    for number, run in enumerate(runs):
        lines = _Lines(rows, forest, tools, names)
        timeline = Timeline(lines.of_run(run))
        trace = Trace(
            trace_id=trace_id_of(FORMAT, run.name),
            campaign=campaign,
            token_source="given",
            prefix_granularity=rows.block_size,
            outputs="unknown",
            shared_prefixes=forest.shared_prefixes(number),
            events=timeline.events(),
        )
        validate(trace)
        _note_timeline(timeline, fidelity)
        start_ms = float(timeline.start_ms - requests[0].start_ms)
        members.append(Member(name=str(number), trace=trace, start_ms=start_ms, ranks=tuple(lines.ranks)))
    return members


def _note(records: Records, requests: Sequence[Request], fidelity: Fidelity) -> None:
    for aspect in (LENGTHS, TIMES, OUTPUTS, SERVER):
        fidelity.note(aspect, len(requests))
    fidelity.note(DOMAINS, sum(request.model is not None for request in requests))
    fidelity.note(PREFIXES, sum(bool(request.block_size) for request in requests))
    fidelity.note(OPAQUE, sum(not request.block_size for request in requests))
    fidelity.note(CACHED, sum(request.cached_tokens is not None for request in requests))
    fidelity.note(FINISH, sum(request.finish_reason != "unknown" for request in requests))
    fidelity.note(CHOICES, sum(request.choices > 1 for request in requests))
    fidelity.note(NO_OUTPUT, sum(request.completion_tokens is None for request in requests))
    fidelity.note(UNFINISHED, records.unfinished_tools)
    fidelity.note(BODIES, records.bodies)
    fidelity.note(HEADERS, records.headers)


def _note_timeline(timeline: Timeline, fidelity: Fidelity) -> None:
    fidelity.note(BRANCHES, timeline.forks)
    fidelity.note(AGENT_TOOLS, timeline.agent_tools)
    fidelity.note(GAP_TOOLS, timeline.untimed_tools)
    fidelity.note(OVERLAPS, timeline.overlapping)


@dataclass(slots=True)
class _Rows:
    """Calls in the order of their requests: several where a request has several choices."""

    requests: Sequence[Request]
    tree: BlockTree
    block_size: int
    domains: list[int]
    """By request."""
    owners: list[int] = field(default_factory=list)
    """By row: its request."""
    first: list[int] = field(default_factory=list)
    """By request: its first row."""

    @classmethod
    def of(cls, requests: Sequence[Request]) -> _Rows:
        block_size = _block_size(requests)
        models: dict[str | None, int] = {}
        domains = [models.setdefault(request.model, len(models)) for request in requests]
        rows = cls(requests, BlockTree(block_size), block_size, domains)
        for index, request in enumerate(requests):
            rows.first.append(len(rows.owners))
            for _ in range(request.choices):
                rows.owners.append(index)
                rows.tree.add(request.block_ids, request.prompt_tokens, domains[index])
        return rows

    def inferred_runs(self, fidelity: Fidelity) -> list[Run]:
        """Return the runs of requests that name no session."""
        indices = [index for index, request in enumerate(self.requests) if request.identity is None]
        fidelity.note(INFERRED, len(indices))
        tree = BlockTree(self.block_size)
        for index in indices:
            request = self.requests[index]
            tree.add(request.block_ids, request.prompt_tokens, self.domains[index])
        numbers = by_chain([_source_row(self.requests[index]) for index in indices], tree).of_rows
        sessions: dict[int, Session] = {}
        for index, number in zip(indices, numbers, strict=True):
            name = derived_id(FORMAT, "session of", self.requests[index].id)
            sessions.setdefault(number, Session(("", name))).requests.append(index)
        return [Run(session.id[1], session, (session,)) for session in sessions.values()]

    def forest(self, runs: Iterable[Run]) -> SharedForest:
        numbers = [0] * len(self.requests)
        for number, run in enumerate(runs):
            for session in run.sessions:
                for index in session.requests:
                    numbers[index] = number
        return forest_of(self.tree, [numbers[index] for index in self.owners])


def _block_size(requests: Sequence[Request]) -> int:
    first = next((request for request in requests if request.block_size), None)
    for request in requests:
        if first is not None and request.block_size not in (0, first.block_size):
            raise TraceError(
                f"expected {first.block_size} as on line {first.line}, found {request.block_size}",
                line=request.line,
                field="request.replay.trace_block_size",
            )
    return 1 if first is None else first.block_size


def _source_row(request: Request) -> SourceRow:
    return SourceRow(
        line=request.line,
        at_ms=request.start_ms,
        prompt_tokens=request.prompt_tokens,
        completion_tokens=request.completion_tokens or 0,
        block_ids=(),
        model=request.model,
        session=None,
        delay_ms=None,
    )


def _tools_by_session(records: Records, runs: Iterable[Run], fidelity: Fidelity) -> dict[SessionId, list[Tool]]:
    known = {session.id for run in runs for session in run.sessions if session.requests}
    tools: dict[SessionId, list[Tool]] = defaultdict(list)
    for tool in records.tools():
        if tool.session not in known:
            fidelity.note(STRAY_TOOLS)
        elif tool.end_ms < tool.start_ms:
            fidelity.note(BACKWARD)
        else:
            tools[tool.session].append(tool)
    fidelity.note(TOOLS, sum(map(len, tools.values())))
    return tools


@dataclass(slots=True)
class _Lines:
    """Makes the lines of one run."""

    rows: _Rows
    forest: SharedForest
    tools: dict[SessionId, list[Tool]]
    names: ToolNames
    ranks: list[int] = field(default_factory=list)
    """By call: its row."""
    numbers: dict[int, int] = field(default_factory=dict)
    """By row: its call."""

    def of_run(self, run: Run) -> Line:
        indices = sorted(index for session in run.sessions for index in session.requests)
        self.ranks = [
            self.rows.first[index] + choice for index in indices for choice in range(self.rows.requests[index].choices)
        ]
        self.numbers = {row: number for number, row in enumerate(self.ranks)}
        background = {tool.child for s in run.sessions for tool in self.tools.get(s.id, ()) if tool.is_background}
        lines = {session.id: self._line(session, session.id not in background) for session in run.sessions}
        for session in run.sessions:
            lines[session.id].lines += (lines[child.id] for child in session.children if _has_requests(child))
        return lines[run.root.id]

    def _line(self, session: Session, is_joined: bool) -> Line:
        tools = self.tools.get(session.id, [])
        asked: dict[str, int] = {}
        starts = [self.rows.requests[index].start_ms for index in session.requests]
        by_request = {self.rows.requests[index].id: self._number(index) for index in session.requests}
        for index in session.requests:
            for id_, name in self.rows.requests[index].asked:
                self.names.of(name)
                if id_ is not None:
                    asked[id_] = self._number(index)
        spans = []
        for tool in sorted(tools, key=lambda tool: tool.start_ms):
            call = asked.get(tool.id, by_request.get(tool.asking_request or ""))
            place = bisect_right(starts, tool.start_ms) - 1
            if call is None and place >= 0:
                call = self._number(session.requests[place])
            spans.append(Span(self.names.of(tool.name), tool.start_ms, tool.end_ms, call))
        timed: dict[int | None, list[ToolName]] = defaultdict(list)
        for span in spans:
            timed[span.call].append(span.tool_name)
        turns = [turn for index in session.requests for turn in self._turns(index, timed[self._number(index)])]
        return Line(turns, spans, is_joined=is_joined)

    def _number(self, index: int) -> int:
        return self.numbers[self.rows.first[index]]

    def _turns(self, index: int, timed: Sequence[ToolName]) -> Iterable[Turn]:
        """Yield a call for each choice of a request; `timed` are its tools of which it is known when they ran."""
        request = self.rows.requests[index]
        number = self._number(index)
        names = [self.names.of(name) for _, name in request.asked]
        names += (Counter(timed) - Counter(names)).elements()
        if request.finish_reason == "tool_calls" and not names:
            names = [self.names.of(None)]
        outputs, rest = divmod(request.completion_tokens or 0, request.choices)
        for choice in range(request.choices):
            call = Call(
                call=number + choice,
                domain=self.rows.domains[index],
                conversation_id=0,
                message_index=0,
                prompt_tokens=request.prompt_tokens,
                completion_tokens=outputs + (choice < rest),
                completion_tokens_source="estimate" if request.choices > 1 else None,
                prefix=self._prefix(request, self.rows.first[index] + choice),
                cached_tokens=request.cached_tokens,
                tool_calls=tuple(names) if choice == 0 else (),
                finish_reason=request.finish_reason,
                request=number if request.choices > 1 else None,
                ttft_ms=request.ttft_ms,
                duration_ms=round(request.end_ms - request.start_ms, 3),
            )
            untimed = tuple(names) if not timed and choice == request.choices - 1 else ()
            yield Turn(call, request.start_ms, request.end_ms, untimed, is_for_person=request.is_for_person)

    def _prefix(self, request: Request, row: int) -> Prefix:
        if not request.block_size:
            return Prefix(None, 0, "opaque", low=0, high=request.prompt_tokens)
        return self.forest.prefixes[row]


def _has_requests(session: Session) -> bool:
    """Whether it or anything that it started has requests; sessions nest in no circle."""
    waiting = [session]
    while waiting:
        at = waiting.pop()
        if at.requests:
            return True
        waiting += at.children
    return False
