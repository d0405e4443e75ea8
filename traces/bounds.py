"""How much the prompts of two calls share at least and at most, from the bounds of the prefixes of a trace (R5).

Every prefix says `low <= true <= high`: of what its call shares with `of` (low) and with any earlier stream (high). For
a later call b and another call a:

- low: b shares at least as much with a as the least `low` on the way through the forest from one to the other.
- high: where b's referent shares less with a than b surely shares with its referent, a and b part where a and the
  referent do; otherwise they part no later than b and any earlier stream do, at `high` of b.

Links between shared prefixes carry no bounds: they count as exact where both prompts were measured (source `ids`);
otherwise nothing is certain between calls that meet only through one, or nowhere, but what `high` of the first call of
each of the two trees says.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from rotoscope.traces.forest import Forest, Node
from rotoscope.traces.model import Call, Trace


@dataclass(frozen=True, slots=True)
class _Meeting:
    """Where two streams meet in the forest, and the calls that were left behind on the way, last first."""

    peeled: list[Call]
    at: tuple[Node | None, Node | None]
    """The same node twice, two shared prefixes, or None on the side that begins like nothing."""

    @property
    def is_one(self) -> bool:
        return self.at[0] == self.at[1] and self.at[0] is not None


class PromptBounds:
    """Bounds of the common prefix of any two prompts of a trace."""

    def __init__(self, trace: Trace) -> None:
        self._calls: dict[int, Call] = {call.call: call for call in trace.calls()}
        self._forest = Forest.of_trace(trace)

    def common_prefix(self, a: int, b: int) -> tuple[int, int]:
        """Return the least and the greatest number of leading tokens that the prompts of two calls can share."""
        limit = min(self._calls[a].prompt_tokens, self._calls[b].prompt_tokens)
        if a == b:
            return limit, limit
        if self._calls[a].domain != self._calls[b].domain:
            return 0, 0
        meeting = self._meet(a, b)
        return min(self._low(meeting), limit), int(min(_high(meeting, self._link(meeting)), limit))

    def _meet(self, a: Node | None, b: Node | None) -> _Meeting:
        """Leave the later of two streams for the one it begins like, again and again."""
        peeled: list[Call] = []
        while a != b:
            if b is None or (a is not None and _comes_later(a, b)):
                a, b = b, a
            if not isinstance(b, int):
                break
            peeled.append(self._calls[b])
            b = peeled[-1].prefix.of
        return _Meeting(peeled, (a, b))

    def _link(self, meeting: _Meeting) -> int | None:
        """Return what two shared prefixes have in common where that was measured, and 0 where a prompt begins anew."""
        if any(call.prefix.source != "ids" for call in meeting.peeled if not isinstance(call.prefix.of, int)):
            return None
        a, b = meeting.at
        return 0 if a is None or b is None else self._forest.common_prefix(a, b)

    def _low(self, meeting: _Meeting) -> int:
        low = min(call.prefix.least for call in meeting.peeled)
        return low if meeting.is_one else min(low, self._link(meeting) or 0)


def _high(meeting: _Meeting, link: int | None) -> float:
    high = inf if link is None or meeting.is_one else link
    for call in reversed(meeting.peeled):
        if high >= call.prefix.least:
            is_certain = meeting.is_one or not isinstance(call.prefix.of, int)
            high = call.prefix.greatest if is_certain else inf
    return high


def _comes_later(a: Node, b: Node) -> bool:
    """Whether `a` comes after `b`: calls after shared prefixes, both by number."""
    return (isinstance(a, int), int(str(a).lstrip("s"))) > (isinstance(b, int), int(str(b).lstrip("s")))
