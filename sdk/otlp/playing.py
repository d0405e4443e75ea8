"""Play the calls and marks of a run to a recorder in the order of their times, as if they came through the gateway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from rotoscope.recorder.exchange import Exchange
from rotoscope.recorder.marks import BranchMark, JoinMark, ToolMark
from rotoscope.recorder.own_headers import BRANCH_HEADER, PARENT_HEADER
from rotoscope.recorder.recorder import Recorder
from rotoscope.sdk.otlp.bodies import Wire
from rotoscope.sdk.otlp.calls import ModelCall
from rotoscope.sdk.otlp.lines import Fork, Line

_ENDS, _MARKS, _BEGINS = range(3)
"""What ends comes before what begins at the same time, for it may have been waited for."""
_LEAST_NS = 1000
"""No call takes less."""


@dataclass(slots=True)
class Player:
    """Plays one run."""

    recorder: Recorder
    zero_ns: int
    """What times are counted from."""
    has_lines: bool
    """Whether it is known on which line calls are."""
    calls: dict[int, ModelCall] = field(default_factory=dict)
    """By the numbers that the recorder gave them."""
    unread: int = 0
    """Calls that the recorder did not take."""
    _waiting: list[tuple[int, int, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: count[int] = field(default_factory=lambda: count())

    def call(self, call: ModelCall, line: Line, make: Callable[[], Wire]) -> None:
        """Let a call happen; its bytes, which hold its whole history, are made when it does."""
        self._at(call.start_ns, _BEGINS, lambda: self._begin(call, line, make))

    def embedding(self, start_ns: int, end_ns: int, line: Line, wire: Wire) -> None:
        """Let an embedding happen."""

        def begin() -> None:
            exchange = self._request(wire, start_ns, line)
            self._at(max(end_ns, start_ns + _LEAST_NS), _ENDS, lambda: self._end(exchange, wire, max(end_ns, start_ns)))

        self._at(start_ns, _BEGINS, begin)

    def tool(self, name: str, line: Line, start_ns: int, end_ns: int) -> None:
        """Let a tool run."""
        mark = ToolMark(name, line.name, self._s(start_ns), self._s(end_ns))
        self._at(end_ns, _MARKS, lambda: self.recorder.mark([mark]))

    def fork(self, fork: Fork) -> None:
        """Let lines begin, and be joined."""
        start_s = self._s(fork.start_ns)
        marks = [
            BranchMark(line.name, line.parent.name if line.parent else "", fork.region, start_s) for line in fork.lines
        ]
        self._at(fork.start_ns, _MARKS, lambda: self.recorder.mark(marks))
        if fork.end_ns is not None:
            join = JoinMark(fork.region, self._s(fork.end_ns))
            self._at(fork.end_ns, _MARKS, lambda: self.recorder.mark([join]))

    def play(self) -> None:
        """Let all of it happen."""
        while self._waiting:
            heappop(self._waiting)[-1]()

    def _at(self, at_ns: int, rank: int, happen: Callable[[], None]) -> None:
        heappush(self._waiting, (at_ns, rank, next(self._numbers), happen))

    def _s(self, at_ns: int) -> float:
        return (at_ns - self.zero_ns) / 1e9

    def _begin(self, call: ModelCall, line: Line, make: Callable[[], Wire]) -> None:
        try:
            wire = make()
        except TypeError:  # JSON that was read may be nested too deep to be written
            self.unread += 1
            return
        exchange = self._request(wire, call.start_ns, line)
        if not exchange.recorded:
            self.unread += 1
            return
        first = len(self.calls)
        self.calls.update({first + index: call for index in range(call.choices)})
        if call.end_ns is None:
            return
        end_ns = max(call.end_ns, call.start_ns + _LEAST_NS)
        status = call.status if call.failed else 200
        first_ns = min(end_ns if call.first_ns is None else call.first_ns, end_ns)
        if wire.first:
            self._at(first_ns, _ENDS, lambda: self._say(exchange, wire, first_ns, status))
        self._at(end_ns, _ENDS, lambda: self._finish(exchange, wire, call, end_ns, status))

    def _request(self, wire: Wire, at_ns: int, line: Line) -> Exchange:
        headers = {BRANCH_HEADER: line.name} if self.has_lines else {}
        if self.has_lines and line.parent is not None:
            headers[PARENT_HEADER] = line.parent.name
        return self.recorder.request(wire.path, wire.request, at_s=self._s(at_ns), headers=headers, asks_usage=False)

    def _say(self, exchange: Exchange, wire: Wire, at_ns: int, status: int) -> None:
        exchange.response(status, at_s=self._s(at_ns), content_type=wire.content_type)
        exchange.chunk(wire.first, at_s=self._s(at_ns))

    def _finish(self, exchange: Exchange, wire: Wire, call: ModelCall, end_ns: int, status: int) -> None:
        if not wire.first:
            exchange.response(status, at_s=self._s(end_ns), content_type=wire.content_type)
        if call.was_left:
            exchange.cancelled(at_s=self._s(end_ns))
        elif call.is_broken:
            exchange.failed(at_s=self._s(end_ns))
        else:
            exchange.chunk(wire.last, at_s=self._s(end_ns))
            exchange.end(at_s=self._s(end_ns))

    def _end(self, exchange: Exchange, wire: Wire, end_ns: int) -> None:
        exchange.response(200, at_s=self._s(end_ns), content_type=wire.content_type)
        exchange.chunk(wire.last, at_s=self._s(end_ns))
        exchange.end(at_s=self._s(end_ns))
