"""Read TraceLab files: rounds of coding agents, with prefixes by the hit that the engine reported and nothing else.

1. Rounds (`tracelab_rounds.py`) of one session are sorted by when they were sent, then by their index. A request was
   sent when the last of its inputs was there, and had ended with the last piece of its answer.
2. A hit has no name. It is taken to lie in the session's previous round on the same model, or in the last earlier one
   that is long enough: `assumed`. A hit beyond the session's first prompt is the conversation's own, so it is the least
   that was shared; a shorter one may come from any session with the same system prompt, so nothing is sure. At most the
   whole of the named round was shared: a cache that forgot looks like a prompt that was changed.
3. What a session's first round found in the cache was made by somebody else: `opaque`.
4. Sessions that lie within a call of a tool that runs sub-agents are taken to be these (`tracelab_agents.py`).

Every model of a provider is a cache domain.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rotoscope.traces.corpus import Member
from rotoscope.traces.errors import TraceError
from rotoscope.traces.forest import normalise
from rotoscope.traces.formats.agent_lines import Line, Span, ToolNames, Turn
from rotoscope.traces.formats.agent_timeline import Timeline
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.fields import derived_id, trace_id_of
from rotoscope.traces.formats.source import Source
from rotoscope.traces.formats.tracelab_agents import Links, links_of
from rotoscope.traces.formats.tracelab_rounds import Round, Rounds, read_rounds
from rotoscope.traces.model import Call, Prefix, ToolName, Trace
from rotoscope.traces.validation import validate

logger = logging.getLogger(__name__)

FORMAT = "tracelab"

LENGTHS = Aspect("prompt and output lengths", "kept")
REASONING = Aspect("reasoning lengths", "kept")
CACHED = Aspect("hits", "kept", "as the cached tokens that the server reported")
DOMAINS = Aspect("providers and models", "kept", "as cache domains, without their names")
SESSIONS = Aspect("sessions", "kept", unit="sessions")
TOOLS = Aspect("tools", "kept", "from the call to its result, under pseudonyms", "tools")
PREFIXES = Aspect("prefixes", "approximated", "by the length of the hit, in the session's previous round")
NOT_SURE = Aspect(
    "prefixes no longer than the first prompt",
    "approximated",
    "the hit may come from another session; at least nothing",
)
CLIPPED = Aspect("hits longer than any round before", "approximated", "cut to the longest")
TIMES = Aspect("times", "approximated", "sent with the last input, ended with the last event of the answer")
NO_TIMES = Aspect("times of rounds without any", "approximated", "right after the round before")
AGENTS = Aspect(
    "sub-agents", "approximated", "sessions within a call that runs them; they may lie so by chance", "sessions"
)
DOUBTFUL = Aspect("sub-agents of one session or another", "approximated", "sessions of their own", "sessions")
AGENT_TOOLS = Aspect("tools that ran a sub-agent", "approximated", "the branch stands for them", "tools")
GAP_TOOLS = Aspect("tools that have no times", "approximated", "the gap to the next round is theirs", "tools")
UNSIZED = Aspect("reasoning of unknown length", "approximated", "that there was some")
OVERLAPS = Aspect(
    "rounds of one session that overlapped",
    "approximated",
    "branches beside the others, which join where their times say",
)
FINISH = Aspect("why answers ended", "approximated", "for tools where they asked for some, else unknown")
NO_OUTPUT = Aspect("outputs without a length", "approximated", "taken as empty")
FIRST = Aspect("hits of first rounds", "lost", "who made what they found is not in the file")
NO_HIT = Aspect("prefixes of rounds without a hit count", "lost", "they may begin like anything")
NO_PROMPT = Aspect("rounds without a prompt", "lost", "they cannot be replayed", "rounds")
OWN_TIMES = Aspect("how long the tool itself ran", "lost", "the time with approval and overhead is kept", "tools")
BACKWARD = Aspect("tools that ended before they began", "lost", unit="tools")
SIZES = Aspect("sizes in characters, and events between", "lost")
TEXTS = Aspect("texts", "lost", "content is never kept", "rounds")
FIRST_TOKENS = Aspect("times to the first token", "lost", "the file does not have them")

READ_ASPECTS = (
    *(LENGTHS, REASONING, CACHED, DOMAINS, SESSIONS, TOOLS),
    *(
        PREFIXES,
        NOT_SURE,
        CLIPPED,
        TIMES,
        NO_TIMES,
        AGENTS,
        DOUBTFUL,
        AGENT_TOOLS,
        GAP_TOOLS,
        UNSIZED,
        OVERLAPS,
        FINISH,
        NO_OUTPUT,
    ),
    *(FIRST, NO_HIT, NO_PROMPT, OWN_TIMES, BACKWARD, SIZES, TEXTS, FIRST_TOKENS),
)


def read(source: Source, fidelity: Fidelity) -> list[Member]:
    """Read the sessions of a file on its clock; what is left out or assumed is logged as warnings.

    Raise TraceError where the file is damaged.
    """
    rounds = read_rounds(source)
    try:
        members = _Reading.of(rounds, fidelity).members()
    except TraceError as error:
        raise error.at(source.name) from error.__cause__
    rounds.notes.log(logger, source.name)
    return members


@dataclass(frozen=True, slots=True)
class _Sent:
    """A round on the clock of the file."""

    round: Round
    start_ms: float
    end_ms: float


@dataclass(slots=True)
class _Reading:
    fidelity: Fidelity
    sessions: dict[str, list[_Sent]]
    """By their names, each in the order in which its rounds were sent."""
    links: Links
    domains: dict[tuple[str, str | None], int]
    names: ToolNames = field(default_factory=ToolNames)

    @classmethod
    def of(cls, rounds: Rounds, fidelity: Fidelity) -> _Reading:
        given: dict[str, list[Round]] = defaultdict(list)
        for round_ in rounds.rounds:
            given[round_.session].append(round_)
        links = links_of(given)
        used = {name: [r for r in session if r.prompt_tokens] for name, session in given.items()}
        sessions = {name: _in_time(session, fidelity) for name, session in used.items() if session}
        if not sessions:
            raise TraceError("expected rounds with a prompt, found none")
        domains: dict[tuple[str, str | None], int] = {}
        for sent in _sorted(sent for session in sessions.values() for sent in session):
            domains.setdefault((sent.round.provider, sent.round.model), len(domains))
        fidelity.note(NO_PROMPT, len(rounds.rounds) - sum(map(len, used.values())))
        fidelity.note(SESSIONS, len(sessions))
        fidelity.note(TEXTS, rounds.texts)
        fidelity.note(DOUBTFUL, links.doubtful)
        return cls(fidelity, sessions, links, domains)

    def members(self) -> list[Member]:
        order = _sorted(sent for session in self.sessions.values() for sent in session)
        ranks = {sent.round.line: rank for rank, sent in enumerate(order)}
        campaign = derived_id(FORMAT, "campaign", *sorted(self.sessions))
        runs: dict[str, dict[str, None]] = {}
        for sent in order:
            runs.setdefault(self._root(sent.round.session), {})[sent.round.session] = None
        return [
            self._member(number, tuple(names), campaign, ranks, zero_ms=order[0].start_ms)
            for number, names in enumerate(runs.values())
        ]

    def _root(self, name: str) -> str:
        while (parent := self.links.parents.get(name)) in self.sessions:
            assert parent is not None
            name = parent
        return name

    def _member(
        self, number: int, names: Sequence[str], campaign: str, ranks: dict[int, int], *, zero_ms: float
    ) -> Member:
        root = self._root(names[0])
        order = _sorted(sent for name in names for sent in self.sessions[name])
        numbers = {sent.round.line: call for call, sent in enumerate(order)}
        lines = {name: self._line(self.sessions[name], numbers) for name in names}
        for name in names:
            if name != root:
                lines[self.links.parents[name]].lines.append(lines[name])
        timeline = Timeline(lines[root])
        trace = normalise(
            Trace(
                trace_id=trace_id_of(FORMAT, root),
                campaign=campaign,
                token_source="given",
                outputs="unknown",
                events=timeline.events(),
            )
        )
        validate(trace)
        self._note_timeline(timeline)
        return Member(
            name=str(number),
            trace=trace,
            start_ms=round(timeline.start_ms - zero_ms, 3),
            ranks=tuple(ranks[sent.round.line] for sent in order),
        )

    def _note_timeline(self, timeline: Timeline) -> None:
        self.fidelity.note(AGENTS, timeline.forks)
        self.fidelity.note(AGENT_TOOLS, timeline.agent_tools)
        self.fidelity.note(GAP_TOOLS, timeline.untimed_tools)
        self.fidelity.note(OVERLAPS, timeline.overlapping)

    def _line(self, session: Sequence[_Sent], numbers: dict[int, int]) -> Line:
        line = Line()
        prefixes = _Prefixes(self.fidelity)
        for sent in session:
            domain = self.domains[sent.round.provider, sent.round.model]
            number = numbers[sent.round.line]
            names = tuple(self.names.of(tool.name) for tool in sent.round.tools)
            spans = self._spans(sent.round, number)
            call = _call(sent, number, domain, prefix=prefixes.of(sent.round, number, domain), tools=names)
            line.spans += spans
            untimed = () if spans else names
            line.turns.append(Turn(call, sent.start_ms, sent.end_ms, untimed, is_for_person=sent.round.is_for_person))
            self._note(sent.round)
        return line

    def _spans(self, round_: Round, number: int) -> list[Span]:
        spans = []
        for tool in round_.tools:
            if tool.start_ms is None or tool.end_ms is None:
                continue
            if tool.end_ms < tool.start_ms:
                self.fidelity.note(BACKWARD)
                continue
            self.fidelity.note(TOOLS)
            self.fidelity.note(OWN_TIMES, tool.has_own_time)
            spans.append(Span(self.names.of(tool.name), tool.start_ms, tool.end_ms, number))
        return spans

    def _note(self, round_: Round) -> None:
        for aspect in (LENGTHS, DOMAINS, FINISH, SIZES, FIRST_TOKENS):
            self.fidelity.note(aspect)
        self.fidelity.note(TIMES, round_.sent_ms is not None)
        self.fidelity.note(CACHED, round_.hit_tokens is not None)
        self.fidelity.note(REASONING, round_.reasoning_tokens is not None)
        self.fidelity.note(UNSIZED, round_.reasoning_tokens is None and round_.has_reasoning)
        self.fidelity.note(NO_OUTPUT, round_.completion_tokens is None)


def _call(sent: _Sent, number: int, domain: int, *, prefix: Prefix, tools: tuple[ToolName, ...]) -> Call:
    round_ = sent.round
    return Call(
        call=number,
        domain=domain,
        conversation_id=0,
        message_index=0,
        prompt_tokens=round_.prompt_tokens,
        completion_tokens=round_.completion_tokens or 0,
        reasoning_tokens=round_.reasoning_tokens or 0,
        reasoning_unsized=round_.reasoning_tokens is None and round_.has_reasoning,
        prefix=prefix,
        cached_tokens=round_.hit_tokens,
        tool_calls=tools,
        finish_reason="tool_calls" if tools else "unknown",
        duration_ms=None if round_.ended_ms is None else round(sent.end_ms - sent.start_ms, 3),
    )


def _in_time(rounds: Sequence[Round], fidelity: Fidelity) -> list[_Sent]:
    """Give each round of a session its times: one without any comes right after the one before it."""
    first_ms = next((round_.sent_ms for round_ in rounds if round_.sent_ms is not None), 0.0)
    sent: list[_Sent] = []
    now_ms = first_ms
    for round_ in sorted(rounds, key=lambda round_: round_.index):
        fidelity.note(NO_TIMES, round_.sent_ms is None)
        start_ms = now_ms if round_.sent_ms is None else round_.sent_ms
        now_ms = start_ms if round_.ended_ms is None else round_.ended_ms
        sent.append(_Sent(round_, start_ms, now_ms))
    return _sorted(sent)


def _sorted(sent: Iterable[_Sent]) -> list[_Sent]:
    return sorted(sent, key=lambda one: (one.start_ms, one.round.index, one.round.line))


@dataclass(slots=True)
class _Prefixes:
    """Names what the hits of one session lie in, round by round."""

    fidelity: Fidelity
    earlier: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    """By domain: the calls that came before, each with its length as a stream."""
    first_prompts: dict[int, int] = field(default_factory=dict)

    def of(self, round_: Round, number: int, domain: int) -> Prefix:
        prefix = self._prefix(round_, domain)
        self.first_prompts.setdefault(domain, round_.prompt_tokens)
        self.earlier[domain].append((number, round_.prompt_tokens + (round_.completion_tokens or 0)))
        return prefix

    def _prefix(self, round_: Round, domain: int) -> Prefix:
        earlier = self.earlier[domain]
        if not earlier or round_.hit_tokens is None:
            self.fidelity.note(NO_HIT if round_.hit_tokens is None else FIRST)
            return Prefix(None, 0, "opaque", low=0, high=round_.prompt_tokens)
        hit = round_.hit_tokens
        of, stream = next(((call, s) for call, s in reversed(earlier) if s >= hit), max(earlier, key=lambda e: e[1]))
        self.fidelity.note(CLIPPED, stream < hit)
        tokens = min(hit, stream)
        is_own = stream >= hit > self.first_prompts[domain]
        self.fidelity.note(PREFIXES)
        self.fidelity.note(NOT_SURE, not is_own)
        high = max(hit, min(round_.prompt_tokens, stream))
        return Prefix(of if tokens else None, tokens, "assumed", low=tokens if is_own else 0, high=high)
