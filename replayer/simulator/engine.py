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
        self._arrived = asyncio.Event()
        self._changed: dict[Generation, asyncio.Event] = {}
        self._failed = False
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
        """Run calls and yield (rank of the call, first, end) for each run of new output tokens, as they come.

        Whoever stops iterating must close the iterator: the calls leave queue and batch at once then.
        """
        self._check_running()
        changed = asyncio.Event()
        for generation in generations:
            self.scheduler.submit(generation, self.clock.now())
            self._changed[generation] = changed
        self._arrived.set()
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
                self.scheduler.cancel(generation)
                del self._changed[generation]

    def _check_running(self) -> None:
        if self._failed:
            raise RunFailed("the simulated engine has stopped")

    async def _turn(self) -> None:
        step = self.scheduler.next_step(self.clock.now())
        if step is None:
            await self._idle()
            self._due_s = self.clock.now()
            return
        self._due_s += step.duration_s
        await self.clock.sleep_until(self._due_s)
        for generation in self.scheduler.complete(step, self.clock.now()):
            self._changed[generation].set()

    async def _idle(self) -> None:
        self._arrived.clear()
        ready_s = self.scheduler.next_ready_s()
        if ready_s is None:
            await self._arrived.wait()
        else:
            await self.clock.sleep_until(ready_s)
