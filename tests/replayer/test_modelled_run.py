from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import traces

from rotoscope.replayer.failures import FailureKind
from rotoscope.replayer.lanes import Progress
from rotoscope.replayer.load.arrivals import Arrivals
from rotoscope.replayer.load.fixed import Shape
from rotoscope.replayer.modelled_run import now_and_then, replay_modelled, watch_interval_s
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.run import replay_async
from rotoscope.replayer.schedule import NO_GAPS, Gaps
from rotoscope.replayer.simulator.server import SimulatorOptions, running_simulator
from rotoscope.replayer.simulator.timing import Timing
from rotoscope.replayer.summary import Summary
from rotoscope.replayer.window import Window
from rotoscope.testing import make_call, make_trace, trace_of
from rotoscope.traces import Prefix, Trace, UnusableInput, Wait
from rotoscope.traces.formats.recognise import open_traces

EXAMPLES = Path(__file__).parents[2] / "examples/traces"
TIMING = Timing(
    prefill_tokens_per_s=1000.0, decode_step_s=((1, 0.01),), decode_context_s=1e-5, request_overhead_s=0.002
)


def modelled(traces: list[Trace], folder: Path, simulator: SimulatorOptions | None = None, **options: Any) -> Summary:
    given: dict[str, Any] = {"gaps": NO_GAPS, "folder": folder, "salt": "s"} | options
    return replay_modelled(traces, ReplayOptions(**given), simulator or SimulatorOptions(timing=TIMING))


def test_an_open_loop_that_one_engine_cannot_keep_up_with_is_overloaded_and_two_can(tmp_path: Path) -> None:
    """An engine takes one request at a time and 0.147 s for each: 24,500 an hour."""

    def loop(name: str, replicas: int) -> Window:
        simulator = SimulatorOptions(timing=TIMING, max_batch=1, replicas=replicas)
        shape, constant = Shape(50, 10), Arrivals.parse("constant")
        options = {"fixed": shape, "rate_per_h": 36_000.0, "arrivals": constant, "sessions": 300}
        window = modelled([shape.trace()], tmp_path / name, simulator, **options).window
        assert window is not None
        assert window.open_loop is not None
        assert window.open_loop.offered_per_h_per_gpu == pytest.approx(36_000.0, rel=1e-4)
        return window

    one, two = loop("one", 1), loop("two", 2)

    assert one.open_loop is not None
    assert two.open_loop is not None
    assert (one.open_loop.overloaded, two.open_loop.overloaded) == (True, False)
    assert two.jobs_per_h_per_gpu == pytest.approx(36_000.0, rel=1e-3)
    assert one.jobs_per_h_per_gpu == pytest.approx(3600 / two.mean_job_latency_s, rel=0.02)
    assert one.tokens.tokens_per_s_per_gpu == pytest.approx(60 / two.mean_job_latency_s, rel=0.02)


def over_http(traces: list[Trace], folder: Path, simulator: SimulatorOptions, **options: Any) -> Summary:
    async def run() -> Summary:
        async with running_simulator(simulator) as url:
            given: dict[str, Any] = {"gaps": NO_GAPS, "folder": folder, "salt": "s", "preflight": False} | options
            return await replay_async(traces, ReplayOptions(url=url, **given))

    return asyncio.run(run())


def going_back() -> Trace:
    """Return a trace whose last prompt begins like the first, which has made way for the second by then."""
    back = make_call(2, 7020, osl=5, prefix=Prefix(of=0, tokens=7010, source="text"))
    return trace_of(make_call(0, 7000, osl=10), make_call(1, 9000, osl=10), back)


def requests(summary: Summary) -> list[tuple[object, ...]]:
    """Return what is to be the same however a run is performed, in the order in which the requests ended."""
    return [
        (one.session, one.call, one.status, one.prompt_tokens, one.completion_tokens, one.cached_tokens, optimum)
        for one, optimum in zip(summary.request_results, summary.optimal_tokens, strict=True)
    ]


@pytest.mark.parametrize(
    "simulator",
    [
        SimulatorOptions(speed=0.0),
        SimulatorOptions(speed=0.0, blocks=920, host_blocks=700, profile="dynamo-mocker", block_size=16),
        SimulatorOptions(speed=0.0, blocks=920, replicas=2, router="kv"),
    ],
)
def test_one_session_after_another_finds_what_it_finds_over_http(simulator: SimulatorOptions, tmp_path: Path) -> None:
    traces = [*(one.trace for one in open_traces([str(EXAMPLES / "react")])), going_back()]

    inside = modelled(traces, tmp_path / "inside", simulator, sessions=3)
    outside = over_http(traces, tmp_path / "outside", simulator, sessions=3)

    assert requests(inside) == requests(outside)
    assert inside.cache == outside.cache
    assert inside.counted == outside.counted
    assert inside.setup == replace(outside.setup, command=inside.setup.command)
    assert (inside.exit_code, inside.without_ids) == (0, 0)
    assert inside.counted is not None
    assert bool(inside.counted.host_cached) == bool(simulator.host_blocks)


def test_job_times_are_those_of_the_constants(tmp_path: Path) -> None:
    first = make_call(0, 100, osl=11)
    second = make_call(1, 141, osl=3, prefix=Prefix(of=0, tokens=111, source="text"))
    trace = trace_of(first, Wait(duration_ms=5000.0, kind="think"), second)

    summary = modelled([trace], tmp_path, SimulatorOptions(timing=TIMING, profile="token"), gaps=Gaps(), sessions=3)

    one = 0.002 + 0.1 + sum(0.01 + 1e-5 * context for context in range(101, 111))
    other = 0.002 + 31 / 1000 + sum(0.01 + 1e-5 * context for context in range(142, 144))
    assert summary.job_latency_s is not None
    assert summary.job_latency_s.mean == pytest.approx(one + 5.0 + other)
    assert summary.duration_s == pytest.approx(3 * (one + 5.0 + other), abs=1e-5)


@settings(max_examples=60)
@given(traces(), st.integers(1, 3))
def test_whatever_the_trace_is_all_calls_are_answered_and_find_no_more_than_there_is(
    trace: Trace, at_once: int
) -> None:
    if not any(True for _ in trace.calls()):
        return
    with TemporaryDirectory() as folder:
        summary = modelled([trace], Path(folder), sessions=3, concurrency=at_once, gaps=Gaps())

    assert (summary.sessions.ok, summary.isl_mismatches, summary.osl_mismatches) == (3, 0, 0)
    assert summary.requests.ok == summary.requests.planned
    for one, optimum in zip(summary.request_results, summary.optimal_tokens, strict=True):
        assert one.cached_tokens is not None
        assert one.cached_tokens <= optimum


def test_days_pass_in_no_time_and_are_said_to_be_modelled(tmp_path: Path) -> None:
    trace = trace_of(make_call(0), Wait(duration_ms=86_400_000.0, kind="human"), make_call(1))

    summary = modelled([trace], tmp_path, gaps=Gaps())

    assert summary.duration_s > 86_400.0
    assert summary.setup.simulated
    assert "times are modelled" in summary.notes[0]
    assert all(json.loads(line)["simulated"] for line in (tmp_path / "results.jsonl").read_text().splitlines())


def test_the_same_seed_and_salt_give_the_same_result_to_the_byte(tmp_path: Path) -> None:
    traces = [one.trace for one in open_traces([str(EXAMPLES / "deep_research")])]

    for name in "ab":
        modelled(traces, tmp_path / name, SimulatorOptions(blocks=2000), sessions=6, concurrency=4, gaps=Gaps())

    for name in ("results.jsonl", "sessions.jsonl", "summary.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_call_beyond_the_context_fails_as_over_http(tmp_path: Path) -> None:
    trace = make_trace(turns=2)
    simulator = SimulatorOptions(blocks=1, speed=0.0)

    inside = modelled([trace], tmp_path / "inside", simulator)
    outside = over_http([trace], tmp_path / "outside", simulator)

    assert inside.failures == outside.failures == {FailureKind.PROMPT_TOO_LONG.value: 1}
    assert [
        (one.http_status, one.error_type, one.error_code) for one in (*inside.request_results, *outside.request_results)
    ] == [(400, "invalid_request_error", "context_length_exceeded")] * 2


def test_who_waits_for_a_first_token_longer_than_the_timeout_gives_up(tmp_path: Path) -> None:
    simulator = SimulatorOptions(timing=TIMING, max_batch=1)
    trace = trace_of(make_call(0, 100, osl=500))

    summary = modelled([trace], tmp_path, simulator, sessions=2, concurrency=2, timeout_s=3.0)

    assert summary.failures == {FailureKind.SILENT_STREAM.value: 1}
    assert summary.sessions.ok == 1


def test_what_to_type_again_names_the_simulator(tmp_path: Path) -> None:
    summary = modelled([make_trace()], tmp_path, SimulatorOptions(blocks=64, speed=0.0))

    assert summary.setup.command is not None
    assert summary.setup.command.startswith("rotoscope replay CORPUS --simulate --set blocks=64 ")


def test_an_api_of_messages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="leave --api chat out"):
        modelled([make_trace()], tmp_path, api="chat")


@pytest.mark.parametrize("name", ["model", "dcgm"])
def test_what_asks_servers_is_refused(name: str, tmp_path: Path) -> None:
    asking: dict[str, Any] = {name: "x"}

    with pytest.raises(UnusableInput, match=f"asks no server: leave --{name} out"):
        modelled([make_trace()], tmp_path, **asking)


def test_a_batch_that_is_not_the_simulators_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="leave --max-batch out"):
        modelled([make_trace()], tmp_path, max_batch=1)


def test_progress_is_told_now_and_then_in_real_time_and_at_the_end(tmp_path: Path) -> None:
    told: list[Progress] = []
    given = ReplayOptions(gaps=Gaps(), folder=tmp_path, sessions=3)
    trace = trace_of(make_call(0), Wait(duration_ms=3_600_000.0, kind="think"), make_call(1))

    replay_modelled([trace], given, SimulatorOptions(), watch=told.append)

    assert 2 <= len(told) < 100
    assert (told[-1].sessions_ended, told[-1].requests_ended) == (3, 6)


def test_a_run_of_years_is_not_looked_at_too_often() -> None:
    looks, elapsed_s = 0, 0.0
    while elapsed_s < 1e9:
        looks, elapsed_s = looks + 1, elapsed_s + watch_interval_s(elapsed_s)

    assert 1000 < looks < 15_000


def test_who_watches_now_and_then_is_told_no_sooner_than_a_quarter_of_a_second_later() -> None:
    told: list[float] = []
    times_s = iter([0.0, 0.1, 0.1, 0.2, 0.3, 0.36, 0.36])
    watch = now_and_then(lambda progress: told.append(progress.elapsed_s), monotonic=lambda: next(times_s))

    for elapsed_s in (10.0, 20.0, 30.0, 40.0):
        watch(Progress(elapsed_s, 2, 0, 0, 1, 0, 0))

    assert told == [10.0, 40.0]
