"""The run loop: so many lanes, each performing one session after the other, and what they have done so far."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rotoscope.replayer.clock import Clock
from rotoscope.replayer.exchange import Backend
from rotoscope.replayer.measured import Place
from rotoscope.replayer.prompts import PromptPlan
from rotoscope.replayer.results import RequestResult, ResultsFolder, SessionResult, Status
from rotoscope.replayer.sent import SentStreams
from rotoscope.replayer.session import Part, Performed, Session


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is."""

    elapsed_s: float
    sessions: int
    """Planned."""
    sessions_ended: int
    sessions_failed: int
    sessions_running: int
    requests_ended: int
    requests_failed: int


class Lanes:
    """Perform sessions 0 to `sessions` - 1, at most `concurrency` at once, in order of their numbers.

    The first error that is no failed call ends the run and is raised.
    """

    def __init__(
        self,
        plan: PromptPlan,
        parts: Sequence[Part],
        *,
        sessions: int,
        concurrency: int,
        backend: Backend,
        clock: Clock,
        results: ResultsFolder,
        on_request: Callable[[Performed], None],
        simulated: bool = False,
    ) -> None:
        self._plan = plan
        self._parts = parts
        self._sessions = sessions
        self._concurrency = concurrency
        self._backend = backend
        self._clock = clock
        self._results = results
        self._on_request = on_request
        self._simulated = simulated
        self._start_s = clock.now()
        self._next = iter(range(sessions))
        self._running = 0
        self._failed_sessions = 0
        self._failed_requests = 0
        self.sent = SentStreams(plan)
        self.requests: list[RequestResult] = []
        self.sessions: list[SessionResult] = []

    async def perform(self) -> None:
        """Perform all sessions; on cancellation those in flight are cancelled and no other is let in."""
        self._start_s = self._clock.now()
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(self._concurrency, self._sessions)):
                    group.create_task(self._lane())
        except BaseExceptionGroup as errors:
            raise _first(errors) from errors

    def progress(self) -> Progress:
        """Tell how far the run is."""
        return Progress(
            elapsed_s=self._clock.now() - self._start_s,
            sessions=self._sessions,
            sessions_ended=len(self.sessions),
            sessions_failed=self._failed_sessions,
            sessions_running=self._running,
            requests_ended=len(self.requests),
            requests_failed=self._failed_requests,
        )

    async def _lane(self) -> None:
        for number in self._next:
            self._running += 1
            await self._perform(number)
            self._running -= 1

    async def _perform(self, number: int) -> None:
        prompts = self._plan.session(number)
        trace = number % len(self._parts)
        session = Session(
            Place(session=number, trace=trace, run_start_s=self._start_s, simulated=self._simulated),
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
        self._failed_sessions += result.status == "failed"
        self._results.write_session(result)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
