"""Whether the client itself kept up with what it was to do: how late it was, how busy, and which figure says too much.

What a client that is late measures is its own doing as well: an event that arrives while the event loop is busy is
looked at, and its time taken, only afterwards. How long it lay there cannot be seen; the delay of the event loop says
how long it may have been.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rotoscope.replayer.clock import Clock
from rotoscope.replayer.metrics import Distribution, cpu_share, distribution

Figure: TypeAlias = Literal["session lag", "request lag", "loop delay", "cpu"]

LARGEST_LAG_S = 0.02
"""99th percentile of a lag or of the loop's delay, above which latencies are the client's as well."""
LARGEST_CPU_SHARE = 0.9
"""Of one core, which is all that one event loop can use."""
FEWEST_VALUES = 100
"""Below which there is no 99th percentile, and of ticks a run so short that one pause says nothing of it."""
TICK_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLoad:
    """How the client kept up over a run."""

    request_lag_s: Distribution | None = None
    """How much later than due requests were sent."""
    loop_delay_s: Distribution | None = None
    """How much later than it might the event loop does something, at any time; None in modelled time, like the next."""
    cpu_share: float | None = None
    """Processor time of the process over the time of the run: 1 is a whole core."""
    above_limit: tuple[Figure, ...] = ()
    """Figures that are too large for what was measured to be the server's doing alone."""

    @property
    def is_saturated(self) -> bool:
        """Whether the client is to blame; late requests alone may also come from responses that a server ends late."""
        return any(figure != "request lag" for figure in self.above_limit)


class ClientMeter:
    """Measure the delay of the event loop and the processor time of this process while `measuring`."""

    def __init__(self, clock: Clock, *, cpu_s: Callable[[], float] = time.process_time) -> None:
        self._clock = clock
        self._cpu_s = cpu_s
        self._delays_s = array("d")
        self._used_s = 0.0
        self._measured_s = 0.0

    @asynccontextmanager
    async def measuring(self) -> AsyncIterator[None]:
        """Measure as long as this is open."""
        start_s, start_cpu_s = self._clock.now(), self._cpu_s()
        task = asyncio.create_task(self._tick())
        try:
            yield
        finally:
            task.cancel()
            self._used_s += self._cpu_s() - start_cpu_s
            self._measured_s += self._clock.now() - start_s

    @property
    def loop_delay_s(self) -> Distribution | None:
        return distribution(self._delays_s)

    @property
    def cpu_share(self) -> float | None:
        return cpu_share(self._used_s, self._measured_s) if self._measured_s > 0 else None

    async def _tick(self) -> None:
        """Look at how late the loop is at even times; those that it slept through count with what was left to wait.

        Otherwise a loop that stands still for a second would be one late tick, and not the fifty that it is.
        """
        due_s = self._clock.now() + TICK_S
        while True:
            await self._clock.sleep(due_s - self._clock.now())
            now_s = self._clock.now()
            self._delays_s.append(max(0.0, now_s - due_s))
            due_s += TICK_S
            while due_s < now_s:
                self._delays_s.append(now_s - due_s)
                due_s += TICK_S


def client_load(
    *, session_lag_s: Distribution | None, request_lag_s: Distribution | None, meter: ClientMeter | None
) -> ClientLoad:
    """Return how the client kept up; without a meter, in modelled time, only its lags are known."""
    loop_delay_s, share = (meter.loop_delay_s, meter.cpu_share) if meter else (None, None)
    too_large: dict[Figure, bool] = {
        "session lag": _is_late(session_lag_s),
        "request lag": _is_late(request_lag_s),
        "loop delay": _is_late(loop_delay_s),
        "cpu": share is not None and share > LARGEST_CPU_SHARE and _are_enough(loop_delay_s),
    }
    return ClientLoad(
        request_lag_s=request_lag_s,
        loop_delay_s=loop_delay_s,
        cpu_share=None if share is None else round(share, 6),
        above_limit=tuple(figure for figure, is_too_large in too_large.items() if is_too_large),
    )


def client_findings(client: ClientLoad, *, session_lag_s: Distribution | None) -> Iterator[str]:
    """Yield a note where the client did not keep up, with the figures that say so."""
    if not client.above_limit:
        return
    figures = {
        "session lag": _late("sessions were let in later than planned", session_lag_s),
        "request lag": _late("requests were sent later than due", client.request_lag_s),
        "loop delay": _late("its event loop was late", client.loop_delay_s),
        "cpu": f"it used {100 * (client.cpu_share or 0.0):.0f} % of a processor core",
    }
    said = "; ".join(figures[figure] for figure in client.above_limit)
    if client.is_saturated:
        yield f"this client is saturated, so that times are not the server's alone: {said}"
    else:
        yield f"{said}: this client kept up, so it may be that the server ends its responses late"


def _is_late(values: Distribution | None) -> bool:
    return values is not None and values.p99 > LARGEST_LAG_S and _are_enough(values)


def _are_enough(values: Distribution | None) -> bool:
    return values is not None and values.count >= FEWEST_VALUES


def _late(what: str, values: Distribution | None) -> str:
    return "" if values is None else f"{what}, 1 % by more than {_ms(values.p99)}, {_ms(values.max)} at most"


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.0f} ms"
