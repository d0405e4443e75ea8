"""The realised optimum: what an infinite cache could have served of the prompts that were really sent (R8).

Donors of a call are the calls of all sessions of the run, failed and cancelled ones too, that were sent before the
call's first token arrived. Tokens are compared as they were: what a server answered decides, not what was planned.

1. All streams are laid into one radix tree over tokens. A stream names the earlier one that it begins like, so only
   its own tail is compared.
2. Every stream is in the cache up to res(x); the tree is cut there too. Each node then knows the two earliest
   requests that brought the tokens up to it.
3. For a call the deepest node on its path that another request brought in time is its hit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rotoscope.traces.analysis.profiles import EngineProfile, resident_tokens, usable_hit

TokenIds: TypeAlias = NDArray[np.uint32]


@dataclass(frozen=True, slots=True, kw_only=True)
class SentStream:
    """One stream as it was really sent and received; without `sent_s` it is only a beginning of others."""

    of: int | None
    """Index, in the sequence given, of an earlier stream whose first `shared` tokens these are; None for none."""
    shared: int
    tail: TokenIds
    """The rest: prompt tokens from `shared` on, then the output received."""
    prompt_tokens: int
    sent_s: float | None
    first_token_s: float | None
    """None when no token arrived: the request is a donor, its own hit is 0."""

    @property
    def stream_tokens(self) -> int:
        return self.shared + len(self.tail)


@dataclass(eq=False, slots=True)
class _Node:
    """The tokens of an edge end at `depth`; donors are (sent_s, stream) of the two earliest, by time."""

    parent: _Node | None
    depth: int
    edge: TokenIds
    children: dict[int, _Node] = field(default_factory=dict)
    donors: list[tuple[float, int]] = field(default_factory=list)


def realised_hits(streams: Sequence[SentStream], profile: EngineProfile) -> list[int]:
    """Return, per stream, the prompt tokens that an infinite cache of this engine could have served, 0 if not sent."""
    root = _Node(None, 0, np.empty(0, np.uint32))
    ends = _lay_out(root, streams)
    for index, stream in enumerate(streams):
        resident = _resident(stream, profile)
        if resident is not None:
            _bring(_cut(ends[index], resident[1]), (resident[0], index))
    return [_hit(ends[index], index, stream, profile) for index, stream in enumerate(streams)]


def _resident(stream: SentStream, profile: EngineProfile) -> tuple[float, int] | None:
    """Return since when and how many tokens of a stream are in the cache, None if never."""
    if stream.sent_s is None:
        return None
    output_tokens = stream.stream_tokens - stream.prompt_tokens
    return stream.sent_s, resident_tokens(profile, stream.prompt_tokens, output_tokens)


def _lay_out(root: _Node, streams: Sequence[SentStream]) -> list[_Node]:
    ends: list[_Node] = []
    for stream in streams:
        start = root if stream.of is None else _cut(ends[stream.of], stream.shared)
        ends.append(_descend(start, stream.tail))
    return ends


def _descend(node: _Node, tokens: TokenIds) -> _Node:
    """Follow and extend the tree by `tokens` from `node` on; return the node where they end."""
    while len(tokens):
        child = node.children.get(int(tokens[0]))
        if child is None:
            child = _Node(node, node.depth + len(tokens), tokens)
            node.children[int(tokens[0])] = child
            return child
        common = _common(child.edge, tokens)
        node = _cut(child, node.depth + common)
        tokens = tokens[common:]
    return node


def _common(a: TokenIds, b: TokenIds) -> int:
    length = min(len(a), len(b))
    different = np.flatnonzero(a[:length] != b[:length])
    return int(different[0]) if len(different) else length


def _cut(node: _Node, depth: int) -> _Node:
    """Return the node at `depth` on the way from the root to `node`, cutting an edge in two where needed."""
    while node.parent is not None and node.parent.depth >= depth:
        node = node.parent
    if node.depth == depth or node.parent is None:
        return node
    parent = node.parent
    length = depth - parent.depth
    upper = _Node(parent, depth, node.edge[:length], donors=list(node.donors))
    parent.children[int(upper.edge[0])] = upper
    node.parent, node.edge = upper, node.edge[length:]
    upper.children[int(node.edge[0])] = node
    return upper


def _bring(node: _Node | None, donor: tuple[float, int]) -> None:
    """Tell a node and all above it that a request brought their tokens; each keeps the two earliest."""
    while node is not None and (len(node.donors) < 2 or donor < node.donors[1]):
        node.donors = sorted([*node.donors, donor])[:2]
        node = node.parent


def _hit(node: _Node, index: int, stream: SentStream, profile: EngineProfile) -> int:
    if stream.sent_s is None or stream.first_token_s is None:
        return 0
    step: _Node | None = node
    while step is not None:
        if any(at < stream.first_token_s for at, donor in step.donors if donor != index):
            return usable_hit(profile, min(step.depth, stream.prompt_tokens), stream.prompt_tokens)
        step = step.parent
    return 0
