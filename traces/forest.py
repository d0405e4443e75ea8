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
        streams = self.streams_with(of, tokens)
        return streams[-1] if streams else None

    def streams_with(self, of: Node | None, tokens: int) -> list[Node]:
        """Return the streams by which the first `tokens` tokens of `of` came to it, `of` first and their owner last."""
        streams: list[Node] = []
        while tokens and of is not None:
            streams.append(of)
            of, shared = self._links[of]
            if tokens > shared:
                break
        return streams


def normalise(trace: Trace) -> Trace:
    """Return the trace with every call's prefix named after the stream that owns its last shared token (R3).

    A prefix that is named after another stream is only as sure as those on the way there: its least value is the least of
    theirs and its own. Its greatest value stays, for it is of what the prompt shares with any earlier stream (bounds.py).
    """
    forest, least = Forest.of_trace(trace), _least_values(trace)

    def normal(prefix: Prefix) -> Prefix:
        streams = forest.streams_with(prefix.of, prefix.tokens)
        owner = streams[-1] if streams else None
        if owner == prefix.of:
            return prefix
        low = min((least[stream] for stream in streams[:-1]), default=prefix.least)
        return replace(prefix, of=owner, low=low if low < prefix.least else prefix.low)

    events = tuple(
        replace(event, prefix=normal(event.prefix)) if isinstance(event, Call) else event for event in trace.events
    )
    return trace if events == trace.events else replace(trace, events=events)


def _least_values(trace: Trace) -> dict[Node, int]:
    """Return how much each stream surely shares with the one that it begins like."""
    least: dict[Node, int] = {one.id: one.prefix.least if one.prefix else 0 for one in trace.shared_prefixes}
    return least | {call.call: call.prefix.least for call in trace.calls()}
