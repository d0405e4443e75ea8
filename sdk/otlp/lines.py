"""Who did what beside whom: from the tree of spans to lines of calls, where they fork and where they join.

All that happened within a span happened on its line, but for two kinds of what is in it:

1. An agent within another agent that makes calls itself has a line of its own.
2. Of what happened at the same time, whatever has calls within it and is no call itself has a line of its own.
3. So has each branch of a fan-out that our own decorators tell of, whether it overlaps or not.

Lines that were begun below one span, and overlap or hang together by overlaps, are one fork. It joins when all of it has
ended, unless the span that began it, and all else on its line, had ended before: then nobody waited.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rotoscope.sdk.conventions import BRANCH, EVENT_TYPE, PARALLEL
from rotoscope.sdk.otlp.calls import ModelCall
from rotoscope.sdk.otlp.spans import Span

ROOT = "0"


@dataclass(eq=False, slots=True)
class Line:
    """What one agent did, one thing after another."""

    name: str
    parent: Line | None = None


@dataclass(frozen=True, slots=True)
class Fork:
    """Lines that began together."""

    region: str
    lines: Sequence[Line]
    start_ns: int
    end_ns: int | None
    """When they were joined; None where nobody waited for them."""


@dataclass(eq=False, slots=True)
class Node:
    """A span, or the run itself, with what happened in it."""

    span: Span | None
    is_agent: bool = False
    call: ModelCall | None = None
    tool: Span | None = None
    embedding: Span | None = None
    children: list[Node] = field(default_factory=list)
    start_ns: int = 0
    end_ns: int = 0
    has_calls: bool = False
    own_calls: int = 0
    """Calls in it that are in no agent further down."""

    @property
    def is_leaf(self) -> bool:
        """Whether it is a call, a tool or an embedding itself."""
        return self.call is not None or self.tool is not None or self.embedding is not None

    def measure(self) -> None:
        """Say when it was, by what happened in it: spans of frameworks may end too soon, or have no length."""
        own = [(one.start_ns, one.end_ns or one.start_ns) for one in (self.call, self.tool, self.embedding) if one]
        inner = [(child.start_ns, child.end_ns) for child in self.children]
        times = own + inner
        self.start_ns, self.end_ns = min(x for x, _ in times), max(x for _, x in times)
        self.has_calls = self.call is not None or any(child.has_calls for child in self.children)
        inner_calls = sum(child.own_calls for child in self.children if not child.is_agent)
        self.own_calls = (self.call is not None) + inner_calls


class _Place(NamedTuple):
    """Where a node stands."""

    node: Node
    line: Line
    agent: str = ""
    """The span of the innermost one, or of a tool that makes calls."""
    is_within: bool = False
    """Whether an agent stands above that makes calls itself on this line."""
    in_tool: bool = False
    """Whether a tool does that was laid out: what it ran is not told twice."""


@dataclass(slots=True)
class Laid:
    """A run laid out on lines."""

    calls: list[tuple[ModelCall, Line, str]] = field(default_factory=list)
    """Each with the innermost agent's span."""
    tools: list[tuple[Span, Line]] = field(default_factory=list)
    embeddings: list[tuple[Span, Line]] = field(default_factory=list)
    forks: list[Fork] = field(default_factory=list)
    _lines: int = 0
    _left: deque[_Place] = field(default_factory=deque)
    """What is to be laid out yet; spans may nest deeper than calls of functions may."""

    def lay(self, root: Node) -> None:
        """Lay out all that is in a node."""
        self._left.append(_Place(root, Line(ROOT)))
        while self._left:
            self._lay(self._left.popleft())

    def _lay(self, place: _Place) -> None:
        node, line, agent, is_within, in_tool = place
        if node.is_agent and node.span is not None:
            agent = node.span.span_id
            is_within = is_within or node.own_calls > 0
        if node.call is not None:
            self.calls.append((node.call, line, agent))
        if node.embedding is not None:
            self.embeddings.append((node.embedding, line))
        if node.tool is not None and node.has_calls:
            agent = node.tool.span_id
        elif node.tool is not None and not in_tool:
            self.tools.append((node.tool, line))
            in_tool = True
        for group in _groups(node):
            beside = [child for child in group if _is_beside(child, group, is_within=is_within)]
            for child in group:
                if child not in beside:
                    self._left.append(_Place(child, line, agent, is_within, in_tool))
            if beside:
                others = [child for child in node.children if child not in beside]
                self._fork(beside, line, is_joined=_waits_for(node, others, beside))

    def _fork(self, nodes: Sequence[Node], line: Line, *, is_joined: bool) -> None:
        lines: list[Line] = []
        start_ns, end_ns = min(node.start_ns for node in nodes), max(node.end_ns for node in nodes)
        self.forks.append(Fork(f"region {len(self.forks)}", lines, start_ns, end_ns if is_joined else None))
        for node in nodes:
            self._lines += 1
            lines.append(Line(str(self._lines), line))
            self._left.append(_Place(node, lines[-1]))


def _is_beside(child: Node, group: Sequence[Node], *, is_within: bool) -> bool:
    if not child.has_calls or child.call is not None:
        return False
    return len(group) > 1 or _is_told(child, BRANCH) or (is_within and _is_agent(child))


def _waits_for(node: Node, others: Sequence[Node], nodes: Sequence[Node]) -> bool:
    """Tell whether a span, or something else in it, went on when all of some nodes had ended."""
    end_ns = max(one.end_ns for one in nodes)
    ends = [node.span.end_ns] if node.span is not None and node.span.end_ns is not None else []
    return any(x >= end_ns for x in ends) or any(other.start_ns >= end_ns for other in others)


def _is_agent(node: Node) -> bool:
    """Tell whether a node is an agent, or stands for one alone, as a tool does that runs one."""
    while not node.is_agent and not node.call:
        inner = [child for child in node.children if child.has_calls]
        if len(inner) != 1:
            return False
        node = inner[0]
    return node.is_agent


def _groups(node: Node) -> Iterator[list[Node]]:
    """Yield what is in a node in the sets that ran beside one another: the branches of a fan-out are one."""
    if _is_told(node, PARALLEL):
        branches = [child for child in node.children if _is_told(child, BRANCH)]
        if branches:
            yield branches
        yield from _overlapping([child for child in node.children if child not in branches])
    else:
        yield from _overlapping(node.children)


def _is_told(node: Node, kind: str) -> bool:
    return node.span is not None and node.span.attributes.get(EVENT_TYPE) == kind


def _overlapping(nodes: Sequence[Node]) -> Iterator[list[Node]]:
    """Yield nodes in sets that hang together by overlaps, by their starts."""
    group: list[Node] = []
    until_ns = 0
    for node in sorted(nodes, key=lambda node: (node.start_ns, node.end_ns)):
        if group and node.start_ns >= until_ns:
            yield group
            group = []
        group.append(node)
        until_ns = max(until_ns, node.end_ns) if len(group) > 1 else node.end_ns
    if group:
        yield group


def laid_out(root: Node) -> Laid:
    """Lay out a run."""
    laid = Laid()
    laid.lay(root)
    return laid
