"""The radix tree of measured prompts, from the lengths in a journal: exact common prefixes in any order of calls.

The journal says of each measured prompt how much it shares with one measured before. Prompts may have been measured in
another order than they arrived in; here they become a tree that streams are then led through in the order of the trace.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rotoscope.traces.forest import Node
from rotoscope.traces.journal import CallMeasured, OutputMeasured


@dataclass(slots=True, eq=False)
class _Stretch:
    """Tokens from the end of `before` to `end` that the same prompts pass."""

    before: _Stretch | None
    end: int
    first: Node | None = None
    """The first stream of the trace that passes it."""


class MeasuredTree:
    """Measured prompts of one run; domains meet nowhere but at the root."""

    def __init__(self, records: Iterable[CallMeasured | OutputMeasured]) -> None:
        self._root = _Stretch(None, 0)
        self._last: dict[int, _Stretch] = {}
        self._tokens: dict[int, int] = {}
        for record in records:
            if isinstance(record, OutputMeasured):
                self._last[record.call] = _Stretch(self._last[record.call], record.stream_tokens)
                self._tokens[record.call] = record.stream_tokens
                continue
            before = self._root if record.of is None else self._split(record.of, record.tokens)
            is_whole = record.tokens == record.prompt_tokens
            self._last[record.call] = before if is_whole else _Stretch(before, record.prompt_tokens)
            self._tokens[record.call] = record.prompt_tokens

    def __contains__(self, call: int) -> bool:
        return call in self._last

    def enter(self, stream: Node, call: int, tokens: int) -> tuple[Node | None, int]:
        """Lead a stream along the first tokens of a measured prompt.

        Return the first stream that shares most of them, and how many.
        """
        stretch = self._split(call, min(tokens, self._tokens[call]))
        while stretch.before is not None and stretch.first is None:
            stretch.first = stream
            stretch = stretch.before
        return stretch.first, stretch.end

    def enter_output(self, stream: Node, call: int) -> None:
        """Lead a stream along all that is known of a measured call."""
        if call in self._last:
            self.enter(stream, call, self._tokens[call])

    def common_prefix(self, a: int, b: int) -> int:
        """Return how many leading tokens two measured prompts share."""
        left, right = self._last[a], self._last[b]
        while left is not right:
            if left.end < right.end:
                left, right = right, left
            assert left.before is not None
            left = left.before
        return left.end

    def _split(self, call: int, at: int) -> _Stretch:
        """Return the stretch of a prompt that ends at a token, which it is cut at if need be."""
        stretch = self._last[call]
        while stretch.before is not None and stretch.before.end >= at:
            stretch = stretch.before
        if stretch.end == at:
            return stretch
        assert stretch.before is not None
        first_half = _Stretch(stretch.before, at, stretch.first)
        stretch.before = first_half
        return first_half
