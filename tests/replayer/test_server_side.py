from __future__ import annotations

from typing import Any

import pytest
from replay_doubles import make_request_result

from rotoscope.replayer.metrics import Interval, Level
from rotoscope.replayer.server_metrics.counts import ServerMetrics
from rotoscope.replayer.server_metrics.series import ServerSample, ServerSeries, Source
from rotoscope.replayer.server_side import ServerSide, server_side_of

WINDOW = Interval(1.0, 3.0)


async def tell_nothing() -> ServerMetrics | None:
    return None


def series_of(*samples: ServerSample, **told: Any) -> ServerSeries:
    source = Source(ServerMetrics(family="vllm", **told), tell_nothing)
    series = ServerSeries(source, elapsed_s=lambda: 0.0, write=lambda sample: None)
    series.samples = list(samples)
    return series


def side_of(
    series: ServerSeries | None, *, window: Interval | None = WINDOW, max_batch: int | None = None
) -> ServerSide:
    requests = [make_request_result(start_s=at_s, ttft_s=0.5, cached_tokens=40) for at_s in (0.0, 1.0, 2.0)]
    return server_side_of(requests, [50, 50, 80], window=window, duration_s=4.0, series=series, max_batch=max_batch)


def sample(at_s: float, **told: float) -> ServerSample:
    return ServerSample(at_s=at_s, **told)


STEADY = (
    sample(0.0, prompt=0, cached=0, host_cached=0, external_cached=0),
    sample(1.0, prompt=1000, cached=100, host_cached=0, external_cached=0, kv_usage=0.1, running=4, waiting=9),
    sample(2.0, prompt=1500, cached=200, host_cached=50, external_cached=0, kv_usage=0.5, running=8, waiting=1),
    sample(3.0, prompt=2000, cached=350, host_cached=100, external_cached=50, kv_usage=0.9, running=8, waiting=1),
    sample(4.0, prompt=9000, cached=350, host_cached=100, external_cached=50),
)


def test_hit_rates_of_the_window_stand_by_tier_beside_usage_and_optimum() -> None:
    side = side_of(series_of(*STEADY))

    assert (side.over, side.from_s, side.to_s) == ("window", 1.0, 3.0)
    assert side.counters is not None
    assert (side.counters.prompt, side.counters.cached) == (1000.0, 250.0)
    assert (side.counters.own_hit_rate, side.counters.host_hit_rate, side.counters.external_hit_rate) == (
        0.25,
        0.1,
        0.05,
    )
    assert side.counters.hit_rate == pytest.approx(0.4)
    assert (side.usage.requests, side.usage.hit_rate, side.usage.optimal_hit_rate) == (2, 0.4, 0.65)


def test_gauges_are_means_over_the_window_s_time() -> None:
    side = side_of(series_of(*STEADY))

    assert side.running == Level(mean=(0.5 * 4 + 1.5 * 8) / 2, p50=8.0, max=8.0)
    assert side.waiting == Level(mean=3.0, p50=1.0, max=9.0)
    assert side.kv_usage is not None
    assert side.kv_usage.mean == pytest.approx(0.5)
    assert side.host_usage is None
    assert (side.samples, side.missed) == (2, 0)


def test_the_batch_fill_is_mean_running_over_the_batch_that_is_given_or_else_told() -> None:
    assert side_of(series_of(*STEADY)).batch_fill is None
    assert side_of(series_of(*STEADY, max_batch=14)).batch_fill == 0.5
    assert side_of(series_of(*STEADY, max_batch=14), max_batch=28).batch_fill == 0.25
    assert side_of(series_of(*STEADY, max_batch=14), max_batch=28).max_batch == 28


def test_mean_times_are_those_of_requests_that_were_counted_in_the_window() -> None:
    side = side_of(
        series_of(
            sample(0.0, queue_s=0.0, queued_requests=0),
            sample(1.0, queue_s=50.0, queued_requests=10),
            sample(3.0, queue_s=56.0, queued_requests=14),
        )
    )

    assert (side.request_queue_s, side.request_prefill_s) == (1.5, None)


def test_without_a_window_the_whole_run_counts() -> None:
    side = side_of(series_of(*STEADY), window=None)

    assert (side.over, side.from_s, side.to_s) == ("run", 0.0, 4.0)
    assert side.counters is not None
    assert side.counters.prompt == 9000.0
    assert side.usage.requests == 3


def test_a_server_without_metrics_leaves_the_usage() -> None:
    side = side_of(None)

    assert (side.counters, side.running, side.batch_fill, side.samples) == (None, None, None, 0)
    assert side.usage.hit_rate == 0.4


def test_blocks_are_named_where_no_tokens_are_counted() -> None:
    side = side_of(series_of(*STEADY, unit="blocks"))

    assert side.counters is not None
    assert side.counters.unit == "blocks"


def test_nothing_counted_in_the_window_gives_no_rate() -> None:
    side = side_of(series_of(sample(0.0, prompt=0, cached=0), sample(4.0, prompt=0, cached=0)))

    assert side.counters is not None
    assert (side.counters.prompt, side.counters.hit_rate) == (0.0, None)
