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
from rotoscope.recorder.counting import Tally
from rotoscope.recorder.hashing import new_key
from rotoscope.recorder.recorder import Recorder
from rotoscope.recorder.token_counters import AUTO, TokenCounter, chosen_tokenizer, load_counter
from rotoscope.recorder.told import from_zero
from rotoscope.sdk.otlp import bodies, spellings
from rotoscope.sdk.otlp.assumed import Assumption
from rotoscope.sdk.otlp.calls import ModelCall, fold_calls, key_of
from rotoscope.sdk.otlp.histories import Histories
from rotoscope.sdk.otlp.lines import Laid, Line, Node, laid_out
from rotoscope.sdk.otlp.playing import Player
from rotoscope.sdk.otlp.reading import read_spans
from rotoscope.sdk.otlp.spans import Span
from rotoscope.sdk.otlp.tool_names import ToolNames
from rotoscope.sdk.otlp.trace_of_spans import is_ours, trace_of_spans
from rotoscope.traces.corpus import Member
from rotoscope.traces.errors import TraceError
from rotoscope.traces.forest import normalise
from rotoscope.traces.formats.fidelity import Aspect, Fidelity
from rotoscope.traces.formats.fields import derived_id
from rotoscope.traces.formats.source import Source
from rotoscope.traces.journal import JournalHeader, JournalRecord, JournalWriter
from rotoscope.traces.model import Call, ParallelStart, Prefix, Trace, TraceEvent
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
PUT = Aspect("tools and embeddings that stand alone", "approximated", "as of the run that they happened in", "spans")
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
    *(CONTENT, ASSUMED, ESTIMATED, ORPHANS, LOOSE, PUT, UNFINISHED),
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

    resource: int
    roots: list[Node] = field(default_factory=list)
    traces: set[str] = field(default_factory=set)
    is_loose: bool = False
    """Whether its calls stand alone, so that nothing tells of its lines."""

    @property
    def has_calls(self) -> bool:
        return any(root.has_calls for root in self.roots)

    def holds(self, node: Node) -> bool:
        """Tell whether something happened while it ran."""
        start_ns, end_ns = min(x.start_ns for x in self.roots), max(x.end_ns for x in self.roots)
        return start_ns <= node.start_ns and node.end_ns <= end_ns


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
    """Sort what happened into runs, by their starts."""
    tops: defaultdict[str, list[Node]] = defaultdict(list)
    for (trace_id, span_id), node in _nodes(spans, calls, parents).items():
        if (trace_id, span_id) not in parents:
            tops[trace_id].append(node)
    groups = _Groups()
    for span in spans:
        groups.add(span.trace_id)
        if conversation := spellings.conversation_of(span):
            groups.join(span.trace_id, f"conversation {conversation}")
    loose = {trace_id for trace_id, nodes in tops.items() if groups.is_alone(trace_id) and _stand_alone(nodes)}
    for trace_id in loose:
        groups.join(trace_id, f"resource {_resource_of(tops[trace_id])}")
    runs: dict[str, _Run] = {}
    for trace_id, nodes in tops.items():
        run = runs.setdefault(groups.find(trace_id), _Run(_resource_of(nodes)))
        run.roots += nodes
        run.traces.add(trace_id)
        run.is_loose = run.is_loose or trace_id in loose
    found = [run for run in runs.values() if run.has_calls]
    fidelity.note(LOOSE, sum(len(run.roots) for run in found if run.is_loose and len(run.roots) > 1))
    for run in runs.values():
        if not run.has_calls:
            _put_to_others(run, found, fidelity)
    return sorted(found, key=lambda run: min(root.start_ns for root in run.roots))


def _put_to_others(stray: _Run, runs: Sequence[_Run], fidelity: Fidelity) -> None:
    """Put tools and embeddings that stand alone to the run of their process that they happened in, if there is one."""
    for root in stray.roots:
        around = [run for run in runs if run.resource == stray.resource and run.holds(root)]
        if len(around) == 1:
            around[0].roots.append(root)
        fidelity.note(PUT if len(around) == 1 else STRAYS)


def _resource_of(nodes: Sequence[Node]) -> int:
    return nodes[0].span.resource if nodes[0].span else 0


def _stand_alone(tops: Sequence[Node]) -> bool:
    """Tell whether what happened in a trace has nothing above it."""
    return all(top.is_leaf and not top.children for top in tops)


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
    sized = _sized(laid, fidelity)
    counter = _counter([call for call, _, _ in sized])
    recorder = Recorder(memory, key=key, tokenizer=None if counter is None else counter.name)
    player = Player(recorder, start_ns, has_lines=not run.is_loose)
    assumption = Assumption()
    tools = ToolNames.of(sized, laid.tools)
    histories = Histories.of([call for call, _, _ in sized])
    for place, (call, line, agent) in enumerate(sized):
        if call.has_content:
            player.call(call, line, partial(_told, call, place, histories))
        else:
            conversation = f"{line.name} {call.conversation or agent} {call.model}"
            player.call(call, line, partial(_invented, call, conversation, tools.asked_by(call), assumption))
    _play_rest(laid, tools, player)
    player.play()
    if counter is not None:
        recorder.counted(Tally(counter).count(recorder.uncounted()))
    trace = recorder.close()
    for said in recorder.trouble:
        logger.warning("%s", said)
    if trace is None:
        return None
    numbers = {seen.number: player.order[seen.opened.call] for seen in gather(from_zero(memory.records)).calls}
    trace = _marked(trace, numbers, assumption, fidelity)
    trace = replace(trace, trace_id=derived_id(FORMAT, "run", *sorted(run.traces)), campaign=campaign)
    validate(trace)
    _note(trace, numbers, laid, fidelity)
    return _Played(trace, start_ns, tuple(numbers[number].start_ns for number in sorted(numbers)))


def _told(call: ModelCall, place: int, histories: Histories) -> bodies.Wire:
    name, previous = histories.names.get(place, ""), histories.previous.get(place, "")
    return (
        bodies.response(call, call.said, name=name, previous=previous)
        if name or previous
        else bodies.chat(call, call.said)
    )


def _invented(call: ModelCall, conversation: str, tools: Sequence[str], assumption: Assumption) -> bodies.Wire:
    return bodies.chat(call, assumption.said(call, conversation, tools))


def _sized(laid: Laid, fidelity: Fidelity) -> list[tuple[ModelCall, Line, str]]:
    """Return the calls of which something tells how long they are."""
    sized = sorted(
        (one for one in laid.calls if one[0].has_content or one[0].has_usage), key=lambda one: one[0].start_ns
    )
    fidelity.note(UNSIZED, len(laid.calls) - len(sized))
    return sized


def _counter(calls: Sequence[ModelCall]) -> TokenCounter | None:
    """Return what counts content where there is a call that has no usage; None where nothing can, or need be."""
    if all(call.has_usage or not call.has_content for call in calls):
        return None
    tokenizer = chosen_tokenizer(AUTO)
    return None if tokenizer is None else load_counter(tokenizer)


def _play_rest(laid: Laid, tools: ToolNames, player: Player) -> None:
    for tool, line in laid.tools:
        player.tool(tools.names[tool], line, tool.start_ns, tool.end_ns or tool.start_ns)
    for span, line in laid.embeddings:
        wire = bodies.embedding(spellings.model_of(span), spellings.usage_of(span).prompt_tokens, ())
        player.embedding(span.start_ns, span.end_ns or span.start_ns, line, wire)
    for fork in laid.forks:
        player.fork(fork)


def _marked(trace: Trace, numbers: dict[int, ModelCall], assumption: Assumption, fidelity: Fidelity) -> Trace:
    """Say of prefixes without content that they are assumed, and of lines that the client's spans tell of them."""
    prefixes = _assumed_prefixes(trace, numbers, assumption)
    events: list[TraceEvent] = []
    for event in trace.events:
        if isinstance(event, ParallelStart) and event.evidence == "own":
            event = replace(event, evidence="client")
        elif isinstance(event, Call) and event.call in prefixes:
            prefix, link = prefixes[event.call], event.link
            fidelity.note(OPAQUE if prefix.of is None else ASSUMED)
            event = replace(event, prefix=prefix, masked=None, link=link and "client", rivals=None)
        elif isinstance(event, Call):
            fidelity.note(CONTENT)
            event = replace(event, link="client") if event.link == "own" else event
        events.append(event)
    return normalise(replace(trace, events=tuple(events)))


def _assumed_prefixes(trace: Trace, numbers: dict[int, ModelCall], assumption: Assumption) -> dict[int, Prefix]:
    """Return the prefixes of calls without content, by their numbers."""
    by_call = {call: number for number, call in numbers.items()}
    longest: defaultdict[int, int] = defaultdict(int)
    prefixes: dict[int, Prefix] = {}
    for call in trace.calls():
        high = min(call.prompt_tokens, longest[call.domain])
        longest[call.domain] = max(longest[call.domain], call.stream_tokens)
        told = numbers[call.call]
        if told.has_content:
            continue
        of, tokens = call.prefix.of, call.prefix.tokens
        if told in assumption.found:
            of, tokens = by_call[assumption.found[told]], min(told.usage.cached_tokens or 0, call.prompt_tokens)
        is_known = isinstance(of, int) and tokens > 0
        prefixes[call.call] = (
            Prefix(of, tokens, "assumed", low=0, high=high) if is_known else Prefix(None, 0, "opaque", high=high)
        )
    return prefixes


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
