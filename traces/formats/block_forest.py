"""The prefix forest of a format that knows prompts as lists of block ids.

An id stands for a whole block of tokens, in its place after the ids before it; two prompts share as many blocks as
their lists have leading ids in common. Lists may cover whole blocks only, or the partial last block too: that one is
the same only where both prompts end in it at the same length, and then the whole prompts are equal. What is found so
is a lower bound: two prompts part somewhere in the block where their ids do (R6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from rotoscope.traces.model import Prefix

_Edge: TypeAlias = tuple[int, int, int]
"""From a node, by an id, covering so many tokens."""


@dataclass(slots=True)
class BlockForest:
    """Add prompts in the order of their calls; each gets its prefix with the best earlier one of its domain."""

    block_size: int
    _nodes: dict[_Edge, int] = field(default_factory=dict)
    _owners: list[int] = field(default_factory=list)
    """The first call that has a node."""
    _roots: dict[int, int] = field(default_factory=dict)

    def prefix(self, call: int, *, domain: int, block_ids: Sequence[int], prompt_tokens: int) -> Prefix:
        """Add the prompt of the next call and return its prefix; `block_ids` are one a block, in order."""
        if domain not in self._roots:
            self._roots[domain] = self._new_node(call)
        node, shared, owner = self._roots[domain], 0, None
        for index, block_id in enumerate(block_ids):
            tokens = min(self.block_size, prompt_tokens - index * self.block_size)
            edge = (node, block_id, tokens)
            known = self._nodes.get(edge)
            if known is None:
                node = self._nodes[edge] = self._new_node(call)
            else:
                node, shared, owner = known, shared + tokens, self._owners[known]
        return Prefix(owner, shared, "blocks")

    def _new_node(self, call: int) -> int:
        self._owners.append(call)
        return len(self._owners) - 1
