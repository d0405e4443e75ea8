"""One performance of a trace: its calls, tools, waits and joins in their order, as fast as the server answers.

A call that fails ends the session: what else is in flight is cancelled. Each request leaves its result, whether it was
answered, failed or was cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeAlias, assert_never

from rotoscope.replayer.clock import Clock
from rotoscope.replayer.exchange import Backend, Exchange
from rotoscope.replayer.failures import NEVER_SENT, Failure
from rotoscope.replayer.job_path import JoinWaits, Path
from rotoscope.replayer.measured import Place, request_result, session_result
from rotoscope.replayer.prompts import SessionPrompts
from rotoscope.replayer.readiness import Readiness, Waits
from rotoscope.replayer.results import RequestResult, SessionResult, Status
from rotoscope.replayer.schedule import Schedule, Step
from rotoscope.traces.model import Call

_LONG_GAP_S = 0.5
"""In shorter ones it costs more to make prompts again than their memory is worth."""


@dataclass(frozen=True, slots=True)
class Performed:
    """A request as it went; the times are those that the realised optimum needs, on the run's clock."""

    result: RequestResult
    sent_s: float | None
    """None when the server cannot have had it."""
    first_token_s: float | None
    has_ids: bool
    """Whether the ids of the answer are known, one for each token."""


OnRequest: TypeAlias = Callable[[Performed], None]


@dataclass(frozen=True, slots=True)
class Part:
    """What a session performs; all sessions of a trace share one."""

    calls: dict[int, Call]
    schedule: Schedule
    waits: Waits = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "waits", Waits(self.schedule))


class CallFailed(Exception):
    """End a session because one of its calls failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.kind.value)
        self.failure = failure


class Session:
    """Perform a part once."""

    def __init__(
        self,
        place: Place,
        part: Part,
        prompts: SessionPrompts,
        *,
        backend: Backend,
        clock: Clock,
        on_request: OnRequest,
    ) -> None:
        self._place = place
        self._part = part
        self._prompts = prompts
        self._backend = backend
        self._clock = clock
        self._admitted_s = clock.now()
        self._on_request = on_request
        due_s = self._admitted_s if place.planned_s is None else place.run_start_s + place.planned_s
        self._readiness = Readiness(part.waits, start_s=due_s)
        self._group = asyncio.TaskGroup()
        self._active = 0
        """Tasks of the group that have not ended."""
        self._asleep = 0
        """Of them those in a gap."""
        self._is_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._join_waits = JoinWaits()
        self._last: Path | None = None
        """What led to the end of the last answer so far."""
        self.performed: list[Performed] = []
        """Requests in the order in which they ended."""

    async def perform(self) -> Failure | None:
        """Perform all steps; return the failure that ended the session early, if one did."""
        failure: Failure | None = None
        try:
            async with self._group:
                self._start(self._readiness.first())
                # Waiting here and not in the group's exit lets the group give back the cancellation by which it ends
                # this task when a call has failed; what is counted after it came from outside.
                if self._active:
                    await self._is_over
        except* CallFailed as failed:
            failure = _first(failed).failure
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError
        if failure is None:
            self._readiness.check_all_ended()
        return failure

    def result(self, status: Status, failure: Failure | None) -> SessionResult:
        """Say how the session went."""
        requests = [one.result for one in self.performed]
        return session_result(
            self._place,
            requests,
            admitted_s=self._admitted_s,
            last=self._last,
            join_wait_s=self._join_waits.total_s,
            status=status,
            failure=failure,
        )

    def _start(self, steps: Iterable[int]) -> None:
        for step in steps:
            self._active += 1
            self._group.create_task(self._follow(step))

    async def _follow(self, step: int) -> None:
        """Perform a step and then, in the same task, one of those that waited for it."""
        while True:
            path = await self._perform(step, self._readiness.path_to(step))
            for join in self._part.waits.joins.get(step, ()):
                self._join_waits.came(join, self._part.schedule.steps[step].branch, path.until_s)
            ready = self._readiness.ended(step, path=path)
            if not ready:
                break
            step, *others = ready
            self._start(others)
        self._active -= 1
        if not self._active and not self._is_over.done():
            self._is_over.set_result(None)

    async def _perform(self, index: int, path: Path) -> Path:
        """Perform a step to which this led; return what led to its end, which is when it is over, whenever noticed."""
        step = self._part.schedule.steps[index]
        match step.kind:
            case "call":
                return await self._call(step, path)
            case "tool" | "wait":
                over_s = path.until_s + step.seconds
                await self._sleep_until(over_s)
                return path.then("tool_s" if step.kind == "tool" else "client_s", over_s)
            case "join":
                self._join_waits.joined(index, path.until_s)
                return path
            case _:
                assert_never(step.kind)

    async def _sleep_until(self, over_s: float) -> None:
        left_s = over_s - self._clock.now()
        self._asleep += 1
        if left_s > _LONG_GAP_S and self._asleep == self._active:
            self._prompts.make_room()
        await self._clock.sleep(max(0.0, left_s))
        self._asleep -= 1

    async def _call(self, step: Step, path: Path) -> Path:
        assert step.call is not None
        call = self._part.calls[step.call]
        exchange = Exchange(
            prompt=self._prompts.prompt(call.call),
            output_tokens=max(1, call.completion_tokens),
        )
        if self._readiness.is_awaited(call.call):
            exchange.awaited_tokens = self._readiness.awaited_tokens(call.call)
            exchange.on_delivery = lambda tokens: self._deliver(call, exchange, tokens, path)
        status: Status = "cancelled"
        failure = None
        has_ids = False
        try:
            failure = await self._backend.perform(exchange)
            status = "failed" if failure else "ok"
            ended_s = self._clock.now()
            has_ids = failure is None and await self._prompts.answered(call.call, exchange)
            asked_s = self._clock.now() - ended_s
        finally:
            exchange.on_delivery = None  # it holds the exchange
            has_ids = has_ids if status == "ok" else self._prompts.answering(call.call, exchange)
            self._end(call, exchange, status, failure, due_s=path.until_s, has_ids=has_ids)
        if failure:
            raise CallFailed(failure)
        answered = path.through(exchange, ended_s if exchange.ended_s is None else exchange.ended_s)
        self._last = max(self._last or answered, answered, key=attrgetter("until_s"))
        # what the server was asked about its answer takes time that is not the client's
        return answered.then("overhead_s", answered.until_s + asked_s)

    def _deliver(self, call: Call, exchange: Exchange, tokens: int, path: Path) -> None:
        """Start the steps that waited for a part of an answer; their prompts take what there is of it."""
        ready = self._readiness.delivered(call.call, tokens, path=path.through(exchange, self._clock.now()))
        if ready:
            self._prompts.answering(call.call, exchange)
            self._start(ready)

    def _end(
        self,
        call: Call,
        exchange: Exchange,
        status: Status,
        failure: Failure | None,
        *,
        due_s: float,
        has_ids: bool,
    ) -> None:
        ended_s = exchange.ended_s if status == "ok" else None
        performed = Performed(
            request_result(self._place, call, exchange, due_s=due_s, status=status, failure=failure),
            sent_s=None if failure and failure.kind in NEVER_SENT else exchange.sent_s,
            first_token_s=ended_s if exchange.first_token_s is None else exchange.first_token_s,
            has_ids=has_ids,
        )
        self.performed.append(performed)
        self._on_request(performed)


def _first(group: BaseExceptionGroup[CallFailed]) -> CallFailed:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
