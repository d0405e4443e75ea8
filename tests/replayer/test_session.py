from __future__ import annotations

import asyncio

import pytest
from event_loops import in_jumping_loop, jump
from hypothesis import given
from hypothesis import strategies as st
from replay_doubles import FIRST_ID, ToldPrompts, VirtualServer, part_of, session_of
from strategies import traces

from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.failures import Failure, FailureKind
from rotoscope.replayer.job_path import JobSplit
from rotoscope.replayer.schedule import Schedule
from rotoscope.replayer.session import Performed, Session
from rotoscope.testing import make_call, make_trace, trace_of
from rotoscope.traces import Call, ParallelEnd, ParallelStart, Prefix, ToolCall, Trace, Wait


def fan_out(*, osls: tuple[int, ...] = (4, 6), last: int = 2) -> Trace:
    """Return a trace of two branches in parallel between a call and a last one."""
    children = [make_call(number + 1, 100, osl=osl, branch=(0, number)) for number, osl in enumerate(osls)]
    return trace_of(
        make_call(0, osl=3),
        ParallelStart(region=0, num_branches=len(osls)),
        *children,
        ParallelEnd(region=0),
        make_call(len(osls) + 1, osl=last),
    )


def starts(session: Session) -> dict[int, float | None]:
    return {one.result.call: one.result.start_s for one in session.performed}


def expected_starts(schedule: Schedule, calls: dict[int, Call]) -> dict[int, float]:
    """Say when calls start if each step starts as soon as what it waits for is there, at a token a second."""
    began: dict[int, float] = {}
    ends: list[float] = []
    for step in schedule.steps:
        deliveries = [
            began[call] + min(tokens, max(1, calls[call].completion_tokens)) for call, tokens in step.delivered
        ]
        start_s = max([0.0, *(ends[index] for index in step.after), *deliveries])
        if step.call is not None:
            began[step.call] = start_s
            ends.append(start_s + max(1, calls[step.call].completion_tokens))
        else:
            ends.append(start_s + step.seconds)
    return began


@given(traces())
def test_every_call_starts_as_soon_as_what_it_waits_for_is_there(trace: Trace) -> None:
    part = part_of(trace)
    if not part.calls:
        return

    @in_jumping_loop
    async def perform() -> None:
        session = session_of(trace, VirtualServer())
        assert await session.perform() is None
        assert starts(session) == pytest.approx(expected_starts(part.schedule, part.calls))

    perform()


@in_jumping_loop
async def test_a_session_is_generating_while_a_request_is_in_flight_and_waiting_else() -> None:
    trace = make_trace(turns=3, osl=4, tool_ms=2500.0)
    session = session_of(trace, VirtualServer())

    await session.perform()
    result = session.result("ok", None)

    assert (result.latency_s, result.generating_s, result.waiting_s) == (17.0, 12.0, 5.0)
    assert (result.queue_prefill_s, result.decode_s) == (3.0, 9.0)
    assert (result.requests, result.status) == (3, "ok")


def parts(session: Session) -> JobSplit:
    """Return what the time of a job went to."""
    result = session.result("ok", None)
    found = (result.queue_prefill_s, result.decode_s, result.tool_s, result.client_s, result.overhead_s)
    assert None not in found
    return JobSplit(*found)  # type: ignore[arg-type]


@in_jumping_loop
async def test_a_tool_is_told_from_a_wait() -> None:
    tool = ToolCall(tool_call_id="t0", tool_name="tool0", duration_ms=3000.0)
    wait = Wait(duration_ms=4000.0, kind="human")
    session = session_of(trace_of(make_call(0, osl=2), tool, wait, make_call(1, osl=5)), VirtualServer())

    await session.perform()

    assert parts(session) == JobSplit(queue_prefill_s=2.0, decode_s=5.0, tool_s=3.0, client_s=4.0)


@in_jumping_loop
async def test_of_branches_the_one_counts_that_came_last_and_the_others_wait() -> None:
    trace = trace_of(
        make_call(0, osl=3),
        ParallelStart(region=0, num_branches=3),
        make_call(1, osl=4, branch=(0, 0)),
        make_call(2, osl=2, branch=(0, 1)),
        ToolCall(tool_call_id="t0", tool_name="tool0", duration_ms=7500.0, branch=(0, 1)),
        make_call(3, osl=9, branch=(0, 2)),
        ParallelEnd(region=0),
        make_call(4, osl=2),
    )
    session = session_of(trace, VirtualServer())

    await session.perform()

    assert session.result("ok", None).latency_s == 3.0 + 9.5 + 2.0
    assert parts(session) == JobSplit(queue_prefill_s=3.0, decode_s=2.0 + 1.0 + 1.0, tool_s=7.5)
    assert session.result("ok", None).join_wait_s == 5.5 + 0.5


@in_jumping_loop
async def test_branches_that_nobody_joins_wait_for_nobody() -> None:
    trace = trace_of(
        make_call(0, osl=3),
        ParallelStart(region=0, num_branches=2),
        make_call(1, osl=4, branch=(0, 0)),
        make_call(2, osl=9, branch=(0, 1)),
        make_call(3, osl=2),
    )
    session = session_of(trace, VirtualServer())

    await session.perform()

    assert parts(session) == JobSplit(queue_prefill_s=2.0, decode_s=10.0)
    assert session.result("ok", None).join_wait_s == 0.0


@in_jumping_loop
async def test_what_waits_for_a_part_of_an_answer_goes_on_from_there() -> None:
    trace = trace_of(
        ParallelStart(region=0, num_branches=2),
        make_call(0, 100, osl=10, branch=(0, 0), at_ms=0.0, duration_ms=10_000.0),
        make_call(1, 103, osl=12, prefix=Prefix(0, 103, "ids"), branch=(0, 1), at_ms=3000.0, duration_ms=12_000.0),
    )
    session = session_of(trace, VirtualServer())

    await session.perform()

    assert parts(session) == JobSplit(queue_prefill_s=2.0, decode_s=13.0)


@given(traces(), st.integers(0, 3))
def test_the_parts_of_a_job_add_up_to_its_latency(trace: Trace, held_s: int) -> None:
    if not part_of(trace).calls:
        return

    class Slow(ToldPrompts):
        async def answered(self, call: int, exchange: Exchange) -> bool:
            jump(0.25 * held_s)
            return await super().answered(call, exchange)

    @in_jumping_loop
    async def perform() -> None:
        session = session_of(trace, VirtualServer(), prompts=Slow.of(trace))
        await session.perform()
        result, split = session.result("ok", None), parts(session)
        assert sum(split) == pytest.approx(result.latency_s, abs=1e-6)
        assert split.generating_s <= in_flight_s(session) + 1e-6
        assert min(split) >= 0
        assert 0 <= (result.join_wait_s or 0.0) <= len(trace.events) * (result.latency_s or 0.0)

    perform()


def in_flight_s(session: Session) -> float:
    """Return how long any request of the session was in flight."""
    total_s, end_s = 0.0, 0.0
    for start_s, latency_s in sorted(
        (one.result.start_s or 0.0, one.result.latency_s or 0.0) for one in session.performed
    ):
        total_s += max(0.0, start_s + latency_s - max(end_s, start_s))
        end_s = max(end_s, start_s + latency_s)
    return total_s


@in_jumping_loop
async def test_a_tool_after_the_last_answer_is_not_waited_for() -> None:
    tool = ToolCall(tool_call_id="t0", tool_name="tool0", duration_ms=60_000.0, call=0)
    session = session_of(trace_of(make_call(0, osl=2), tool), VirtualServer())

    await session.perform()

    assert asyncio.get_running_loop().time() == 2.0


@in_jumping_loop
async def test_the_lag_of_a_request_is_how_much_later_than_due_it_was_sent() -> None:
    class Slow(ToldPrompts):
        def prompt(self, call: int) -> bytes:
            jump(0.25 * call)
            return super().prompt(call)

    trace = make_trace(turns=3, osl=4, tool_ms=2500.0)
    session = session_of(trace, VirtualServer(), prompts=Slow.of(trace))

    await session.perform()

    assert [one.result.lag_s for one in session.performed] == [0.0, 0.25, 0.5]


@in_jumping_loop
async def test_a_gap_ends_when_it_would_have_whenever_its_beginning_was_noticed() -> None:
    class Held(VirtualServer):
        async def perform(self, exchange: Exchange) -> Failure | None:
            failure = await super().perform(exchange)
            jump(0.5)
            return failure

    session = session_of(make_trace(turns=2, osl=4, tool_ms=2500.0), Held())

    await session.perform()

    assert starts(session) == {0: 0.0, 1: 6.5}
    assert session.performed[1].result.lag_s == 0.0


@in_jumping_loop
async def test_what_is_asked_about_an_answer_is_not_the_clients_lag() -> None:
    class Asking(ToldPrompts):
        async def answered(self, call: int, exchange: Exchange) -> bool:
            await asyncio.sleep(0.75)
            return await super().answered(call, exchange)

    trace = make_trace(turns=2, osl=4)
    session = session_of(trace, VirtualServer(), prompts=Asking.of(trace))

    await session.perform()

    assert starts(session) == {0: 0.0, 1: 4.8}
    assert session.performed[1].result.lag_s == 0.0


@in_jumping_loop
async def test_a_session_that_is_let_in_late_sends_its_first_request_late() -> None:
    jump(3.0)
    session = session_of(make_trace(turns=1), VirtualServer(), planned_s=1.0)

    await session.perform()

    assert session.performed[0].result.lag_s == 2.0


@in_jumping_loop
async def test_branches_run_side_by_side_and_the_join_waits_for_all() -> None:
    session = session_of(fan_out(), server := VirtualServer())

    await session.perform()

    assert starts(session) == {0: 0.0, 1: 3.0, 2: 3.0, 3: 9.0}
    assert server.most_in_flight == 2


@in_jumping_loop
async def test_a_result_tells_what_was_measured() -> None:
    trace = trace_of(make_call(0, 50, osl=4))
    session = session_of(trace, VirtualServer())

    await session.perform()
    result = session.performed[0].result

    assert (result.start_s, result.ttft_s, result.itl_s, result.latency_s) == (0.0, 1.0, 1.0, 4.0)
    assert (result.prompt_tokens, result.completion_tokens, result.asked_tokens) == (50, 4, 4)
    assert (result.isl_mismatch, result.osl_mismatch, result.status) == (False, False, "ok")


@in_jumping_loop
async def test_an_answer_of_another_length_is_told() -> None:
    class Short(VirtualServer):
        async def perform(self, exchange: Exchange) -> Failure | None:
            exchange.output_tokens -= 1
            failure = await super().perform(exchange)
            exchange.output_tokens += 1
            exchange.prompt_tokens = 57
            return failure

    session = session_of(trace_of(make_call(0, 50, osl=4)), Short())

    await session.perform()
    result = session.performed[0].result

    assert (result.isl_mismatch, result.osl_mismatch) == (True, True)


@in_jumping_loop
async def test_an_empty_output_is_asked_for_as_one_token_that_is_not_used() -> None:
    trace = trace_of(make_call(0, 50, osl=0), make_call(1, 60, osl=2, prefix=Prefix(0, 50, "ids")))
    session = session_of(trace, server := VirtualServer())

    await session.perform()
    first = min(session.performed, key=lambda one: one.result.call).result

    assert (first.planned_completion_tokens, first.asked_tokens, first.completion_tokens) == (0, 1, 1)
    assert not first.osl_mismatch
    assert str(FIRST_ID).encode() not in server.prompts[1]


@in_jumping_loop
async def test_the_ids_of_an_answer_stand_in_the_prompts_that_take_it_up() -> None:
    trace = make_trace(turns=2, osl=3)
    session = session_of(trace, server := VirtualServer())

    await session.perform()

    assert b"%d,%d,%d" % (FIRST_ID, FIRST_ID + 1, FIRST_ID + 2) in server.prompts[1]
    assert all(one.has_ids for one in session.performed)


@in_jumping_loop
async def test_without_ids_the_drawn_ones_stand_in_later_prompts() -> None:
    trace = make_trace(turns=2, osl=3)
    session = session_of(trace, server := VirtualServer(returns_ids=False))

    await session.perform()

    assert str(FIRST_ID).encode() not in server.prompts[1]
    assert not any(one.has_ids for one in session.performed)


@in_jumping_loop
async def test_a_call_that_takes_up_a_part_of_an_answer_starts_when_that_has_arrived() -> None:
    region = ParallelStart(region=0, num_branches=2)
    speaking = make_call(0, 50, osl=9, branch=(0, 0), at_ms=0.0, duration_ms=9000.0)
    listening = make_call(1, 60, osl=2, branch=(0, 1), prefix=Prefix(0, 54, "ids"), at_ms=4000.0, duration_ms=1000.0)
    trace = trace_of(region, speaking, listening)
    prompts = ToldPrompts.of(trace)
    session = session_of(trace, server := VirtualServer(), prompts=prompts)

    await session.perform()

    assert starts(session) == {0: 0.0, 1: 4.0}
    assert prompts.told[0] == (0, 4)
    assert b"%d,%d" % (FIRST_ID + 2, FIRST_ID + 3) in server.prompts[1]


@in_jumping_loop
async def test_a_failed_call_ends_its_session_and_cancels_what_is_in_flight() -> None:
    trace = fan_out(osls=(4, 60))
    session = session_of(trace, VirtualServer(fails={1: (2, FailureKind.CUT_STREAM)}))

    failure = await session.perform()
    results = {one.result.call: one.result for one in session.performed}

    assert failure == Failure(FailureKind.CUT_STREAM)
    assert asyncio.get_running_loop().time() == 5.0
    assert {call: result.status for call, result in results.items()} == {0: "ok", 1: "failed", 2: "cancelled"}
    assert (results[2].latency_s, results[2].completion_tokens) == (2.0, 2)
    assert session.result("failed", failure).latency_s is None


@in_jumping_loop
async def test_the_first_of_two_failures_is_the_reason() -> None:
    server = VirtualServer(fails={1: (2, FailureKind.CUT_STREAM), 2: (2, FailureKind.RATE_LIMITED)})
    session = session_of(fan_out(), server)

    assert await session.perform() == Failure(FailureKind.CUT_STREAM)


@in_jumping_loop
async def test_a_request_that_never_reached_the_server_is_no_donor() -> None:
    session = session_of(make_trace(), VirtualServer(fails={0: (0, FailureKind.REFUSED)}))

    await session.perform()

    assert session.performed[0].sent_s is None


@in_jumping_loop
async def test_cancelling_a_session_cancels_its_requests_and_keeps_their_results() -> None:
    ended: list[Performed] = []
    session = session_of(fan_out(), VirtualServer(), on_request=ended.append)
    task = asyncio.create_task(session.perform())
    await asyncio.sleep(4.5)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert [one.result.status for one in ended] == ["ok", "cancelled", "cancelled"]
    assert ended[1].first_token_s == 4.0


@in_jumping_loop
async def test_a_session_that_fails_while_it_is_cancelled_is_cancelled() -> None:
    class FailsOnCancel(VirtualServer):
        async def perform(self, exchange: Exchange) -> Failure | None:
            try:
                return await super().perform(exchange)
            except asyncio.CancelledError:
                return Failure(FailureKind.CUT_STREAM)

    session = session_of(make_trace(), FailsOnCancel())
    task = asyncio.create_task(session.perform())
    await asyncio.sleep(1.5)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


@in_jumping_loop
async def test_a_session_without_a_call_is_over_at_once() -> None:
    session = session_of(trace_of(), VirtualServer())

    assert await session.perform() is None
    assert session.result("ok", None).latency_s is None


@pytest.mark.parametrize(("kind", "first_token_s"), [(None, 4.0), (FailureKind.CUT_STREAM, None)])
@in_jumping_loop
async def test_an_answer_whose_first_token_was_not_seen_counts_from_its_end(
    kind: FailureKind | None, first_token_s: float | None
) -> None:
    class Wordless(VirtualServer):
        async def perform(self, exchange: Exchange) -> Failure | None:
            failure = await super().perform(exchange)
            exchange.first_token_s = None
            return failure

    session = session_of(trace_of(make_call(0, osl=4)), Wordless(fails={0: (4, kind)} if kind else {}))

    await session.perform()

    assert session.performed[0].first_token_s == first_token_s
    assert session.performed[0].result.ttft_s is None
