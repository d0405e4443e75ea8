"""Traces of the spans of a file: one a run, on one clock.

1. Spans are sorted into runs (`runs.py`), and calls that several of them tell of are found (`calls.py`).
2. What happened in a run is laid out on lines, with what was done beside it (`lines.py`).
3. It is played to a recorder (`playing.py`), so that what prompts share, who went on from whom and what the client did in
   between is found as in any recording: content is digested with a key that is then forgotten. Where spans hold no
   content, what prompts share is assumed (`assumed.py`), and marked so.

Spans that were made of a trace of ours (`spans_of_trace.py`) give that trace again.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TypeAlias

from rotoscope.recorder.calls import gather
from rotoscope.recorder.campaigns import Campaign
from rotoscope.recorder.counting import Tally
from rotoscope.recorder.recorder import Recorder
from rotoscope.recorder.token_counters import AUTO, TokenCounter, chosen_tokenizer, load_counter
from rotoscope.recorder.told import from_zero
from rotoscope.sdk.otlp import aspects, bodies, spellings
from rotoscope.sdk.otlp.assumed import Assumption
from rotoscope.sdk.otlp.calls import ModelCall, fold_calls
from rotoscope.sdk.otlp.histories import Histories
from rotoscope.sdk.otlp.lines import Laid, Line, Node, laid_out
from rotoscope.sdk.otlp.playing import Player
from rotoscope.sdk.otlp.reading import read_spans
from rotoscope.sdk.otlp.runs import Run, find_parents, find_runs
from rotoscope.sdk.otlp.spans import Key, Span
from rotoscope.sdk.otlp.tool_names import ToolNames
from rotoscope.sdk.otlp.trace_of_spans import is_ours, trace_of_spans
from rotoscope.sdk.otlp.untold import with_answers
from rotoscope.traces.corpus import Member
from rotoscope.traces.errors import TraceError
from rotoscope.traces.forest import normalise
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.fields import derived_id
from rotoscope.traces.formats.source import Source
from rotoscope.traces.journal import JournalHeader, JournalRecord
from rotoscope.traces.journal_files import JournalWriter
from rotoscope.traces.model import MAX_MILLISECONDS, Call, ParallelStart, Trace, TraceEvent
from rotoscope.traces.publish_ids import CorpusIds, random_ids, rekeyed
from rotoscope.traces.validation import validate

logger = logging.getLogger(__name__)

FORMAT = "otlp"
_MS_A_YEAR = 365.25 * 24 * 3600e3

Placed: TypeAlias = tuple[ModelCall, Line, str]
"""A call with its line and the innermost agent's span."""


def read(source: Source, fidelity: Fidelity) -> list[Member]:
    """Read the runs of a file; raise TraceError where it is damaged, or tells of no call."""
    try:
        return _members(_once(read_spans(source), fidelity), fidelity)
    except TraceError as error:
        raise error.at(source.name) from error.__cause__


def _once(spans: Sequence[Span], fidelity: Fidelity) -> list[Span]:
    """Return spans each once: of one that stands in the file again, the one that has ended, and the last of those."""
    known: dict[Key, Span] = {}
    for span in spans:
        before = known.get(span.key)
        if before is None or (span.end_ns or 0) >= (before.end_ns or 0):
            known[span.key] = span
    fidelity.note(aspects.REPEATED, len(spans) - len(known))
    return list(known.values())


def _members(spans: Sequence[Span], fidelity: Fidelity) -> list[Member]:
    by_trace: defaultdict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_trace[span.trace_id].append(span)
    ours = {trace_id: told for trace_id, told in by_trace.items() if is_ours(told)}
    fidelity.note(aspects.OURS, len(ours))
    others = sorted((x for x in spans if x.trace_id not in ours), key=lambda span: (span.start_ns, span.key))
    if not ours:
        return _members_of_others(others, fidelity)
    fidelity.note(aspects.BESIDE_OURS, len(others))
    return [
        trace_of_spans(told, name=str(number) if len(ours) > 1 else "") for number, told in enumerate(ours.values())
    ]


def _check_times(spans: Sequence[Span]) -> None:
    """Raise TraceError where spans are further apart than times of a trace may be, as where one has no real clock."""
    times = [time for span in spans for time in (span.start_ns, span.end_ns) if time is not None]
    apart_ms = (max(times, default=0) - min(times, default=0)) / 1e6
    if apart_ms > MAX_MILLISECONDS:
        years = apart_ms / _MS_A_YEAR
        raise TraceError(f"expected times in nanoseconds since 1970, found spans {years:.0f} years apart")


def _members_of_others(spans: Sequence[Span], fidelity: Fidelity) -> list[Member]:
    _check_times(spans)
    parents = find_parents(spans, fidelity)
    folded = fold_calls(spans, parents)
    fidelity.note(aspects.DOUBLES, folded.doubles)
    fidelity.note(aspects.CUT, sum(not span.has_all for span in spans if spellings.kind_of(span) == "call"))
    runs = find_runs(spans, with_answers(folded.calls), parents, fidelity)
    if not runs:
        raise TraceError("expected spans of model calls, found none: gen_ai.operation.name or its like tells them")
    campaign = Campaign(id=derived_id(FORMAT, "campaign", *sorted({span.trace_id for span in spans})))
    ids = CorpusIds(campaign.id, random_ids())
    played = [one for run in runs if (one := _play(run, campaign, ids, fidelity)) is not None]
    if not played:
        raise TraceError(
            "expected model calls with usage or content, found none: `rotoscope record` counts what spans do not"
        )
    return _on_one_clock(played)


@dataclass(frozen=True, slots=True)
class _Played:
    trace: Trace
    start_ns: int
    """The zero of its times."""
    starts: tuple[int, ...]
    """Of its calls, by their numbers."""


@dataclass(slots=True)
class _Plan:
    """What is to be played of a run."""

    run: Run
    laid: Laid
    calls: list[Placed]
    """Those of which something tells how long they are, by their starts."""
    tools: ToolNames
    assumption: Assumption
    has_lines: bool
    """Whether something stands above its calls, so that it is known who made them."""

    @classmethod
    def of(cls, run: Run, fidelity: Fidelity) -> _Plan:
        root = Node(None, children=run.roots)
        root.measure()
        laid = laid_out(root)
        calls = sorted(laid.calls, key=lambda one: one[0].start_ns)
        sized = [one for one in calls if one[0].has_content or one[0].has_usage or one[0].failed]
        fidelity.note(aspects.UNSIZED, len(calls) - len(sized))
        assumption = Assumption(is_beside_content=any(call.has_content for call, _, _ in sized))
        has_lines = not all(root.is_leaf and not root.children for root in run.roots)
        plan = cls(run, laid, sized, ToolNames.of(sized, laid.tools), assumption, has_lines)
        for call, line, agent in sized:
            if not call.has_content:
                plan.assumption.add(call, plan.conversation_of(call, line, agent), plan.tools.asked_by(call))
        fidelity.note(aspects.REFUSED, sum(not plan.has_words(call) for call, _, _ in sized))
        plan.calls = [one for one in sized if plan.has_words(one[0])]
        return plan

    def conversation_of(self, call: ModelCall, line: Line, agent: str) -> str | None:
        """Return what stands for the conversation of a call; None where nothing is said of that."""
        if not (call.conversation or agent or self.has_lines or len(self.run.traces) < len(self.run.roots)):
            return None
        return f"{line.name} {call.conversation or agent} {call.model}"

    def has_words(self, call: ModelCall) -> bool:
        return call.has_content or call in self.assumption.said


def _play(run: Run, campaign: Campaign, ids: CorpusIds, fidelity: Fidelity) -> _Played | None:
    """Return the trace of a run; None where nothing is known of the lengths of its calls.

    The runs of a file are a campaign: what they have in common has one id in all, a dense one that says nothing.
    """
    plan = _Plan.of(run, fidelity)
    memory, counter = _Memory(), _counter([call for call, _, _ in plan.calls])
    recorder = Recorder(
        memory,
        key=campaign.key,
        campaign=campaign.id,
        tokenizer=None if counter is None else counter.name,
        domain_of=campaign.domain_of,
    )
    player = Player(recorder, run.start_ns, has_lines=plan.has_lines or not plan.assumption.is_beside_content)
    _play_all(plan, player)
    if counter is not None:
        recorder.counted(Tally(counter).count(recorder.uncounted()))
    trace = recorder.close()
    for said in recorder.trouble:
        logger.warning("%s", said)
    fidelity.note(aspects.UNREAD, player.unread)
    if trace is None:
        return None
    told = {seen.number: player.calls[seen.opened.call] for seen in gather(from_zero(memory.records)).calls}
    trace = _marked(trace, told, plan.assumption, fidelity)
    trace = replace(rekeyed(trace, ids), trace_id=derived_id(FORMAT, "run", *sorted(run.traces)))
    validate(trace)
    _note(trace, list(told.values()), plan, fidelity)
    starts = tuple(told[number].start_ns for number in sorted(told))
    return _Played(trace, starts[0] - round((next(trace.calls()).at_ms or 0.0) * 1e6), starts)


class _Memory(JournalWriter):
    """Keeps the records of a journal, and writes none."""

    def __init__(self) -> None:
        self.records: list[JournalRecord] = []

    def begin(self, header: JournalHeader) -> None:
        pass

    def write(self, records: Iterable[JournalRecord]) -> None:
        self.records += records

    def close(self) -> None:
        pass


def _counter(calls: Sequence[ModelCall]) -> TokenCounter | None:
    """Return what counts content where there is a call that has no usage; None where nothing can, or need be."""
    if all(call.has_usage or not call.has_content for call in calls):
        return None
    return _counter_at_hand()


@cache
def _counter_at_hand() -> TokenCounter | None:
    """Return the tokenizer that is taken, which takes half a second to load, None where there is none."""
    tokenizer = chosen_tokenizer(AUTO)
    return None if tokenizer is None else load_counter(tokenizer)


def _play_all(plan: _Plan, player: Player) -> None:
    histories = Histories.of([call for call, _, _ in plan.calls])
    for place, (call, line, _) in enumerate(plan.calls):
        name, previous = histories.names.get(place, ""), histories.previous.get(place, "")
        if not call.has_content:
            player.call(call, line, partial(bodies.chat, call, plan.assumption.said[call]))
        elif call.is_response or name or previous:
            player.call(call, line, partial(bodies.response, call, call.said, name=name, previous=previous))
        else:
            player.call(call, line, partial(bodies.chat, call, call.said))
    for tool, line in plan.laid.tools:
        player.tool(plan.tools.names[tool], line, tool.start_ns, tool.end_ns or tool.start_ns)
    for span, line in plan.laid.embeddings:
        wire = bodies.embedding(spellings.model_of(span), spellings.usage_of(span).prompt_tokens)
        player.embedding(span.start_ns, span.end_ns or span.start_ns, line, wire)
    for fork in plan.laid.forks:
        player.fork(fork)
    player.play()


def _marked(trace: Trace, told: dict[int, ModelCall], assumption: Assumption, fidelity: Fidelity) -> Trace:
    """Say what spans tell and what they do not: prefixes without content are assumed, lines are as the client says."""
    prefixes = assumption.prefixes(trace, told)
    events: list[TraceEvent] = []
    for event in trace.events:
        if isinstance(event, Call) and told[event.call].is_stream and told[event.call].first_ns is None:
            event = replace(event, ttft_ms=None)  # its pieces came at times that nobody tells
        if isinstance(event, ParallelStart) and event.evidence == "own":
            event = replace(event, evidence="client")
        elif isinstance(event, Call) and event.call in prefixes:
            prefix, link = prefixes[event.call], event.link
            fidelity.note(aspects.OPAQUE if prefix.source == "opaque" else aspects.ASSUMED)
            fidelity.note(aspects.BORNE_OUT, 0 < (event.cached_tokens or 0) <= prefix.tokens)
            event = replace(event, prefix=prefix, masked=None, link=link and "client", rivals=None)
        elif isinstance(event, Call):
            fidelity.note(aspects.CONTENT)
            event = replace(event, link="client") if event.link == "own" else event
        events.append(event)
    return normalise(replace(trace, events=tuple(events)))


def _note(trace: Trace, kept: Sequence[ModelCall], plan: _Plan, fidelity: Fidelity) -> None:
    fidelity.note(aspects.LENGTHS, sum(call.has_usage for call in kept))
    fidelity.note(aspects.ESTIMATED, sum(not call.has_usage for call in kept))
    fidelity.note(aspects.TIMES, len(kept))
    fidelity.note(aspects.UNFINISHED, sum(call.span.end_ns is None for call in kept))
    attempts = sum((call.attempts or 1) - 1 for call in trace.calls())
    fidelity.note(aspects.REFUSED, len(plan.calls) - len(kept) - attempts)
    fidelity.note(aspects.TOOLS, len(plan.laid.tools))
    fidelity.note(aspects.BRANCHES, sum(len(fork.lines) for fork in plan.laid.forks))
    fidelity.note(aspects.TEXT, sum(call.has_content for call, _, _ in plan.calls))
    fidelity.note(aspects.NAMES)


def _on_one_clock(played: Sequence[_Played]) -> list[Member]:
    """Return the traces by their starts, on the clock of the file and in the order of all its calls."""
    played = sorted(played, key=lambda one: one.start_ns)
    zero_ns = played[0].start_ns
    places = sorted((at, run, number) for run, one in enumerate(played) for number, at in enumerate(one.starts))
    ranks: list[list[int]] = [[0] * len(one.starts) for one in played]
    for rank, (_, run, number) in enumerate(places):
        ranks[run][number] = rank
    return [
        Member(
            name=str(index) if len(played) > 1 else "",
            trace=one.trace,
            start_ms=round((one.start_ns - zero_ns) / 1e6, 3),
            ranks=tuple(ranks[index]),
        )
        for index, one in enumerate(played)
    ]
