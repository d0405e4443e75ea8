"""Looking at something beside a run, again and again, without getting in its way.

It is looked at once a second, half a second after the start for the first time, so that each look stands for the second
around it. A look that takes long is followed by four times as long a pause. From 10,000 s on, pauses grow with the run,
so that an hour gives 3,600 looks at most and a week 51,000.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Protocol, TypeAlias

from rotoscope.replayer.clock import Clock

Look: TypeAlias = Callable[[], Awaitable[None]]
Interval: TypeAlias = Callable[[float], float]
"""From how far a run is to how long after the other looks are taken, if they take no time."""

_INTERVAL_S = 1.0
_INTERVALS = 10_000
_SPARSE_INTERVALS = 400
_MOST_USUAL_INTERVALS = 5
_PAUSES = 4
"""As many times as long as a look took is none taken."""

_logger = logging.getLogger(__name__)


def interval_s(elapsed_s: float) -> float:
    """Return how long after the other looks are taken so far into a run, if they take no time."""
    return max(_INTERVAL_S, elapsed_s / _INTERVALS)


def sparse_interval_s(elapsed_s: float) -> float:
    """Return the same where looks cost as much as what is looked at: few of a long run, but never so few that a gap opens."""
    usual_s = interval_s(elapsed_s)
    return min(_MOST_USUAL_INTERVALS * usual_s, max(usual_s, elapsed_s / _SPARSE_INTERVALS))


class Series(Protocol):
    """Samples of something over a run."""

    def looking(self) -> AbstractAsyncContextManager[None]:
        """Take them beside what is done in this context."""
        ...


def sampling(series: Series | None) -> AbstractAsyncContextManager[None]:
    """Take samples beside what is done in this context, where there is something to take them of."""
    return nullcontext() if series is None else series.looking()


@asynccontextmanager
async def looking(
    look: Look, *, elapsed_s: Callable[[], float], clock: Clock, interval: Interval = interval_s
) -> AsyncIterator[None]:
    """Look beside what is done in this context; an error of a look ends the looking and nothing else."""
    task = asyncio.create_task(_look_on(look, elapsed_s=elapsed_s, clock=clock, interval=interval))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def _look_on(look: Look, *, elapsed_s: Callable[[], float], clock: Clock, interval: Interval) -> None:
    try:
        await clock.sleep(_INTERVAL_S / 2)
        while True:
            asked_s = elapsed_s()
            await look()
            took_s = elapsed_s() - asked_s
            await clock.sleep(max(interval(asked_s) - took_s, _PAUSES * took_s))
    except Exception:  # whatever is wrong with what is looked at: the run goes on
        _logger.exception("nothing more is seen beside this run")
