"""How much the prompts of two calls share at least and at most, from the bounds of the prefixes of a trace (R5).

Every prefix says `low <= true <= high`: of what its call shares with `of` (low) and with any earlier stream (high). For
a later stream b and another stream a:

- low: b shares at least as much with a as the least `low` on the way through the forest from one to the other.
- high: where b's referent shares less with a than b surely shares with its referent, a and b part where a and the
  referent do; otherwise they part no later than b and any earlier stream do, at `high` of b.

The least `high` on the way is not enough: two streams that part from a third at the same token may go on alike, and
nothing is said of two outputs of one prompt that begin alike (R4). So a referent whose whole prompt may be the beginning
of the stream that it refers to may share all of its own stream with that one; where prompts that go on behind two such
outputs part is known of the later one alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rotoscope.traces.forest import Node
from rotoscope.traces.model import Prefix, SharedPrefixLink, Trace

_NOTHING = Prefix(of=None, tokens=0, source="text")


class PromptBounds:
    """Bounds of the common prefix of any two prompts of a trace."""

    def __init__(self, trace: Trace) -> None:
        self._calls = {call.call: call for call in trace.calls()}
        self._links: Mapping[Node, Prefix | SharedPrefixLink] = {
            **{shared.id: shared.prefix or _NOTHING for shared in trace.shared_prefixes},
            **{call.call: call.prefix for call in trace.calls()},
        }
        self._rank = {node: rank for rank, node in enumerate(self._links)}

    def common_prefix(self, a: int, b: int) -> tuple[int, int]:
        """Return the least and the greatest number of leading tokens that the prompts of two calls can share."""
        limit = min(self._calls[a].prompt_tokens, self._calls[b].prompt_tokens)
        if a == b:
            return limit, limit
        if self._calls[a].domain != self._calls[b].domain:
            return 0, 0
        way = self._way(a, b)
        return min(limit, *(link.least for link in way)), min(limit, _high(way))

    def _way(self, a: Node, b: Node) -> list[Prefix | SharedPrefixLink]:
        """Leave the later of two streams for the one that it begins like, until both are the same or one is none."""
        links: list[Prefix | SharedPrefixLink] = []
        prompts = (a, b)
        while a != b:
            if self._rank[a] > self._rank[b]:
                a, b = b, a
            links.append(self._links[b] if b in prompts else self._link_of_stream(b))
            of = links[-1].of
            if of is None:
                break
            b = of
        return links

    def _link_of_stream(self, node: Node) -> Prefix | SharedPrefixLink:
        """Return the link of a stream that another one goes on from, and not of its prompt alone."""
        link = self._links[node]
        if isinstance(node, int) and isinstance(link, Prefix) and link.greatest == self._calls[node].prompt_tokens:
            return replace(link, high=self._calls[node].stream_tokens)
        return link


def _high(way: Sequence[Prefix | SharedPrefixLink]) -> int:
    high = way[-1].greatest
    for link in reversed(way):
        if high >= link.least:
            high = link.greatest
    return high
