"""A run that is recorded in this process, and a call of it as HTTP clients let it be heard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from rotoscope.recorder.exchange import Exchange
from rotoscope.recorder.marks import Mark
from rotoscope.recorder.recorded_run import Finished, RecordedRun
from rotoscope.sdk.scopes import clock
from rotoscope.sdk.turns import Turns

T = TypeVar("T")


class RunAlone:
    """A run of this process."""

    name = ""

    def __init__(self, recorded: RecordedRun, ended: Callable[[RunAlone], None]) -> None:
        """Record into a run; `ended` is told when its agent has returned."""
        self._recorded = recorded
        self._ended = ended
        self._turns = Turns()
        self._is_over = False

    def __repr__(self) -> str:
        return f"RunAlone({self._recorded.calls} calls)"

    def tell(self, mark: Mark) -> None:
        """Tell its recorder of something."""
        self.take(lambda: self._recorded.recorder.mark([mark]), otherwise=None)

    def end(self) -> None:
        """Tell that its agent has returned."""
        self._ended(self)

    def environment(self) -> dict[str, str]:
        """Return none, as it is in the memory of this process."""
        return {}

    def take(self, act: Callable[[], T], *, otherwise: T) -> T:
        """Do something with the recorder when it is its turn; `otherwise` where the run is over."""
        return self._turns.take(lambda: otherwise if self._is_over else act(), otherwise=otherwise)

    def request(
        self, path: str, body: bytes, *, headers: Mapping[str, str], at_s: float, asks_usage: bool
    ) -> Exchange | None:
        """Take in a request as it is sent; None where its answer need not be heard. `headers` are in lower case."""

        def begin() -> Exchange | None:
            recorded = self._recorded
            recorded.began(at_s)
            exchange = recorded.recorder.request(path, body, at_s=at_s, headers=headers, asks_usage=asks_usage)
            recorded.calls += exchange.recorded
            if exchange.listens:
                return exchange
            recorded.ended(at_s)
            return None

        return self.take(begin, otherwise=None)

    def answered(self, exchange: Exchange, status: int) -> None:
        """Count an answer that has begun."""
        self._recorded.answered += exchange.recorded and status == 200

    def closed(self) -> None:
        """Count a request that is over."""
        self._recorded.ended(clock())

    def finish(self) -> Finished:
        """Write the trace; what comes later is not in it. Never raises."""

        def be_over() -> None:
            self._is_over = True

        self.take(be_over, otherwise=None)
        return self._recorded.finish()


class HeardCall:
    """A request and its answer, as HTTP clients let it be heard."""

    def __init__(self, run: RunAlone, exchange: Exchange, *, body: bytes, refused: Callable[[], None]) -> None:
        """Hear a request with a body, which is None where the recorder's own is to be sent.

        `refused` is told when the server refuses to be asked for usage, and takes the request without.
        """
        self._run = run
        self._exchange = exchange
        self._refused = refused
        self._is_taken_back = False
        self._is_closed = False
        self.listens = True
        self.headers: Mapping[str, str] = {}
        """None: a server that is no gateway is told nothing."""
        self.body = body

    def __repr__(self) -> str:
        return f"HeardCall({self._exchange!r})"

    def take_back(self) -> None:
        """Tell that the server refused what was added."""
        self._is_taken_back = True
        self._run.take(self._exchange.take_back, otherwise=None)

    def response(self, status: int, content_type: str) -> None:
        """Tell that the answer begins."""
        at_s, exchange = clock(), self._exchange
        if self._is_taken_back and status < 400:
            self._refused()

        def begin() -> None:
            exchange.response(status, at_s=at_s, content_type=content_type)
            self._run.answered(exchange, status)

        self._run.take(begin, otherwise=None)

    def chunk(self, data: bytes) -> bytes:
        """Take in some of the answer and return what the client is to get of it now."""
        at_s, exchange = clock(), self._exchange
        return self._run.take(lambda: exchange.chunk(data, at_s=at_s), otherwise=data)

    def end(self) -> bytes:
        """Tell that the answer is whole and return what was still held back."""
        return self._close(self._exchange.end, b"")

    def failed(self) -> None:
        """Tell that no more will come."""
        self._close(self._exchange.failed, None)

    def cancelled(self) -> None:
        """Tell that the client does not wait for the rest."""
        self._close(self._exchange.cancelled, None)

    def _close(self, tell: Callable[..., T], otherwise: T) -> T:
        at_s = clock()

        def close() -> T:
            self._run.closed()
            return tell(at_s=at_s)

        return self._run.take(close, otherwise=otherwise)
