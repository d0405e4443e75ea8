from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from event_loops import in_jumping_loop
from replay_doubles import VOCABULARY, VirtualServer, part_of

from rotoscope.replayer.clock import Clock, LoopClock
from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.failures import FailureKind
from rotoscope.replayer.lanes import Lanes
from rotoscope.replayer.load.arrivals import POISSON, Arrivals
from rotoscope.replayer.load.plan import LoadPlan, closed_loop, open_loop
from rotoscope.replayer.prompts import PromptPlan, SessionPrompts
from rotoscope.replayer.results import ResultsFolder
from rotoscope.replayer.session import Session
from rotoscope.replayer.token_streams import TokenStream
from rotoscope.testing import make_trace
from rotoscope.traces import RunFailed, Trace

CONSTANT = Arrivals.parse("constant")


def lanes_of(
    traces: list[Trace],
    server: VirtualServer,
    results: ResultsFolder,
    *,
    sessions: int,
    concurrency: int = 1,
    ramp_s: float = 0.0,
    load: LoadPlan | None = None,
    clock: Clock | None = None,
    **seams: Any,
) -> Lanes:
    return Lanes(
        PromptPlan(traces, seed=1, salt="salt", sessions=sessions, vocabulary=VOCABULARY),
        [part_of(trace) for trace in traces],
        load=load or closed_loop(sessions, concurrency, ramp_s=ramp_s, seed=1),
        backend=server,
        clock=clock or LoopClock(),
        results=results,
        **{"on_request": lambda performed: None} | seams,
    )


@contextmanager
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def alive(*kinds: type) -> int:
    return sum(isinstance(one, kinds) for one in gc.get_objects())


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@in_jumping_loop
async def test_no_more_sessions_run_at_once_than_asked_for(tmp_path: Path) -> None:
    with ResultsFolder.opened(tmp_path) as results:
        lanes = lanes_of([make_trace(turns=2, osl=5)], server := VirtualServer(), results, sessions=10, concurrency=3)
        await lanes.perform()

    assert server.most_in_flight == 3
    assert sorted(one.session for one in lanes.sessions) == list(range(10))
    assert lanes.progress().sessions_running == 0


@in_jumping_loop
async def test_sessions_that_have_ended_are_free_without_the_collector(tmp_path: Path) -> None:
    """It is kept from looking for them during a run, because that takes seconds where there are thousands."""
    trace = make_trace(turns=3, osl=5, system=0)
    with ResultsFolder.opened(tmp_path) as results, no_collector():
        before = alive(Session, SessionPrompts, TokenStream, Exchange)
        await lanes_of([trace], VirtualServer(), results, sessions=20, concurrency=5).perform()
        after = alive(Session, SessionPrompts, TokenStream, Exchange)

    assert after <= before


@in_jumping_loop
async def test_the_first_sessions_start_as_planned_and_the_rest_waits_for_the_last_of_them(tmp_path: Path) -> None:
    planned = closed_loop(20, 4, ramp_s=60.0, seed=1).starts_s
    with ResultsFolder.opened(tmp_path) as results:
        lanes = lanes_of(
            [make_trace(turns=1, osl=5)], VirtualServer(), results, sessions=20, concurrency=4, ramp_s=60.0
        )
        await lanes.perform()

    admitted = [one.admitted_s for one in sorted(lanes.sessions, key=lambda one: one.session)]
    assert admitted[:4] == pytest.approx(planned, abs=1e-6)
    assert admitted[4:7] == [60.0] * 3  # others have ended long before
    assert admitted == sorted(admitted)


@in_jumping_loop
async def test_who_is_still_there_at_the_end_of_the_ramp_keeps_its_place(tmp_path: Path) -> None:
    with ResultsFolder.opened(tmp_path) as results:
        server = VirtualServer()
        lanes = lanes_of([make_trace(turns=1, osl=100)], server, results, sessions=9, concurrency=3, ramp_s=60.0)
        await lanes.perform()

    admitted = sorted(one.admitted_s for one in lanes.sessions)
    assert admitted[2] == 60.0
    assert admitted[3] == 100.0
    assert server.most_in_flight == 3


@in_jumping_loop
async def test_in_an_open_loop_sessions_start_as_planned_whatever_the_server_does(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    load = open_loop(30, POISSON, rate_per_h=600, seed=1)

    async def admitted(server: VirtualServer, osl: int) -> list[float]:
        folder = tmp_path_factory.mktemp("results")
        with ResultsFolder.opened(folder) as results:
            lanes = lanes_of([make_trace(turns=1, osl=osl)], server, results, sessions=30, load=load)
            await lanes.perform()
        assert [one.lag_s for one in lanes.sessions] == pytest.approx([0.0] * 30, abs=1e-5)
        return [one.admitted_s for one in sorted(lanes.sessions, key=lambda one: one.session)]

    fast = await admitted(VirtualServer(), osl=1)
    slow = await admitted(server := VirtualServer(), osl=1000)

    assert fast == pytest.approx(load.starts_s, abs=1e-5)
    assert slow == pytest.approx(load.starts_s, abs=1e-5)
    assert server.most_in_flight == 30


@in_jumping_loop
async def test_after_the_duration_nobody_is_let_in_and_who_is_there_ends(tmp_path: Path) -> None:
    load = replace(closed_loop(100, 3, ramp_s=0.0, seed=1), duration_s=25.0)
    with ResultsFolder.opened(tmp_path) as results:
        lanes = lanes_of([make_trace(turns=1, osl=10)], VirtualServer(), results, sessions=100, load=load)
        await lanes.perform()

    assert [one.status for one in lanes.sessions] == ["ok"] * 9
    assert max(one.admitted_s for one in lanes.sessions) == 20.0
    assert (lanes.let_in, lanes.in_flight_at_end, lanes.progress().sessions) == (9, 3, 9)
    assert lanes.ended_by == "duration"


@in_jumping_loop
async def test_once_jobs_an_hour_are_known_nobody_is_let_in_and_who_is_there_ends(tmp_path: Path) -> None:
    load = replace(closed_loop(100, 3, ramp_s=6.0, seed=1), until_ci=0.05)
    with ResultsFolder.opened(tmp_path) as results:
        lanes = lanes_of([make_trace(turns=1, osl=10)], VirtualServer(), results, sessions=100, load=load)
        await lanes.perform()

    assert [one.status for one in lanes.sessions] == [
        "ok"
    ] * 29  # the second look is at 24 behind the first three, of jobs that are all alike
    assert lanes.ended_by == "interval"
    assert (lanes.let_in, lanes.in_flight_at_end, lanes.progress().sessions) == (29, 2, 29)
    assert lanes.progress().half_width == pytest.approx(0.0, abs=1e-6)


@in_jumping_loop
async def test_the_time_of_sessions_that_failed_counts_for_how_well_jobs_an_hour_are_known(tmp_path: Path) -> None:
    load = replace(closed_loop(60, 3, ramp_s=0.0, seed=1), until_ci=0.05)
    server = VirtualServer(fails=dict.fromkeys(range(0, 60, 4), (5, FailureKind.SERVER_ERROR)))
    with ResultsFolder.opened(tmp_path) as results:
        lanes = lanes_of([make_trace(turns=1, osl=10)], server, results, sessions=60, load=load)
        await lanes.perform()

    assert (lanes.let_in, lanes.ended_by, lanes.in_flight_at_end) == (60, "sessions", 0)
    assert lanes.progress().half_width == pytest.approx(0.11, abs=0.03)


@in_jumping_loop
async def test_an_open_loop_says_nothing_of_how_well_jobs_an_hour_are_known(tmp_path: Path) -> None:
    load = open_loop(30, CONSTANT, rate_per_h=3600, seed=1)
    with ResultsFolder.opened(tmp_path) as results:
        lanes = lanes_of([make_trace(turns=1, osl=1)], VirtualServer(), results, sessions=30, load=load)
        await lanes.perform()

    assert lanes.progress().half_width is None


@in_jumping_loop
async def test_a_ramp_that_is_longer_than_the_duration_is_cut(tmp_path: Path) -> None:
    load = replace(closed_loop(10, 10, ramp_s=100.0, seed=1), duration_s=50.0)
    with ResultsFolder.opened(tmp_path) as results:
        lanes = lanes_of([make_trace(turns=1, osl=1)], VirtualServer(), results, sessions=10, load=load)
        await lanes.perform()

    assert lanes.let_in == sum(start_s < 50.0 for start_s in load.starts_s)
    assert lanes.progress().elapsed_s < 52.0


@in_jumping_loop
async def test_who_is_late_is_let_in_if_planned_before_the_end(tmp_path: Path) -> None:
    load = open_loop(None, CONSTANT, rate_per_h=3600, seed=1, duration_s=3.01)
    with ResultsFolder.opened(tmp_path) as results:
        lanes = lanes_of([make_trace(turns=1)], VirtualServer(), results, sessions=4, load=load, clock=LateClock())
        await lanes.perform()

    assert lanes.let_in == 4
    assert lanes.sessions[-1].lag_s == pytest.approx(0.03)


@in_jumping_loop
async def test_sessions_that_were_dropped_leave_the_numbers_of_the_others(tmp_path: Path) -> None:
    load = LoadPlan(numbers=(4, 0, 3), concurrency=None, starts_s=(0.0, 5.0, 6.0))
    traces = [make_trace(turns=1), make_trace(turns=2), make_trace(turns=3)]
    with ResultsFolder.opened(tmp_path) as results:
        lanes = lanes_of(traces, VirtualServer(), results, sessions=load.numbered, load=load)
        await lanes.perform()

    by_time = sorted(lanes.sessions, key=lambda one: one.admitted_s)
    assert [(one.session, one.trace, one.requests) for one in by_time] == [(4, 1, 2), (0, 0, 1), (3, 0, 1)]


class LateClock(LoopClock):
    """Oversleeps by 30 ms, as a client does that is busy with something else."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds + 0.03)


@in_jumping_loop
async def test_a_client_that_is_late_finds_it_in_the_lag_and_not_in_the_next_times(tmp_path: Path) -> None:
    load = open_loop(5, CONSTANT, rate_per_h=3600, seed=1)
    with ResultsFolder.opened(tmp_path) as results:
        lanes = lanes_of([make_trace(turns=1)], VirtualServer(), results, sessions=5, load=load, clock=LateClock())
        await lanes.perform()

    assert [one.lag_s for one in lanes.sessions] == pytest.approx([0.0, 0.03, 0.03, 0.03, 0.03])


@in_jumping_loop
async def test_who_waits_for_others_to_end_has_no_lag(tmp_path: Path) -> None:
    with ResultsFolder.opened(tmp_path) as results:
        lanes = lanes_of([make_trace(turns=1)], VirtualServer(), results, sessions=3, concurrency=2, ramp_s=5.0)
        await lanes.perform()

    assert [one.lag_s for one in sorted(lanes.sessions, key=lambda one: one.session)] == [0.0, 0.0, None]


@in_jumping_loop
async def test_traces_are_dealt_to_sessions_in_turn(tmp_path: Path) -> None:
    traces = [make_trace(turns=1), make_trace(turns=2), make_trace(turns=3)]
    with ResultsFolder.opened(tmp_path) as results:
        lanes = lanes_of(traces, VirtualServer(), results, sessions=5)
        await lanes.perform()

    assert [(one.session, one.trace, one.requests) for one in lanes.sessions] == [
        (0, 0, 1),
        (1, 1, 2),
        (2, 2, 3),
        (3, 0, 1),
        (4, 1, 2),
    ]


@in_jumping_loop
async def test_a_lane_goes_on_with_the_next_session_after_a_failure(tmp_path: Path) -> None:
    server = VirtualServer(fails={1: (2, FailureKind.CUT_STREAM)})
    with ResultsFolder.opened(tmp_path) as results:
        lanes = lanes_of([make_trace(turns=3)], server, results, sessions=3)
        await lanes.perform()

    assert [one.status for one in lanes.sessions] == ["failed", "ok", "ok"]
    assert lanes.progress().sessions_failed == 1
    assert lanes.progress().requests_failed == 1


@in_jumping_loop
async def test_results_are_in_the_files_while_the_run_goes_on(tmp_path: Path) -> None:
    seen: list[int] = []
    with ResultsFolder.opened(tmp_path) as results:
        lanes = lanes_of(
            [make_trace(turns=2)],
            VirtualServer(),
            results,
            sessions=2,
            on_request=lambda performed: seen.append(len(lines(tmp_path / "results.jsonl"))),
        )
        await lanes.perform()

    assert seen == [1, 2, 3, 4]
    assert [line["session"] for line in lines(tmp_path / "sessions.jsonl")] == [0, 1]


@in_jumping_loop
async def test_cancelling_lets_nobody_in_any_more_and_keeps_what_was_measured(tmp_path: Path) -> None:
    with ResultsFolder.opened(tmp_path) as results:
        lanes = lanes_of([make_trace(turns=2, osl=5)], VirtualServer(), results, sessions=10, concurrency=2)
        task = asyncio.create_task(lanes.perform())
        await asyncio.sleep(7.0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert [one.status for one in lanes.sessions] == ["cancelled", "cancelled"]
    assert [line["status"] for line in lines(tmp_path / "results.jsonl")] == ["ok", "ok", "cancelled", "cancelled"]


@in_jumping_loop
async def test_an_error_that_is_no_failed_call_ends_the_run(tmp_path: Path) -> None:
    def out_of_disk(performed: object) -> None:
        raise RunFailed("no space left")

    with ResultsFolder.opened(tmp_path) as results:
        lanes = lanes_of([make_trace()], VirtualServer(), results, sessions=4, concurrency=2, on_request=out_of_disk)
        with pytest.raises(RunFailed, match="no space left"):
            await lanes.perform()

    assert len(lanes.sessions) == 2


@in_jumping_loop
async def test_the_realised_optimum_of_sessions_one_after_another_is_all_that_they_share(tmp_path: Path) -> None:
    from rotoscope.traces.analysis.profiles import PROFILES

    with ResultsFolder.opened(tmp_path) as results:
        lanes = lanes_of(
            [make_trace(turns=2, isl=100, osl=20, new=30, system=40)], VirtualServer(), results, sessions=2
        )
        await lanes.perform()

    hits = lanes.sent.optimal_tokens(lanes.requests, PROFILES["token"])

    assert hits == [0, 119, 40, 119]
