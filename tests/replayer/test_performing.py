from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from event_loops import in_jumping_loop
from replay_doubles import VOCABULARY, VirtualServer

from rotoscope.replayer.load.arrivals import Arrivals
from rotoscope.replayer.load.fixed import Shape
from rotoscope.replayer.load.order import Order
from rotoscope.replayer.notes import Notes
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.performing import Target, Watch, perform_run, work_of
from rotoscope.replayer.prompting import Prompting
from rotoscope.replayer.rendering import TOKEN_LISTS
from rotoscope.replayer.schedule import NO_GAPS, Gaps
from rotoscope.replayer.server import Server
from rotoscope.replayer.server_metrics.counts import Counter, Growth, ServerMetrics
from rotoscope.replayer.server_metrics.series import Source
from rotoscope.replayer.summary import Summary
from rotoscope.testing import make_trace
from rotoscope.traces import Trace, UnusableInput
from rotoscope.traces.analysis.profiles import profile_named


class Counts:
    """What a server has counted, and how many prompt tokens it was told to have counted by then."""

    def __init__(self) -> None:
        self.before_tokens: int | None = None
        self.expected_tokens = 0

    async def begin(self, *, expected_tokens: int) -> None:
        self.before_tokens = expected_tokens

    async def growth(self, *, expected_tokens: int = 0) -> Growth | None:
        self.expected_tokens = expected_tokens
        return Growth(
            family="vllm",
            unit="tokens",
            restarted=False,
            prompt=float(expected_tokens),
            cached=0.0,
            external_cached=None,
            output_tokens=None,
            preemptions=None,
        )


async def performed(
    traces: list[Trace],
    folder: Path,
    *,
    server: VirtualServer | None = None,
    counts: Counts | None = None,
    watch: Watch | None = None,
    source: Source | None = None,
    **options: Any,
) -> Summary:
    given = ReplayOptions(url="http://127.0.0.1:1", gaps=NO_GAPS, folder=folder, **options)
    notes = Notes(lambda text: None)
    target = Target(
        server=Server("m", simulated=True),
        api="completions",
        prompting=Prompting(TOKEN_LISTS, VOCABULARY),
        backend=server or VirtualServer(),
        profile=profile_named("token"),
        counted=counts or Counts(),
        source=source,
    )
    work = work_of(traces, given, notes)
    return await perform_run(work, target, given, notes=notes, say=lambda text: None, watch=watch)


@in_jumping_loop
async def test_whatever_answers_all_sessions_are_performed_and_summed_up(tmp_path: Path) -> None:
    server, counts = VirtualServer(), Counts()

    summary = await performed([make_trace(turns=3)], tmp_path, server=server, counts=counts, sessions=4, concurrency=2)

    assert (summary.sessions.ok, summary.requests.ok) == (4, 12)
    assert server.most_in_flight == 2
    assert summary.setup.simulated
    assert summary.job_latency_s is not None
    assert summary.counted is not None
    assert summary.counted.prompt == counts.expected_tokens == summary.cache.prompt_tokens
    written = json.loads((tmp_path / "summary.json").read_text())
    assert written["requests"]["ok"] == 12
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 12


@in_jumping_loop
async def test_what_is_preloaded_comes_before_the_run_and_is_told_apart(tmp_path: Path) -> None:
    server, counts = VirtualServer(), Counts()

    summary = await performed([make_trace()], tmp_path, server=server, counts=counts, sessions=2, warm_up=2)

    assert [len(json.loads(prompt)) for prompt in server.prompts] == [40, 40, 100, 100]
    assert (summary.requests.ok, summary.requests.planned) == (2, 2)
    assert counts.before_tokens == 80
    assert summary.cache.optimal_tokens == 80
    written = json.loads((tmp_path / "summary.json").read_text())
    assert written["warm_up"] == {"prefixes": 1, "tokens": 40, "times": 2, "failed": 0}


@in_jumping_loop
async def test_an_open_loop_on_a_server_without_limits_gives_the_rate_that_was_offered(tmp_path: Path) -> None:
    """Each answer takes 30 s, and a session starts every five."""
    options: dict[str, Any] = {"fixed": Shape(50, 30), "rate_per_h": 720.0, "arrivals": Arrivals.parse("constant")}

    summary = await performed([Shape(50, 30).trace()], tmp_path, sessions=120, **options)

    assert summary.window is not None
    loop = summary.window.open_loop
    assert loop is not None
    assert (summary.window.opens_s, summary.window.closes_s) == pytest.approx((30.0, 595.0), abs=1e-3)
    assert loop.offered_per_h_per_gpu == pytest.approx(720.0)
    assert summary.window.jobs_per_h_per_gpu == pytest.approx(720.0)
    assert summary.window.jobs_per_h_per_user == pytest.approx(120.0)
    assert loop.mean_in_flight == pytest.approx(6.0)
    assert loop.overloaded is False
    assert summary.order == Order(120 * 119 // 2, 0, 0.0)


@in_jumping_loop
async def test_without_a_warm_up_the_server_is_as_it_is(tmp_path: Path) -> None:
    server, counts = VirtualServer(), Counts()

    summary = await performed([make_trace()], tmp_path, server=server, counts=counts, sessions=2)

    assert (len(server.prompts), counts.before_tokens, summary.warm_up) == (2, None, None)
    assert summary.cache.optimal_tokens == 40


@in_jumping_loop
async def test_a_run_that_is_cancelled_is_summed_up_as_interrupted(tmp_path: Path) -> None:
    run = asyncio.create_task(performed([make_trace(turns=3)], tmp_path, sessions=4))
    await asyncio.sleep(7.5)
    run.cancel()

    with pytest.raises(asyncio.CancelledError):
        await run
    assert json.loads((tmp_path / "summary.json").read_text())["interrupted"]


def told_by(server: VirtualServer) -> ServerMetrics:
    """Return what a virtual server could tell: a prompt counts when it comes, half of it found in host memory."""
    tokens = float(sum(prompt.count(b",") + 1 for prompt in server.prompts))
    return ServerMetrics(
        family="vllm",
        prompt=Counter({("prompt", ()): tokens}),
        cached=Counter({("cached", ()): 0.0}),
        host_cached=Counter({("host", ()): tokens / 2}),
        running=float(server.in_flight),
        max_batch=4,
    )


@in_jumping_loop
async def test_the_server_is_looked_at_over_the_run_whatever_it_is(tmp_path: Path) -> None:
    server = VirtualServer()

    async def read() -> ServerMetrics | None:
        return told_by(server)

    source = Source(told_by(server), read)
    summary = await performed([make_trace(turns=3)], tmp_path, server=server, source=source, sessions=8, concurrency=2)

    side = summary.server
    assert side is not None
    assert side.over == "window"
    assert side.counters is not None
    assert side.counters.hit_rate == side.counters.host_hit_rate == 0.5
    assert side.running is not None
    assert (side.running.mean, side.batch_fill) == (2.0, 0.5)
    lines = [json.loads(line) for line in (tmp_path / "server.jsonl").read_text().splitlines()]
    assert lines[-1]["prompt"] == summary.cache.prompt_tokens
    assert [line["at_s"] for line in lines[:3]] == [0.0, 0.5, 1.5]
    parts = [json.loads(line) for line in (tmp_path / "timeline.jsonl").read_text().splitlines()]
    assert len(parts) == 20
    assert sum(part["counted_prompt"] for part in parts) == pytest.approx(summary.cache.prompt_tokens)
    assert sum(part["prompt_tokens"] for part in parts) == summary.cache.prompt_tokens
    assert sum(part["optimal_tokens"] for part in parts) == summary.cache.optimal_tokens


@in_jumping_loop
async def test_a_server_that_does_not_tell_how_it_is_delays_nobody(tmp_path: Path) -> None:
    server = VirtualServer()

    async def read() -> ServerMetrics | None:
        if asyncio.get_running_loop().time() < 8.0:
            await asyncio.Event().wait()
        return None

    source = Source(told_by(server), read)
    silent = await performed([make_trace(turns=3)], tmp_path / "silent", source=source, sessions=4, concurrency=2)
    untold = await performed([make_trace(turns=3)], tmp_path / "untold", sessions=4, concurrency=2)

    assert silent.duration_s == untold.duration_s > 8.0
    assert silent.job_latency_s == untold.job_latency_s
    assert silent.server is not None
    assert (silent.server.samples, silent.server.running) == (0, None)


@in_jumping_loop
async def test_a_run_that_is_cancelled_keeps_the_samples_that_it_has(tmp_path: Path) -> None:
    server = VirtualServer()

    async def read() -> ServerMetrics | None:
        return told_by(server)

    run = asyncio.create_task(
        performed([make_trace(turns=3)], tmp_path, server=server, source=Source(told_by(server), read), sessions=4)
    )
    await asyncio.sleep(7.25)
    run.cancel()

    with pytest.raises(asyncio.CancelledError):
        await run
    side = json.loads((tmp_path / "summary.json").read_text())["server"]
    assert (side["over"], side["samples"], side["running"]["mean"]) == ("run", 7, 1.0)


@in_jumping_loop
async def test_progress_is_told_four_times_a_second_and_at_the_end(tmp_path: Path) -> None:
    elapsed: list[float] = []

    await performed([make_trace(turns=1)], tmp_path, watch=lambda progress: elapsed.append(progress.elapsed_s))

    assert elapsed[:3] == pytest.approx([0.0, 0.25, 0.5])
    assert elapsed[-1] == max(elapsed)


def test_a_gap_of_centuries_is_refused() -> None:
    trace = make_trace(turns=2, tool_ms=10_000.0)

    with pytest.raises(UnusableInput, match=r"trace 2 has a gap of 1e\+10 s: give a --gap-cap"):
        work_of(
            [make_trace(turns=1), trace],
            ReplayOptions(url="http://127.0.0.1:1", gaps=Gaps(scale=1e9)),
            Notes(lambda text: None),
        )


def test_without_a_trace_there_is_no_work() -> None:
    with pytest.raises(UnusableInput, match="no trace"):
        work_of([], ReplayOptions(url="http://127.0.0.1:1"), Notes(lambda text: None))
