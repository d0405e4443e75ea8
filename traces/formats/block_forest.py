"""The prefix forest of a format that knows prompts as lists of block ids.

An id stands for a whole block of tokens, in its place after the ids before it; two prompts share as many blocks as
their lists have leading ids in common. Lists may cover whole blocks only, or the partial last block too: that one is
the same only where both prompts end in it at the same length, and then the whole prompts are equal. What is found so
is a lower bound: two prompts part somewhere in the block where their ids do (R6).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from rotoscope.traces.model import Prefix

_Edge: TypeAlias = tuple[int, int, int]
"""From a node, by an id, covering so many tokens."""


@dataclass(frozen=True, slots=True)
class _Line:
    """The whole blocks of the prompt that a domain saw last, and the node before and after each of them."""

    block_ids: tuple[int, ...]
    nodes: tuple[int, ...]


@dataclass(slots=True)
class BlockForest:
    """Add prompts in the order of their calls; each gets its prefix with the best earlier one of its domain.

    Most prompts go on where the one before them ended, so only what is unlike it is looked up block by block.
    """

    block_size: int
    _nodes: dict[_Edge, int] = field(default_factory=dict)
    _owners: list[int] = field(default_factory=list)
    """The first call that has a node."""
    _last: dict[int, _Line] = field(default_factory=dict)

    def prefix(self, call: int, *, domain: int, block_ids: tuple[int, ...], prompt_tokens: int) -> Prefix:
        """Add the prompt of the next call and return its prefix; `block_ids` are one a block, in order."""
        if domain not in self._last:
            self._last[domain] = _Line((), (self._new_node(call),))
        whole = block_ids[: prompt_tokens // self.block_size]
        last = self._last[domain]
        common = _common(last.block_ids, whole)
        nodes = list(last.nodes[: common + 1])
        shared, owner = common * self.block_size, self._owners[nodes[-1]] if common else None
        for index in range(common, len(block_ids)):
            tokens = min(self.block_size, prompt_tokens - index * self.block_size)
            edge = (nodes[-1], block_ids[index], tokens)
            known = self._nodes.get(edge)
            if known is None:
                known = self._nodes[edge] = self._new_node(call)
            else:
                shared, owner = shared + tokens, self._owners[known]
            nodes.append(known)
        self._last[domain] = _Line(whole, tuple(nodes[: len(whole) + 1]))
        return Prefix(owner, shared, "blocks")

    def _new_node(self, call: int) -> int:
        self._owners.append(call)
        return len(self._owners) - 1


def _common(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Count leading equal items, by halving, so that the comparing is done in slices."""
    same, different = 0, min(len(a), len(b)) + 1
    while different - same > 1:
        middle = (same + different) // 2
        if a[same:middle] == b[same:middle]:
            same = middle
        else:
            different = middle
    return same
