"""How much the prompts of two calls share at least and at most, from the bounds of the prefixes of a trace (R5).

Every prefix says `low <= true <= high` of what its call shares with `of` (low) and with any earlier stream (high). For a
later call b and another call a:

- low: b shares at least as much with a as the least `low` on the way through the forest from one to the other.
- high: where b's referent shares less with a than b surely shares with its referent, a and b part where a and the
  referent do; otherwise they part no later than b and any earlier stream do, at `high` of b.

Between calls that meet nowhere, or only through a link between two shared prefixes, nothing is certain but that.
"""

from __future__ import annotations

from math import inf

from rotoscope.traces.forest import Node
from rotoscope.traces.model import Call, Trace


class PromptBounds:
    """Bounds of the common prefix of any two prompts of a trace."""

    def __init__(self, trace: Trace) -> None:
        self._calls: dict[int, Call] = {call.call: call for call in trace.calls()}

    def common_prefix(self, a: int, b: int) -> tuple[int, int]:
        """Return the least and the greatest number of leading tokens that the prompts of two calls can share."""
        limit = min(self._calls[a].prompt_tokens, self._calls[b].prompt_tokens)
        if a == b:
            return limit, limit
        if self._calls[a].domain != self._calls[b].domain:
            return 0, 0
        return min(self._low(a, b), limit), int(min(self._high(a, b), limit))

    def _low(self, a: Node, b: Node) -> int:
        low: int | None = None
        while a != b:
            if _comes_later(a, b):
                a, b = b, a
            if isinstance(b, str):
                return 0
            prefix = self._calls[b].prefix
            if prefix.of is None:
                return 0
            low = prefix.least if low is None else min(low, prefix.least)
            b = prefix.of
        assert low is not None
        return low

    def _high(self, a: Node, b: Node) -> float:
        """Peel the later of two streams off, again and again; then decide on the way back."""
        peeled: list[Call] = []
        while a != b:
            if _comes_later(a, b):
                a, b = b, a
            if isinstance(b, str):
                break
            peeled.append(self._calls[b])
            if peeled[-1].prefix.of is None:
                break
            b = peeled[-1].prefix.of
        meet = a == b
        high = 0.0
        for index, call in enumerate(reversed(peeled)):
            if index == 0 or high >= call.prefix.least:
                is_certain = meet or not isinstance(call.prefix.of, int)
                high = call.prefix.greatest if is_certain else inf
        return high


def _comes_later(a: Node, b: Node) -> bool:
    """Whether `a` comes after `b`: calls after shared prefixes, both by number."""
    return (isinstance(a, int), int(str(a).lstrip("s"))) > (isinstance(b, int), int(str(b).lstrip("s")))
