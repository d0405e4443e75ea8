from __future__ import annotations

import pytest
from replay_doubles import make_request_result

from rotoscope.replayer.server_metrics.series import ServerSample
from rotoscope.replayer.timeline import sparkline, timeline_of

REQUESTS = [make_request_result(start_s=at_s, ttft_s=0.5, cached_tokens=40) for at_s in (0.0, 1.0, 3.0)]
SAMPLES = [
    ServerSample(at_s=0.0, prompt=0.0, cached=0.0),
    ServerSample(at_s=1.0, prompt=100.0, cached=20.0, host_cached=10.0, kv_usage=0.5, running=2.0, waiting=0.0),
    ServerSample(at_s=3.0, prompt=300.0, cached=140.0, host_cached=30.0, kv_usage=1.0, running=4.0, waiting=1.0),
    ServerSample(at_s=4.0, prompt=300.0, cached=140.0, host_cached=30.0),
]


def test_each_part_has_its_rate_by_usage_and_counters_beside_the_optimum() -> None:
    first, second = timeline_of(REQUESTS, [50, 80, 100], SAMPLES, duration_s=4.0, bins=2)

    assert (first.start_s, first.end_s, second.start_s, second.end_s) == (0.0, 2.0, 2.0, 4.0)
    assert (first.requests, first.prompt_tokens, first.cached_tokens, first.optimal_tokens) == (2, 200, 80, 130)
    assert (first.hit_rate, first.optimal_hit_rate) == (0.4, 0.65)
    assert (first.counted_prompt, first.counted_cached, first.counted_external_cached) == (200.0, 80.0, None)
    assert (second.counted_prompt, second.counted_cached, second.counted_host_cached) == (100.0, 60.0, 10.0)
    assert second.counted_hit_rate == 0.7
    assert (first.kv_usage, first.running, second.running, second.waiting) == (0.5, 2.0, 4.0, 1.0)


def test_a_part_without_requests_has_no_rate() -> None:
    parts = timeline_of(REQUESTS, [50, 80, 100], [], duration_s=4.0)

    assert len(parts) == 20
    assert sum(part.requests for part in parts) == 3
    assert (parts[0].requests, parts[0].cached_tokens, parts[0].hit_rate) == (0, 0, None)
    assert (parts[0].counted_prompt, parts[0].kv_usage) == (None, None)


def test_the_parts_of_a_run_hold_all_its_requests() -> None:
    parts = timeline_of(REQUESTS, [50, 80, 100], [], duration_s=3.5, bins=7)

    assert [part.requests for part in parts] == [1, 0, 1, 0, 0, 0, 1]
    assert parts[-1].end_s == 3.5


def test_a_run_that_took_no_time_has_no_parts() -> None:
    assert timeline_of([], [], [], duration_s=0.0) == []


@pytest.mark.parametrize(
    ("values", "top", "text"),
    [
        ([0.0, 0.5, 1.0, None], 1.0, "▁▅█·"),
        ([1.0, 2.0, 4.0], None, "▃▅█"),
        ([0.0, 0.0], None, "▁▁"),
        ([], None, ""),
        ([2.0], 1.0, "█"),
    ],
)
def test_a_sparkline_has_a_bar_for_each_value(values: list[float | None], top: float | None, text: str) -> None:
    assert sparkline(values, top=top) == text
