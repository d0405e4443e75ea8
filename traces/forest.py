"""How the streams of a trace share their beginnings: a radix tree kept as references with lengths.

Nodes are call numbers and ids of shared prefixes. Every node says `(of, tokens)`: its first tokens are those of an
earlier stream, and there the two part. From that the longest common prefix of any two streams follows (R3):
LCP(c, x) = n when x is `of`, else min(n, LCP(of, x)).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from rotoscope.traces.model import Call, Prefix, SharedPrefix, Trace

Node: TypeAlias = int | str
"""A call's number or a shared prefix's id."""


class Forest:
    """The prefix forest of one trace; references may be given in any form, not only the normal one."""

    def __init__(self, shared_prefixes: Iterable[SharedPrefix], calls: Iterable[Call]) -> None:
        self._links: dict[Node, tuple[Node | None, int]] = {}
        self._stream_tokens: dict[Node, int] = {}
        self._rank: dict[Node, int] = {}
        for shared in shared_prefixes:
            link = (shared.prefix.of, shared.prefix.tokens) if shared.prefix else (None, 0)
            self._add(shared.id, link, shared.tokens)
        for call in calls:
            self._add(call.call, (call.prefix.of, call.prefix.tokens), call.stream_tokens)

    @classmethod
    def of_trace(cls, trace: Trace) -> Forest:
        """Build the forest of a trace; calls are taken in the order of their numbers."""
        return cls(trace.shared_prefixes, trace.calls())

    def _add(self, node: Node, link: tuple[Node | None, int], stream_tokens: int) -> None:
        self._rank[node] = len(self._rank)
        self._links[node] = link
        self._stream_tokens[node] = stream_tokens

    def __contains__(self, node: Node) -> bool:
        return node in self._links

    def link(self, node: Node) -> tuple[Node | None, int]:
        """Return the stream that `node` begins like and how many tokens they share."""
        return self._links[node]

    def stream_tokens(self, node: Node) -> int:
        """Return the length of a stream in tokens: prompt and output of a call, the whole of a shared prefix."""
        return self._stream_tokens[node]

    def common_prefix(self, a: Node, b: Node) -> int:
        """Return how many leading tokens the streams of `a` and `b` share, where both are of one cache domain.

        Calls of two domains share nothing, whatever this says of the shared prefixes that both begin like (R1).
        """
        common = min(self._stream_tokens[a], self._stream_tokens[b])
        while a != b:
            if self._rank[a] < self._rank[b]:
                a, b = b, a
            parent, tokens = self._links[a]
            if parent is None:
                return 0
            common = min(common, tokens)
            a = parent
        return common

    def owner(self, of: Node | None, tokens: int) -> Node | None:
        """Return the first stream that has the first `tokens` tokens of `of`, None when there are none."""
        if tokens == 0:
            return None
        while of is not None and tokens <= self._links[of][1]:
            of = self._links[of][0]
        return of


def normalise(trace: Trace) -> Trace:
    """Return the trace with every call's prefix named after the stream that owns its last shared token (R3)."""
    forest = Forest.of_trace(trace)

    def normal(prefix: Prefix) -> Prefix:
        owner = forest.owner(prefix.of, prefix.tokens)
        return prefix if owner == prefix.of else replace(prefix, of=owner)

    events = tuple(
        replace(event, prefix=normal(event.prefix)) if isinstance(event, Call) else event for event in trace.events
    )
    return trace if events == trace.events else replace(trace, events=events)
