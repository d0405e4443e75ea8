"""Traces of the spans of a file: one a run, on one clock.

1. Spans are sorted into runs. The spans of one OTLP trace are of one run, and so are traces that name one conversation or
   session. Calls that stand alone, each the root of a trace of its own, are one run for each process.
2. The calls of a run, each told of once (`calls.py`), are laid out on lines with what was done beside them (`lines.py`).
3. They are played to a recorder (`playing.py`), so that what prompts share, who went on from whom and what the client did
   in between is found as in any recording: content is digested with a key that is then forgotten. Where spans hold no
   content, what prompts share is assumed (`assumed.py`), and marked so.

Spans that were made of a trace of ours (`spans_of_trace.py`) give that trace again.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from rotoscope.recorder.calls import gather
from rotoscope.recorder.hashing import new_key
from rotoscope.recorder.recorder import Recorder
from rotoscope.recorder.told import from_zero
from rotoscope.sdk.otlp import bodies, spellings
from rotoscope.sdk.otlp.assumed import Assumption
from rotoscope.sdk.otlp.calls import ModelCall, fold_calls, key_of
from rotoscope.sdk.otlp.lines import Laid, Line, Node, laid_out
from rotoscope.sdk.otlp.playing import Player
from rotoscope.sdk.otlp.reading import read_spans
from rotoscope.sdk.otlp.spans import Span
from rotoscope.sdk.otlp.trace_of_spans import is_ours, trace_of_spans
from rotoscope.traces.corpus import Member
from rotoscope.traces.errors import TraceError
from rotoscope.traces.forest import normalise
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.fields import derived_id
from rotoscope.traces.formats.source import Source
from rotoscope.traces.journal import JournalHeader, JournalRecord, JournalWriter
from rotoscope.traces.model import Call, LinkEvidence, ParallelStart, Prefix, Trace, TraceEvent
from rotoscope.traces.validation import validate

logger = logging.getLogger(__name__)

FORMAT = "otlp"
DEEPEST_SPAN = 256
"""No agent nests so deep; what does is damage."""

LENGTHS = Aspect("prompt and output lengths", "kept", "as the server's usage")
TIMES = Aspect("times of calls", "kept")
TOOLS = Aspect("tools and when they ran", "kept", unit="tools")
BRANCHES = Aspect("who ran beside whom", "kept", "as the spans stand within one another", "branches")
CONTENT = Aspect(
    "prefixes of calls whose spans hold content", "approximated", "within bounds, by digests of the content"
)
ASSUMED = Aspect("prefixes of calls whose spans hold no content", "approximated", "assumed by conversation and counts")
OPAQUE = Aspect("prefixes of calls without content that begin anew", "lost", "they may begin like anything")
ESTIMATED = Aspect("lengths of calls without usage", "approximated", "estimated by the length of their content")
DOUBLES = Aspect(
    "spans that tell of a call that another tells of", "kept", "each call once, as the innermost tells", "spans"
)
ORPHANS = Aspect("spans whose parent is not in the file", "approximated", "as if nothing stood above them", "spans")
LOOSE = Aspect("calls that stand alone in traces of their own", "approximated", "as one run for each process")
UNFINISHED = Aspect("calls that had not ended", "approximated", "as lost in flight")
UNSIZED = Aspect("calls without usage and content", "lost", "nothing tells how long they are")
REFUSED = Aspect("calls that the server refused", "lost", "they were not sent again", "calls")
STRAYS = Aspect("tools and embeddings outside of any run", "lost", "their spans stand alone", "spans")
OURS = Aspect("traces that spans were made of", "kept", "each to every field", "traces")
BESIDE_OURS = Aspect(
    "spans beside those that were made of traces", "lost", "read them from a file of their own", "spans"
)
REPEATED = Aspect("spans that stand in the file more than once", "kept", "the one that has ended last", "spans")
TEXT = Aspect("content", "lost", "it is never kept", "spans")
MODELS = Aspect("names of models, tools and agents", "lost", "they are numbered", "traces")

READ_ASPECTS = (
    *(OURS, LENGTHS, TIMES, TOOLS, BRANCHES, DOUBLES, REPEATED),
    *(CONTENT, ASSUMED, ESTIMATED, ORPHANS, LOOSE, UNFINISHED),
    *(OPAQUE, UNSIZED, REFUSED, STRAYS, BESIDE_OURS, TEXT, MODELS),
)


def read(source: Source, fidelity: Fidelity) -> list[Member]:
    """Read the runs of a file; raise TraceError where it is damaged, or tells of no call."""
    try:
        return _members(_once(read_spans(source), fidelity), fidelity)
    except TraceError as error:
        raise error.at(source.name) from error.__cause__


@dataclass(slots=True, eq=False)
class _Run:
    """What happened in one run."""

    roots: list[Node] = field(default_factory=list)
    traces: set[str] = field(default_factory=set)
    is_loose: bool = False
    calls: list[ModelCall] = field(default_factory=list)


def _members(spans: Sequence[Span], fidelity: Fidelity) -> list[Member]:
    by_trace: defaultdict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_trace[span.trace_id].append(span)
    ours = {trace_id: told for trace_id, told in by_trace.items() if is_ours(told)}
    fidelity.note(OURS, len(ours))
    others = [span for span in spans if span.trace_id not in ours]
    if not ours:
        return _members_of_others(others, fidelity)
    fidelity.note(BESIDE_OURS, len(others))
    return [
        trace_of_spans(told, name=str(number) if len(ours) > 1 else "") for number, told in enumerate(ours.values())
    ]


def _members_of_others(spans: Sequence[Span], fidelity: Fidelity) -> list[Member]:
    by_key = {key_of(span): span for span in spans}
    parents = {key_of(span): by_key[above] for span in spans if (above := (span.trace_id, span.parent_id)) in by_key}
    fidelity.note(ORPHANS, sum(bool(span.parent_id) and key_of(span) not in parents for span in spans))
    folded = fold_calls(spans, parents)
    fidelity.note(DOUBLES, folded.doubles)
    runs = _runs(spans, folded.calls, parents, fidelity)
    if not runs:
        raise TraceError("expected spans of model calls, found none")
    campaign = derived_id(FORMAT, "campaign", *sorted({span.trace_id for span in spans}))
    key = new_key()
    played = [one for run in runs if (one := _play(run, campaign, key, fidelity)) is not None]
    if not played:
        raise TraceError("expected model calls with usage or content, found none")
    return _on_one_clock(played)


def _once(spans: Sequence[Span], fidelity: Fidelity) -> list[Span]:
    """Return spans each once: of one that stands in the file again, the one that has ended, and the last of those."""
    known: dict[tuple[str, str], Span] = {}
    for span in spans:
        before = known.get(key_of(span))
        if before is None or (span.end_ns or 0) >= (before.end_ns or 0):
            known[key_of(span)] = span
    fidelity.note(REPEATED, len(spans) - len(known))
    return list(known.values())


def _runs(
    spans: Sequence[Span], calls: Sequence[ModelCall], parents: dict[tuple[str, str], Span], fidelity: Fidelity
) -> list[_Run]:
    nodes = _nodes(spans, calls, parents)
    groups = _Groups()
    loose: defaultdict[int, list[str]] = defaultdict(list)
    for span in spans:
        groups.add(span.trace_id)
        if conversation := spellings.conversation_of(span):
            groups.join(span.trace_id, f"conversation {conversation}")
    roots = {key: node for key, node in nodes.items() if key not in parents}
    by_trace: defaultdict[str, list[Node]] = defaultdict(list)
    for (trace_id, _), node in roots.items():
        by_trace[trace_id].append(node)
    for trace_id, tops in by_trace.items():
        if groups.is_alone(trace_id) and _stand_alone(tops):
            loose[tops[0].span.resource if tops[0].span else 0].append(trace_id)
    for resource, traces in loose.items():
        for trace_id in traces:
            groups.join(trace_id, f"resource {resource}")
        if len(traces) > 1:
            fidelity.note(LOOSE, len(traces))
    runs: dict[str, _Run] = {}
    for trace_id, tops in by_trace.items():
        run = runs.setdefault(groups.find(trace_id), _Run())
        run.roots += tops
        run.traces.add(trace_id)
        run.is_loose = run.is_loose or any(trace_id in traces for traces in loose.values())
    return [run for run in runs.values() if any(root.has_calls for root in run.roots)]


def _stand_alone(tops: Sequence[Node]) -> bool:
    """Tell whether there are calls in a trace, and nothing above any of them."""
    return any(top.call for top in tops) and all(top.call or (top.is_leaf and not top.has_calls) for top in tops)


def _nodes(
    spans: Sequence[Span], calls: Sequence[ModelCall], parents: dict[tuple[str, str], Span]
) -> dict[tuple[str, str], Node]:
    """Return the nodes of all spans in which something happened, as trees."""
    nodes = {key_of(span): Node(span) for span in spans}
    for span in spans:
        kind = spellings.kind_of(span)
        node = nodes[key_of(span)]
        node.is_agent = kind == "agent"
        if kind == "tool":
            node.tool = span
        elif kind == "embedding":
            node.embedding = span
    for call in calls:
        nodes[key_of(call.span)].call = call
    below: defaultdict[tuple[str, str], list[tuple[str, str]]] = defaultdict(list)
    for key, parent in parents.items():
        below[key_of(parent)].append(key)
    kept: dict[tuple[str, str], Node] = {}
    for top in [key for key in nodes if key not in parents]:
        for key in reversed(_below(top, below)):
            node = nodes[key]
            node.children = [kept[child] for child in below[key] if child in kept]
            if node.is_leaf or node.children:
                node.measure()
                kept[key] = node
    return kept


def _below(top: tuple[str, str], below: dict[tuple[str, str], list[tuple[str, str]]]) -> list[tuple[str, str]]:
    """Return a span and all below it, each before what is below it."""
    found: list[tuple[str, str]] = []
    level = [top]
    for _ in range(DEEPEST_SPAN):
        if not level:
            return found
        found += level
        level = [child for key in level for child in below.get(key, ())]
    raise TraceError(f"expected spans nested at most {DEEPEST_SPAN} deep, found more", field=f"span {top[1]}")


@dataclass(slots=True)
class _Groups:
    """Sets of names that hang together."""

    leaders: dict[str, str] = field(default_factory=dict)
    sizes: Counter[str] = field(default_factory=Counter)

    def add(self, name: str) -> None:
        if name not in self.leaders:
            self.leaders[name] = name
            self.sizes[name] = 1

    def find(self, name: str) -> str:
        while self.leaders[name] != name:
            self.leaders[name] = self.leaders[self.leaders[name]]
            name = self.leaders[name]
        return name

    def join(self, one: str, other: str) -> None:
        self.add(one)
        self.add(other)
        first, second = self.find(one), self.find(other)
        if first != second:
            self.leaders[second] = first
            self.sizes[first] += self.sizes[second]

    def is_alone(self, name: str) -> bool:
        return self.sizes[self.find(name)] == 1


@dataclass(frozen=True, slots=True)
class _Played:
    trace: Trace
    start_ns: int
    starts: tuple[int, ...]
    """Of its calls, by their numbers."""


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


def _play(run: _Run, campaign: str, key: bytes, fidelity: Fidelity) -> _Played | None:
    """Return the trace of a run; None where nothing is known of the lengths of its calls."""
    root = Node(None, children=run.roots)
    root.measure()
    laid = laid_out(root)
    start_ns = root.start_ns
    memory = _Memory()
    recorder = Recorder(memory, key=key)
    player = Player(recorder, start_ns, has_lines=not run.is_loose)
    sized = _sized(laid, fidelity)
    assumption = Assumption()
    named = {call.previous_response for call, _, _ in sized if call.previous_response}
    for call, line, agent in sized:
        if call.has_content:
            player.call(call, line, partial(_told, call, named))
        else:
            conversation = f"{line.name} {call.conversation or agent} {call.model}"
            player.call(call, line, partial(_invented, call, conversation, _tools_behind(call, line, laid), assumption))
    _play_rest(laid, player)
    player.play()
    trace = recorder.close()
    for said in recorder.trouble:
        logger.warning("%s", said)
    if trace is None:
        return None
    numbers = {seen.number: player.order[seen.opened.call] for seen in gather(from_zero(memory.records)).calls}
    trace = _marked(trace, numbers, fidelity)
    trace = replace(trace, trace_id=derived_id(FORMAT, "run", *sorted(run.traces)), campaign=campaign)
    validate(trace)
    _note(trace, numbers, laid, fidelity)
    return _Played(trace, start_ns, tuple(numbers[number].start_ns for number in sorted(numbers)))


def _told(call: ModelCall, named: set[str]) -> bodies.Wire:
    if call.previous_response or call.response_id in named:
        return bodies.response(call, call.said, name=call.response_id, previous=call.previous_response)
    return bodies.chat(call, call.said)


def _invented(call: ModelCall, conversation: str, tools: Sequence[str], assumption: Assumption) -> bodies.Wire:
    return bodies.chat(call, assumption.said(call, conversation, tools))


def _sized(laid: Laid, fidelity: Fidelity) -> list[tuple[ModelCall, Line, str]]:
    """Return the calls of which something tells how long they are."""
    sized = [one for one in laid.calls if one[0].has_content or one[0].has_usage]
    fidelity.note(UNSIZED, len(laid.calls) - len(sized))
    return sized


def _tools_behind(call: ModelCall, line: Line, laid: Laid) -> list[str]:
    """Return the names of the tools that ran on a line between a call and the next one."""
    if call.end_ns is None:
        return []
    later = (other.start_ns for other, of, _ in laid.calls if of is line and other.start_ns > call.start_ns)
    until_ns = min(later, default=None)
    return [
        spellings.tool_name_of(tool)
        for tool, of in laid.tools
        if of is line and call.end_ns <= tool.start_ns and (until_ns is None or tool.start_ns < until_ns)
    ]


def _play_rest(laid: Laid, player: Player) -> None:
    for tool, line in laid.tools:
        player.tool(spellings.tool_name_of(tool), line, tool.start_ns, tool.end_ns or tool.start_ns)
    for span, line in laid.embeddings:
        wire = bodies.embedding(spellings.model_of(span), spellings.usage_of(span).prompt_tokens, ())
        player.embedding(span.start_ns, span.end_ns or span.start_ns, line, wire)
    for fork in laid.forks:
        player.fork(fork)


def _marked(trace: Trace, numbers: dict[int, ModelCall], fidelity: Fidelity) -> Trace:
    """Say of prefixes without content that they are assumed, and of lines that the client's spans tell of them."""
    events = tuple(_marked_event(event, numbers, fidelity) for event in trace.events)
    return normalise(replace(trace, events=events))


def _marked_event(event: TraceEvent, numbers: dict[int, ModelCall], fidelity: Fidelity) -> TraceEvent:
    if isinstance(event, ParallelStart) and event.evidence == "own":
        return replace(event, evidence="client")
    if not isinstance(event, Call):
        return event
    if numbers[event.call].has_content:
        fidelity.note(CONTENT)
        return replace(event, link="client") if event.link == "own" else event
    link: LinkEvidence | None = None if event.link is None else "client"
    goes_on = isinstance(event.prefix.of, int)
    fidelity.note(ASSUMED if goes_on else OPAQUE)
    prefix = Prefix(None, 0, "opaque", high=event.prompt_tokens)
    if goes_on:
        prefix = Prefix(event.prefix.of, event.prefix.tokens, "assumed", low=0, high=event.prompt_tokens)
    return replace(event, prefix=prefix, masked=None, link=link, rivals=None)


def _note(trace: Trace, numbers: dict[int, ModelCall], laid: Laid, fidelity: Fidelity) -> None:
    calls = list(numbers.values())
    fidelity.note(LENGTHS, sum(call.has_usage for call in calls))
    fidelity.note(ESTIMATED, sum(not call.has_usage for call in calls))
    fidelity.note(TIMES, len(calls))
    fidelity.note(UNFINISHED, sum(call.end_ns is None for call in calls))
    fidelity.note(
        REFUSED,
        sum(call.failed and 400 <= call.status < 500 for call, _, _ in laid.calls)
        - sum(call.failed and 400 <= call.status < 500 for call in calls),
    )
    fidelity.note(TOOLS, len(laid.tools))
    fidelity.note(BRANCHES, sum(len(fork.lines) for fork in laid.forks))
    fidelity.note(TEXT, sum(call.has_content for call in calls))
    fidelity.note(MODELS)


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
