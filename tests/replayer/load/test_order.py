from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import pytest
from event_loops import in_jumping_loop
from hypothesis import given
from hypothesis import strategies as st
from replay_doubles import VOCABULARY, VirtualServer, make_request_result, part_of

from rotoscope.replayer.clock import LoopClock
from rotoscope.replayer.lanes import Lanes
from rotoscope.replayer.load.order import Order, order_of, planned_offsets_s
from rotoscope.replayer.load.plan import LoadPlan, closed_loop
from rotoscope.replayer.prompts import PromptPlan
from rotoscope.replayer.results import RequestResult, ResultsFolder
from rotoscope.testing import make_call, make_trace, trace_of
from rotoscope.traces import ParallelEnd, ParallelStart, Prefix, Trace

TIMES = st.integers(0, 20).map(float)


def offsets_s(trace: Trace) -> dict[int, float]:
    part = part_of(trace)
    return planned_offsets_s(part.schedule, part.calls)


def test_a_call_is_planned_for_the_end_of_the_answers_and_tools_before_it() -> None:
    assert offsets_s(make_trace(turns=3, call_ms=100.0, tool_ms=50.0)) == pytest.approx({0: 0.0, 1: 0.15, 2: 0.3})


def test_a_join_is_planned_for_the_end_of_its_last_branch_and_unknown_answers_take_no_time() -> None:
    trace = trace_of(
        make_call(0, at_ms=0.0, duration_ms=100.0),
        ParallelStart(region=0, num_branches=2),
        make_call(1, branch=(0, 0), duration_ms=300.0),
        make_call(2, branch=(0, 1)),
        make_call(3, branch=(0, 1), duration_ms=50.0),
        ParallelEnd(region=0),
        make_call(4),
    )

    assert offsets_s(trace) == pytest.approx({0: 0.0, 1: 0.1, 2: 0.1, 3: 0.1, 4: 0.4})


def test_a_call_that_takes_a_part_of_an_answer_is_planned_for_its_arrival() -> None:
    trace = trace_of(
        ParallelStart(region=0, num_branches=2),
        make_call(0, 100, osl=20, branch=(0, 0), at_ms=0.0, duration_ms=100.0),
        make_call(1, 200, prefix=Prefix(0, 105, "ids"), branch=(0, 1), at_ms=40.0),
    )

    assert offsets_s(trace) == pytest.approx({0: 0.0, 1: 0.025})


def order_at(planned_s: Sequence[Sequence[float]], sent_s: Sequence[Sequence[float | None]]) -> Order | None:
    """Return the order of sessions whose calls, each on a branch of its own, are planned and sent at these times."""
    parts, load = [], LoadPlan(numbers=range(len(planned_s)), concurrency=None, starts_s=(0.0,) * len(planned_s))
    requests: list[RequestResult] = []
    for session, (plans, times) in enumerate(zip(planned_s, sent_s, strict=True)):
        parts.append(part_of(planned_at(plans)))
        requests += [
            make_request_result(session=session, trace=session, call=2 * number + 1, start_s=time_s)
            for number, time_s in enumerate(times)
        ]
    return order_of(load, parts, requests)


def planned_at(times_s: Sequence[float]) -> Trace:
    """Return a trace whose odd calls are planned for these times: each behind one before it that takes so long."""
    calls = []
    for number, time_s in enumerate(times_s):
        calls.append(make_call(2 * number, branch=(0, number), at_ms=0.0, duration_ms=1000 * time_s))
        calls.append(make_call(2 * number + 1, branch=(0, number)))
    return trace_of(ParallelStart(region=0, num_branches=len(times_s)), *calls)


def test_requests_in_the_planned_order_are_so_at_any_speed() -> None:
    assert order_at([[0.0, 2.0], [1.0, 3.0]], [[0.0, 20.0], [1.0, 300.0]]) == Order(4, 0, 0.0)


def test_a_request_that_comes_before_one_planned_earlier_is_an_inverted_pair() -> None:
    assert order_at([[0.0, 2.0], [1.0, 3.0]], [[0.0, 9.0], [1.0, 3.0]]) == Order(4, 1, 0.25)


def test_pairs_within_a_session_and_requests_that_were_not_sent_do_not_count() -> None:
    assert order_at([[0.0, 2.0], [1.0]], [[5.0, 2.0], [None]]) is None
    assert order_at([[0.0, 2.0], [1.0]], [[5.0, 0.5], [3.0]]) == Order(2, 2, 1.0)


def test_a_closed_loop_has_no_planned_order() -> None:
    requests = [make_request_result(session=number) for number in range(2)]

    assert order_of(closed_loop(2, 1, ramp_s=0.0, seed=0), [part_of(make_trace())], requests) is None


@given(st.lists(st.lists(st.tuples(TIMES, TIMES), min_size=1, max_size=12), min_size=2, max_size=12))
def test_pairs_are_counted_as_one_by_one(sessions: list[list[tuple[float, float]]]) -> None:
    planned, sent = ([[one[place] for one in session] for session in sessions] for place in (0, 1))
    requests = [(number, *times) for number, session in enumerate(sessions) for times in session]
    pairs = [(a, b) for a, b in combinations(requests, 2) if a[0] != b[0]]
    inverted = sum((a[1] - b[1]) * (a[2] - b[2]) < 0 for a, b in pairs)

    assert order_at(planned, sent) == Order(len(pairs), inverted, inverted / len(pairs))


@in_jumping_loop
async def test_a_server_that_takes_the_recorded_times_gives_the_planned_order_and_a_slow_one_another() -> None:
    """The server takes a second a token; answers of five tokens were recorded as so many seconds, or as none."""

    async def order(*, call_ms: float) -> Order | None:
        traces = [
            make_trace(turns=4, osl=5, call_ms=call_ms, tool_ms=7000.0),
            make_trace(turns=2, call_ms=20 * call_ms / 5),
        ]
        load = LoadPlan(numbers=range(6), concurrency=None, starts_s=(0.0, 1.1, 2.3, 10.7, 20.2, 31.9))
        parts = [part_of(trace) for trace in traces]
        lanes = Lanes(
            PromptPlan(traces, seed=1, salt="salt", sessions=6, vocabulary=VOCABULARY),
            parts,
            load=load,
            backend=VirtualServer(),
            clock=LoopClock(),
            results=ResultsFolder(Path("nowhere"), io.BytesIO(), io.BytesIO()),
            on_request=lambda performed: None,
        )
        await lanes.perform()
        return order_of(load, parts, lanes.requests)

    as_recorded, slower = await order(call_ms=5000.0), await order(call_ms=0.0)

    assert as_recorded is not None
    assert slower is not None
    assert (as_recorded.pairs, as_recorded.inverted) == (slower.pairs, 0)
    assert slower.inverted > 0
