"""Prompts whose token ids the server gave: what they share exactly, without keeping an id.

Ids are content. Each is turned at once into 64 bits under a key that dies with the recorder (about 0.05 ms for 1,000
tokens), and only in memory; what comes out is how many leading tokens a prompt shares with one measured before.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Keyed = NDArray[np.uint64]

_ODD = 0x9E3779B97F4A7C15


@dataclass(slots=True)
class _Node:
    """A stretch of tokens that streams pass from its start to its end; the call was the first to pass it."""

    tokens: Keyed = field(repr=False)
    call: int
    children: dict[int, _Node] = field(default_factory=dict, repr=False)


class MeasuredPrompts:
    """The measured prompts of one cache domain, as a radix tree."""

    def __init__(self) -> None:
        self._keys = [secrets.randbits(64) for _ in range(2)]
        self._roots: dict[int, _Node] = {}

    def __repr__(self) -> str:
        return "MeasuredPrompts()"

    def add(self, call: int, ids: Sequence[int]) -> tuple[int | None, int]:
        """Add a prompt, or a prompt with its output; return the first call that it shares most tokens with, and how many."""
        tokens = self._keyed(ids)
        owner: int | None = None
        children, shared = self._roots, 0
        while shared < len(tokens):
            node = children.get(int(tokens[shared]))
            if node is None:
                children[int(tokens[shared])] = _Node(tokens[shared:].copy(), call)
                break
            alike = _alike(node.tokens, tokens[shared:])
            owner, shared = node.call, shared + alike
            if alike < len(node.tokens):
                _split(node, alike)
            children = node.children
        return owner, shared

    def _keyed(self, ids: Sequence[int]) -> Keyed:
        import numpy as np

        first, second = (np.uint64(key) for key in self._keys)
        mixed = (np.asarray(ids, dtype=np.uint64) ^ first) * np.uint64(_ODD)
        return (mixed ^ (mixed >> np.uint64(29)) ^ second) * np.uint64(_ODD)


def _alike(a: Keyed, b: Keyed) -> int:
    length = min(len(a), len(b))
    differs = (a[:length] != b[:length]).nonzero()[0]
    return int(differs[0]) if len(differs) else length


def _split(node: _Node, at: int) -> None:
    rest = _Node(node.tokens[at:], node.call, node.children)
    node.tokens, node.children = node.tokens[:at], {int(rest.tokens[0]): rest}
