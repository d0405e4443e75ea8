"""The run loop: sessions are let in as the load is planned, and what they have done so far."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rotoscope.replayer.clock import Clock
from rotoscope.replayer.exchange import Backend
from rotoscope.replayer.load.plan import EndedBy, LoadPlan
from rotoscope.replayer.measured import Place
from rotoscope.replayer.precision import Precision
from rotoscope.replayer.prompts import PromptPlan
from rotoscope.replayer.results import RequestResult, ResultsFolder, SessionResult, Status
from rotoscope.replayer.sent import SentStreams
from rotoscope.replayer.session import Part, Performed, Session


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is."""

    elapsed_s: float
    sessions: int
    """Planned; where a duration is, let in so far."""
    sessions_ended: int
    sessions_failed: int
    sessions_running: int
    requests_ended: int
    requests_failed: int
    half_width: float | None = None
    """Of the interval of jobs/h, over jobs/h, by the sessions that have ended; None of few, and in an open loop."""


class Lanes:
    """Perform the sessions of a load.

    The first error that is no failed call ends the run and is raised.
    """

    def __init__(
        self,
        plan: PromptPlan,
        parts: Sequence[Part],
        *,
        load: LoadPlan,
        backend: Backend,
        clock: Clock,
        results: ResultsFolder,
        on_request: Callable[[Performed], None],
        simulated: bool = False,
    ) -> None:
        self._plan = plan
        self._parts = parts
        self._load = load
        self._backend = backend
        self._clock = clock
        self._results = results
        self._on_request = on_request
        self._simulated = simulated
        self._start_s = clock.now()
        self._running = 0
        self._failed_sessions = 0
        self._failed_requests = 0
        self.let_in = 0
        """Sessions."""
        self.in_flight_at_end = 0
        """Of them those that ended after the time was up, or jobs/h known, if either ends the run."""
        self.ended_by: EndedBy = load.ends_by
        """Why no more were let in."""
        self._precision = None if load.concurrency is None else Precision(load.until_ci, concurrency=load.concurrency)
        self.sent = SentStreams(plan)
        self.requests: list[RequestResult] = []
        self.sessions: list[SessionResult] = []

    async def perform(self) -> None:
        """Perform all sessions; on cancellation those in flight are cancelled and no other is let in."""
        self._start_s = self._clock.now()
        try:
            async with asyncio.TaskGroup() as group:
                await self._let_in(group)
        except BaseExceptionGroup as errors:
            raise _first(errors) from errors

    def progress(self) -> Progress:
        """Tell how far the run is."""
        return Progress(
            elapsed_s=self._elapsed_s(),
            sessions=self.let_in if self._load.is_open_ended else self._load.sessions,
            sessions_ended=len(self.sessions),
            sessions_failed=self._failed_sessions,
            sessions_running=self._running,
            requests_ended=len(self.requests),
            requests_failed=self._failed_requests,
            half_width=self._precision.half_width if self._precision else None,
        )

    async def _let_in(self, group: asyncio.TaskGroup) -> None:
        """Start each session when there is a place for it and its time has come; those behind it wait as well."""
        places = _places(self._load.concurrency)
        for number, start_s in zip_longest(self._load.numbers, self._load.starts_s):
            await places.acquire()
            end = self._end(self._elapsed_s() if start_s is None else start_s)
            if end is not None:
                self.ended_by = end
                return
            if start_s is not None:
                await self._until(start_s)
            self.let_in += 1
            group.create_task(self._in_place(number, start_s, places))

    def _elapsed_s(self) -> float:
        return self._clock.now() - self._start_s

    def _end(self, elapsed_s: float) -> EndedBy | None:
        """Return why no session is let in by now, if so it is."""
        if self._precision is not None and self._precision.is_enough:
            return "interval"
        is_over = self._load.duration_s is not None and elapsed_s >= self._load.duration_s
        return "duration" if is_over else None

    async def _until(self, start_s: float) -> None:
        left_s = start_s - self._elapsed_s()
        if left_s > 0:
            await self._clock.sleep(left_s)

    async def _in_place(self, number: int, planned_s: float | None, places: asyncio.Semaphore) -> None:
        self._running += 1
        await self._perform(number, planned_s)
        self._running -= 1
        places.release()

    async def _perform(self, number: int, planned_s: float | None) -> None:
        prompts = self._plan.session(number)
        trace = number % len(self._parts)
        session = Session(
            Place(
                session=number,
                trace=trace,
                run_start_s=self._start_s,
                planned_s=planned_s,
                simulated=self._simulated,
            ),
            self._parts[trace],
            prompts,
            backend=self._backend,
            clock=self._clock,
            on_request=self._note_request,
        )
        status: Status = "cancelled"
        failure = None
        try:
            failure = await session.perform()
            status = "failed" if failure else "ok"
        finally:
            self.sent.add(number, session.performed, prompts)
            prompts.close()
            self._note_session(session.result(status, failure))

    def _note_request(self, performed: Performed) -> None:
        self.requests.append(performed.result)
        self._failed_requests += performed.result.status == "failed"
        self._results.write_request(performed.result)
        self._on_request(performed)

    def _note_session(self, result: SessionResult) -> None:
        self.sessions.append(result)
        self.in_flight_at_end += self._end(self._elapsed_s()) is not None
        self._failed_sessions += result.status == "failed"
        self._results.write_session(result)
        if self._precision is not None and result.start_s is not None and result.status != "cancelled":
            seconds = self._elapsed_s() - result.start_s if result.latency_s is None else result.latency_s
            self._precision.add(is_job=result.status == "ok", seconds=seconds)


def _places(concurrency: int | None) -> asyncio.Semaphore:
    return asyncio.Semaphore(sys.maxsize if concurrency is None else concurrency)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
