from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from event_loops import in_jumping_loop

from rotoscope.replayer.clock import LoopClock
from rotoscope.replayer.polling import sampling
from rotoscope.replayer.results import ResultsFolder
from rotoscope.replayer.server_metrics.counts import Counter, ServerMetrics
from rotoscope.replayer.server_metrics.series import ServerSample, ServerSeries, Source, Tally, series_of


def metrics_of(prompt: float | None = None, *, family: str = "vllm", rank: str = "0", **told: Any) -> ServerMetrics:
    counter = None if prompt is None else Counter({("prompt", (("rank", rank),)): prompt})
    return ServerMetrics(family=family, prompt=counter, **told)


def prompts_counted(*steps: ServerMetrics) -> list[float | None]:
    tally = Tally(steps[0])
    return [tally.counted(step)["prompt"] for step in steps[1:]]


def test_counts_are_those_since_the_start() -> None:
    assert prompts_counted(metrics_of(100), metrics_of(150), metrics_of(150), metrics_of(400)) == [50, 50, 300]


def test_a_counter_that_begins_anew_is_not_known_from_then_on_even_when_it_is_higher_again() -> None:
    assert prompts_counted(metrics_of(100), metrics_of(150), metrics_of(10), metrics_of(900)) == [50, None, None]


def test_a_counter_that_is_gone_is_not_known_from_then_on() -> None:
    assert prompts_counted(metrics_of(100), metrics_of(), metrics_of(200)) == [None, None]


def test_a_counter_that_appears_counts_from_zero() -> None:
    assert prompts_counted(metrics_of(), metrics_of(), metrics_of(30), metrics_of(40)) == [None, 30, 40]


def test_of_another_engine_behind_the_address_nothing_is_known() -> None:
    assert prompts_counted(metrics_of(100), metrics_of(150, family="sglang")) == [None]


def series_over(*told: ServerMetrics | None) -> tuple[ServerSeries, list[ServerSample]]:
    """Return a series of a server that tells one after another, then nothing more, and what it writes."""
    rest: Iterator[ServerMetrics | None] = iter(told[1:])

    async def read() -> ServerMetrics | None:
        return next(rest, None)

    assert told[0] is not None
    written: list[ServerSample] = []
    return ServerSeries(Source(told[0], read), elapsed_s=LoopClock().now, write=written.append), written


@in_jumping_loop
async def test_samples_are_taken_once_a_second_and_a_look_that_fails_leaves_a_gap() -> None:
    series, written = series_over(metrics_of(100), metrics_of(110, running=2.0), None, metrics_of(140, running=3.0))

    async with series.looking():
        await LoopClock().sleep(4.0)

    assert [(one.at_s, one.prompt, one.running) for one in series.samples] == [(0, 0, None), (0.5, 10, 2), (2.5, 40, 3)]
    assert series.missed == 2
    assert written == series.samples


@in_jumping_loop
async def test_at_the_end_counters_are_taken_once_more_and_gauges_are_not() -> None:
    series, _ = series_over(metrics_of(100), metrics_of(140, running=0.0, waiting=0.0, kv_usage=0.0, host_usage=0.0))

    await series.look_at_end(7.25)

    assert series.samples[-1] == ServerSample(at_s=7.25, prompt=40.0)


@in_jumping_loop
async def test_a_sample_stands_between_asking_and_the_answer() -> None:
    clock = LoopClock()

    async def read() -> ServerMetrics | None:
        await clock.sleep(0.5)
        return metrics_of(5)

    series = ServerSeries(Source(metrics_of(0), read), elapsed_s=clock.now, write=lambda sample: None)
    await series.look()

    assert series.samples[-1].at_s == 0.25


@in_jumping_loop
async def test_samples_are_lines_in_the_folder_of_the_results(tmp_path: Path) -> None:
    async def read() -> ServerMetrics | None:
        return metrics_of(5, kv_usage=0.5)

    with ResultsFolder.opened(tmp_path) as results:
        series = series_of(Source(metrics_of(0), read), elapsed_s=LoopClock().now, results=results)
        async with sampling(series):
            await LoopClock().sleep(1.0)

    lines = [json.loads(line) for line in (tmp_path / "server.jsonl").read_text().splitlines()]
    assert [(one["at_s"], one["prompt"], one["kv_usage"]) for one in lines] == [(0.0, 0.0, None), (0.5, 5.0, 0.5)]


@in_jumping_loop
async def test_without_a_source_nothing_is_taken(tmp_path: Path) -> None:
    with ResultsFolder.opened(tmp_path) as results:
        series = series_of(None, elapsed_s=LoopClock().now, results=results)
        async with sampling(series):
            await LoopClock().sleep(1.0)

    assert series is None
    assert not (tmp_path / "server.jsonl").exists()


def test_what_was_found_is_the_sum_of_the_tiers() -> None:
    assert ServerSample(at_s=0.0, cached=5.0, host_cached=3.0, external_cached=2.0).found == 10.0
    assert ServerSample(at_s=0.0, cached=5.0).found == 5.0
    assert ServerSample(at_s=0.0, host_cached=3.0).found is None


@pytest.mark.parametrize("name", ["prompt", "kv_usage"])
def test_what_is_not_told_is_not_zero(name: str) -> None:
    assert getattr(ServerSample(at_s=0.0), name) is None
