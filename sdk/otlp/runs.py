"""Which spans are of one run, and how they stand within one another.

The spans of one OpenTelemetry trace are of one run, and so are traces that name one conversation or session. A call that
stands alone, the root of a trace of its own that names neither, is of one run with all such calls of its process. Tools
and embeddings that stand alone are of the run of their process that they happened in, where there is one such run.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from rotoscope.sdk.otlp import aspects, spellings
from rotoscope.sdk.otlp.calls import ModelCall
from rotoscope.sdk.otlp.lines import Node
from rotoscope.sdk.otlp.spans import Key, Span
from rotoscope.traces.errors import TraceError
from rotoscope.traces.formats.fidelity import Fidelity

DEEPEST_SPAN = 4096
"""No agent nests so deep; what does is damage."""

Parents: TypeAlias = Mapping[Key, Span]
"""The parent of each span that has one in the file."""


@dataclass(slots=True, eq=False)
class Run:
    """What happened in one run."""

    resource: int
    roots: list[Node] = field(default_factory=list)
    traces: set[str] = field(default_factory=set)
    is_loose: bool = False
    """Whether its calls stand alone."""

    @property
    def has_calls(self) -> bool:
        return any(root.has_calls for root in self.roots)

    @property
    def start_ns(self) -> int:
        return min(root.start_ns for root in self.roots)

    @property
    def end_ns(self) -> int:
        return max(root.end_ns for root in self.roots)


def find_parents(spans: Sequence[Span], fidelity: Fidelity) -> dict[Key, Span]:
    """Return the parent of each span that has one; of spans that are each above the other, one has none."""
    by_key = {span.key: span for span in spans}
    parents = {span.key: by_key[above] for span in spans if (above := (span.trace_id, span.parent_id)) in by_key}
    rooted: set[Key] = set()
    for span in spans:
        line: dict[Key, None] = {}
        key = span.key
        while key in parents and key not in rooted and key not in line:
            line[key] = None
            key = parents[key].key
        if key in line:
            del parents[key]
        rooted.update(line)
    fidelity.note(aspects.ORPHANS, sum(bool(span.parent_id) and span.key not in parents for span in spans))
    return parents


def find_runs(spans: Sequence[Span], calls: Sequence[ModelCall], parents: Parents, fidelity: Fidelity) -> list[Run]:
    """Sort what happened into runs, by their starts; `calls` are those of the spans, each once."""
    tops: defaultdict[str, list[Node]] = defaultdict(list)
    for (trace_id, span_id), node in _nodes(spans, calls, parents).items():
        if (trace_id, span_id) not in parents:
            tops[trace_id].append(node)
    groups = _Groups()
    for span in spans:
        groups.add(span.trace_id)
        if conversation := spellings.conversation_of(span):
            groups.join(span.trace_id, f"conversation {conversation}")
    loose = {trace_id for trace_id, nodes in tops.items() if groups.is_alone(trace_id) and _stands_alone(nodes)}
    for trace_id in loose:
        groups.join(trace_id, f"resource {_resource_of(tops[trace_id])}")
    runs: dict[str, Run] = {}
    for trace_id, nodes in tops.items():
        run = runs.setdefault(groups.find(trace_id), Run(_resource_of(nodes), is_loose=trace_id in loose))
        run.roots += nodes
        run.traces.add(trace_id)
    found = [run for run in runs.values() if run.has_calls]
    alone = (sum(root.has_calls for root in run.roots) for run in found if run.is_loose)
    fidelity.note(aspects.LOOSE, sum(calls for calls in alone if calls > 1))
    _put_to_others([run for run in runs.values() if not run.has_calls], found, fidelity)
    return sorted(found, key=lambda run: run.start_ns)


def _put_to_others(strays: Iterable[Run], runs: Iterable[Run], fidelity: Fidelity) -> None:
    """Put what happened outside of any run to the only one of its process that was under way."""
    lasted: defaultdict[int, list[tuple[int, int, Run]]] = defaultdict(list)
    for run in runs:
        lasted[run.resource].append((run.start_ns, run.end_ns, run))
    for stray in strays:
        for root in stray.roots:
            around = [
                run for start, end, run in lasted[stray.resource] if start <= root.start_ns and root.end_ns <= end
            ]
            if len(around) == 1:
                around[0].roots.append(root)
            fidelity.note(aspects.PUT if len(around) == 1 else aspects.STRAYS)


def _resource_of(nodes: Sequence[Node]) -> int:
    return nodes[0].span.resource if nodes[0].span else 0


def _stands_alone(tops: Sequence[Node]) -> bool:
    """Tell whether all that happened in a trace is one thing."""
    return len(tops) == 1 and tops[0].is_leaf and not tops[0].children


def _nodes(spans: Sequence[Span], calls: Sequence[ModelCall], parents: Parents) -> dict[Key, Node]:
    """Return the nodes of all spans in which something happened, as trees."""
    nodes = {span.key: Node(span) for span in spans}
    for span in spans:
        kind, node = spellings.kind_of(span), nodes[span.key]
        node.is_agent = kind == "agent"
        node.tool = span if kind == "tool" else None
        node.embedding = span if kind == "embedding" else None
    for call in calls:
        nodes[call.span.key].call = call
    below: defaultdict[Key, list[Key]] = defaultdict(list)
    for key, parent in parents.items():
        below[parent.key].append(key)
    kept: dict[Key, Node] = {}
    for top in [key for key in nodes if key not in parents]:
        for key in reversed(_from(top, below)):
            node = nodes[key]
            node.children = [kept[child] for child in below.get(key, ()) if child in kept]
            if node.is_leaf or node.children:
                node.measure()
                kept[key] = node
    return kept


def _from(top: Key, below: Mapping[Key, Sequence[Key]]) -> list[Key]:
    """Return a span and all below it, each before what is below it."""
    found: list[Key] = []
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
