"""The loop that makes the scheduler's steps take their time and tells waiting requests of new tokens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from rotoscope.replayer.simulator.scheduler import Generation, Scheduler
from rotoscope.replayer.simulator.timing import Clock
from rotoscope.traces.errors import RunFailed


class Engine:
    """One engine; `run` must be running as a task for anything to be generated."""

    def __init__(self, scheduler: Scheduler, clock: Clock) -> None:
        self.scheduler = scheduler
        self.clock = clock
        self._changed: dict[Generation, asyncio.Event] = {}
        self._failed = False
        self._woken: asyncio.Future[None] | None = None
        """Of `run`, while it waits."""
        self._timer: asyncio.Handle | None = None
        """Wakes it."""
        self._awaited_s: float | None = None
        """When; None if nothing is to come."""
        self._due_s = 0.0
        """When the last step was to end: steps follow one another from there, so that late wake-ups do not add up."""

    async def run(self) -> None:
        """Compute step after step until cancelled; an error ends every request in flight."""
        try:
            while True:
                await self._turn()
        finally:
            self._failed = True
            for changed in self._changed.values():
                changed.set()

    async def generate(self, generations: Sequence[Generation]) -> AsyncGenerator[tuple[int, int, int], None]:
        """Run calls and yield (rank of the call, first, end) for each run of new output tokens that are looked at.

        Whoever stops iterating must close the iterator: the calls leave queue and batch at once then.
        """
        self._check_running()
        changed = asyncio.Event()
        for generation in generations:
            self.scheduler.submit(generation, self.clock.now())
            self._changed[generation] = changed
        self._look_anew()
        seen = [0] * len(generations)
        try:
            while any(first < len(generation.output_ids) for first, generation in zip(seen, generations, strict=True)):
                await changed.wait()
                changed.clear()
                self._check_running()
                for rank, generation in enumerate(generations):
                    first, seen[rank] = seen[rank], generation.generated
                    if first < seen[rank]:
                        yield rank, first, seen[rank]
        finally:
            for generation in generations:
                self.scheduler.cancel(generation, self.clock.now())
                del self._changed[generation]
            self._look_anew()

    def at_this_moment(self) -> Scheduler:
        """Return the scheduler in the state that it has by now."""
        self.scheduler.catch_up(self.clock.now())
        return self.scheduler

    def _check_running(self) -> None:
        if self._failed:
            raise RunFailed("the simulated engine has stopped")

    async def _turn(self) -> None:
        stretch = self.scheduler.next_stretch(self.clock.now(), start_s=self._due_s)
        await self._until_next()
        if stretch is None:
            self._due_s = self.clock.now()
            return
        self._due_s = stretch.end_s
        for generation in self.scheduler.complete():
            if generation.is_looked_at:
                self._changed[generation].set()

    def _next_s(self) -> float | None:
        """Return when what is in progress ends, or else the head of the queue is ready."""
        stretch = self.scheduler.stretch
        return self.scheduler.next_ready_s() if stretch is None else stretch.end_s

    async def _until_next(self) -> None:
        """Return when the next thing happens, which may turn out to be another one meanwhile."""
        self._woken = asyncio.get_running_loop().create_future()
        self._set_timer(self._next_s())
        try:
            await self._woken
        finally:
            self._woken = None
            self._set_timer(None)

    def _look_anew(self) -> None:
        """Let `run` wait for another moment if that is the next now."""
        next_s = self._next_s()
        if self._woken is not None and next_s != self._awaited_s:
            self._set_timer(next_s)

    def _set_timer(self, moment_s: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._awaited_s = moment_s
        self._timer = None if moment_s is None else self.clock.call_at(moment_s, self._wake)

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)
