"""A run that a recorder in this process keeps, and its calls."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Mapping
from typing import TypeVar

from rotoscope.recorder.counting import Counted, Uncounted
from rotoscope.recorder.exchange import Exchange
from rotoscope.recorder.marks import Mark
from rotoscope.recorder.recorded_run import Finished, RecordedRun
from rotoscope.sdk.account import count_at_exit
from rotoscope.sdk.scopes import clock
from rotoscope.sdk.turns import Turns

_log = logging.getLogger(__name__)

T = TypeVar("T")


class _Lateness:
    """Counts the calls of tasks and threads that outlive the outermost agent: the trace of their run is written."""

    def __init__(self) -> None:
        self.calls = 0

    def count(self) -> None:
        """Count one, and tell of the first."""
        self.calls += 1
        if self.calls == 1:
            count_at_exit("calls", lambda: self.calls)
            _log.warning("a call was not recorded: the outermost agent had returned before it was made")

    def begin_in_child(self) -> None:
        """Forget those of the process that this one was forked from."""
        self.calls = 0


lateness = _Lateness()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lateness.begin_in_child)


class KeptHere:
    """Keeps a run; threads take turns at it."""

    def __init__(
        self,
        recorded: RecordedRun,
        *,
        ended: Callable[[KeptHere], None],
        called: Callable[[KeptHere], None] = lambda _: None,
        environment: Mapping[str, str] = {},
    ) -> None:
        """Record into a run; `ended` is told when its agent has returned, `called` when a call of it is over."""
        self._recorded = recorded
        self._ended = ended
        self._called = called
        self._environment = environment
        self._turns = Turns()
        self._calls: set[CallHere] = set()
        """Those that are open."""
        self._is_over = False
        self._is_left = False

    def __repr__(self) -> str:
        return f"KeptHere({self._recorded.calls} calls)"

    def tell(self, mark: Mark) -> None:
        """Take in a mark."""
        self.take(lambda: self._recorded.recorder.mark([mark]), otherwise=None)

    def end(self) -> None:
        """Let it end."""
        self._ended(self)

    def environment(self) -> dict[str, str]:
        """Return what leads other processes here."""
        return dict(self._environment)

    def call(
        self, path: str, body: bytes, *, headers: Mapping[str, str], at_s: float, asks_usage: bool
    ) -> CallHere | None:
        """Take in a request as it is sent; None where its answer need not be heard."""
        recorded = self._recorded
        if self._is_over:
            lateness.count()

        def begin() -> CallHere | None:
            exchange = recorded.recorder.request(path, body, at_s=at_s, headers=headers, asks_usage=asks_usage)
            recorded.calls += exchange.recorded
            if exchange.listens:
                self._calls.add(call := CallHere(self, exchange))
                return call
            return None

        return self.take(begin, otherwise=None)

    def take(self, act: Callable[[], T], *, otherwise: T) -> T:
        """Do something with the recorder when it is its turn; `otherwise` where the run is over."""
        return self._turns.take(lambda: otherwise if self._is_over else act(), otherwise=otherwise)

    def take_for_call(self, act: Callable[[], T], *, otherwise: T) -> T:
        """Do the same for a call that has begun: its client gets no more than it asked for, be the run over or not."""
        return self._turns.take(lambda: otherwise if self._is_left else act(), otherwise=otherwise)

    def answered(self, exchange: Exchange, status: int) -> None:
        """Count an answer that has begun."""
        self._recorded.answered += exchange.recorded and status == 200

    def closed(self, call: CallHere) -> None:
        """Forget a call that is over."""
        self._calls.discard(call)

    def called(self) -> None:
        """Let texts of a call that is over be counted."""
        self._called(self)

    def uncounted(self) -> list[Uncounted]:
        """Return texts that wait to be counted, and forget them."""
        return self.take(self._recorded.recorder.uncounted, otherwise=[])

    def counted(self, counts: list[Counted]) -> None:
        """Take in counts."""
        self.take(lambda: self._recorded.recorder.counted(counts), otherwise=None)

    def cancel_calls(self) -> None:
        """End the calls that are open, as the process ends and nobody waits for them any more."""
        for call in list(self._calls):
            call.cancelled(clock())

    def finish(self) -> Finished:
        """Write the trace; what comes later is not in it. Never raises."""

        def be_over() -> None:
            self._is_over = True

        self.take(be_over, otherwise=None)
        return self._recorded.finish()

    def leave(self) -> None:
        """Let go of it in a process that was forked: its journal is that of the other one."""
        self._is_over = self._is_left = True
        with contextlib.suppress(OSError):
            self._recorded.journal.close()


class CallHere:
    """A call of a run that is kept here."""

    def __init__(self, run: KeptHere, exchange: Exchange) -> None:
        self._run = run
        self._exchange = exchange
        self._is_closed = False

    def __repr__(self) -> str:
        return f"CallHere({self._exchange!r})"

    @property
    def body(self) -> bytes:
        """What is to be sent."""
        return self._exchange.upstream_body

    def take_back(self) -> None:
        """Take in that the server refused what was added."""
        self._run.take_for_call(self._exchange.take_back, otherwise=None)

    def response(self, status: int, content_type: str, at_s: float) -> None:
        """Take in that the answer begins."""

        def begin() -> None:
            self._exchange.response(status, at_s=at_s, content_type=content_type)
            self._run.answered(self._exchange, status)

        self._run.take_for_call(begin, otherwise=None)

    def chunk(self, data: bytes, at_s: float) -> bytes:
        """Take in some of it and return what the client is to get of that now."""
        return self._run.take_for_call(lambda: self._exchange.chunk(data, at_s=at_s), otherwise=data)

    def end(self, at_s: float) -> bytes:
        """Take in that it is whole and return what was still held back."""
        return self._close(lambda: self._exchange.end(at_s=at_s), b"")

    def failed(self, at_s: float) -> None:
        """Take in that no more will come."""
        self._close(lambda: self._exchange.failed(at_s=at_s), None)

    def cancelled(self, at_s: float) -> None:
        """Take in that the client does not wait for the rest."""
        self._close(lambda: self._exchange.cancelled(at_s=at_s), None)

    def _close(self, act: Callable[[], T], otherwise: T) -> T:
        if self._is_closed:
            return otherwise
        self._is_closed = True

        def close() -> T:
            self._run.closed(self)
            return act()

        result = self._run.take_for_call(close, otherwise=otherwise)
        self._run.called()
        return result
