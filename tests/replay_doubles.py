"""Doubles for tests of the replayer: a server in virtual time, prompts that say whose they are, results of runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rotoscope.replayer.clock import LoopClock
from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.failures import Failure, FailureKind
from rotoscope.replayer.measured import Place
from rotoscope.replayer.prompts import PromptPlan, SessionPrompts
from rotoscope.replayer.reading import Results
from rotoscope.replayer.results import RequestResult, SessionResult
from rotoscope.replayer.schedule import Gaps, plan_session
from rotoscope.replayer.session import Part, Performed, Session
from rotoscope.replayer.setup import Setup
from rotoscope.replayer.summary import summarise
from rotoscope.replayer.tokens import Vocabulary
from rotoscope.traces import Trace

VOCABULARY = Vocabulary(1000, 33_000)
FIRST_ID = 50_000
"""Outputs hold this id and those after it, which no drawn prompt has."""


@dataclass
class VirtualServer:
    """Generates a token a second; fails the n-th request that it gets, after so many tokens, as `fails` says."""

    fails: Mapping[int, tuple[int, FailureKind]] = field(default_factory=dict)
    returns_ids: bool = True
    prompts: list[bytes] = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0

    async def perform(self, exchange: Exchange) -> Failure | None:
        request = len(self.prompts)
        self.prompts.append(exchange.prompt)
        loop = asyncio.get_running_loop()
        tokens, kind = self.fails.get(request, (exchange.output_tokens, None))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        exchange.sent_s = exchange.answered_s = loop.time()
        try:
            for number in range(tokens):
                await asyncio.sleep(1.0)
                if self.returns_ids:
                    exchange.output_ids.append(FIRST_ID + number)
                exchange.note_tokens(1, loop.time())
            exchange.prompt_tokens = exchange.prompt.count(b",") + 1
            exchange.completion_tokens = tokens
            return Failure(kind) if kind else None
        finally:
            exchange.ended_s = loop.time()
            self.in_flight -= 1


class ToldPrompts(SessionPrompts):
    """Prompts that keep who asked for them, in order, and when outputs were told."""

    asked: list[int]
    told: list[tuple[int, int | None]]

    @classmethod
    def of(cls, trace: Trace, *, sessions: int = 1, number: int = 0) -> ToldPrompts:
        plan = PromptPlan([trace], seed=1, salt="salt", sessions=sessions, vocabulary=VOCABULARY)
        prompts = cls(plan, number)
        prompts.asked, prompts.told = [], []
        return prompts

    def prompt(self, call: int) -> bytes:
        self.asked.append(call)
        return super().prompt(call)

    def output(self, call: int, ids: object) -> None:
        self.told.append((call, len(ids) if isinstance(ids, list) else None))
        super().output(call, ids)  # type: ignore[arg-type]


def part_of(trace: Trace, gaps: Gaps | None = None) -> Part:
    return Part({call.call: call for call in trace.calls()}, plan_session(trace, gaps))


def session_of(
    trace: Trace,
    server: VirtualServer,
    *,
    prompts: SessionPrompts | None = None,
    planned_s: float | None = None,
    on_request: Callable[[Performed], None] = lambda performed: None,
) -> Session:
    """Return a session of the trace; to be called in the event loop."""
    return Session(
        Place(session=0, trace=0, run_start_s=0.0, planned_s=planned_s),
        part_of(trace),
        prompts or ToldPrompts.of(trace),
        backend=server,
        clock=LoopClock(),
        on_request=on_request,
    )


_SETUP = Setup(
    version="0.1.0",
    command="rotoscope replay CORPUS --sessions 4 --concurrency 1 --seed 0",
    corpus_name="coding-agents",
    corpus_version="1.0",
    corpus_sha256="4e1c" * 16,
    server_version="0.32.0",
    model="m",
    engine="any",
    simulated=False,
    profile="token",
    block_size=1,
    seed=0,
    salt="salt",
    vocabulary="1000:30000",
    traces=1,
    sessions=4,
    concurrency=1,
    gap_scale=1.0,
    gap_cap_s=None,
    timeout_s=600.0,
    gpus=2,
    gpus_assumed=False,
)
_REQUEST = RequestResult(
    session=0,
    trace=0,
    call=0,
    branch=None,
    start_s=0.0,
    ttft_s=0.25,
    itl_s=0.0125,
    latency_s=1.0,
    prompt_tokens=100,
    completion_tokens=3,
    cached_tokens=40,
    planned_prompt_tokens=100,
    planned_completion_tokens=3,
    asked_tokens=3,
    isl_mismatch=False,
    osl_mismatch=False,
    status="ok",
)
_SESSION = SessionResult(
    session=0,
    trace=0,
    admitted_s=0.0,
    start_s=0.0,
    latency_s=10.0,
    generating_s=6.0,
    queue_prefill_s=1.5,
    decode_s=4.5,
    waiting_s=4.0,
    tool_s=3.0,
    client_s=0.75,
    overhead_s=0.25,
    join_wait_s=5.0,
    requests=1,
    status="ok",
)


def make_setup(**fields: Any) -> Setup:
    return replace(_SETUP, **fields)


def make_request_result(**fields: Any) -> RequestResult:
    """Return the result of an answered request of 100 prompt tokens, 40 of them cached, and 3 output tokens."""
    return replace(_REQUEST, **fields)


def make_session_result(number: int = 0, **fields: Any) -> SessionResult:
    """Return the result of a completed session; each takes 10 s and begins where the one before it ends."""
    start_s = 10.0 * number
    return replace(_SESSION, **{"session": number, "admitted_s": start_s, "start_s": start_s} | fields)


def answered_in_pieces(pieces: list[str]) -> Exchange:
    """Return an exchange whose answer came in these pieces, a token each."""
    exchange = Exchange(prompt=b"[]", output_tokens=max(1, len(pieces)))
    exchange.output_text += pieces
    exchange.completion_tokens = len(pieces)
    return exchange


def make_results(sessions: Sequence[SessionResult], requests: Sequence[RequestResult] = (), **setup: Any) -> Results:
    """Return the results of a run of these sessions and requests."""
    summary = summarise(
        make_setup(**setup),
        requests=requests,
        optimal_tokens=[50] * len(requests),
        sessions=sessions,
        planned_requests=len(requests),
        without_ids=0,
        interrupted=False,
        duration_s=40.0,
    )
    return Results(summary=summary, requests=tuple(requests), sessions=tuple(sessions), server=(), timeline=(), gpus=())
