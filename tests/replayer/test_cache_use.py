from __future__ import annotations

from typing import Any

import pytest
from replay_doubles import make_request_result

from rotoscope.replayer.cache_use import CacheUse, answered_of, cache_use, looked_up_s, tells_cached
from rotoscope.replayer.metrics import Interval


@pytest.mark.parametrize(
    ("fields", "at_s"),
    [
        ({"start_s": 2.0, "ttft_s": 3.0, "latency_s": 9.0}, 5.0),
        ({"start_s": 2.0, "ttft_s": 0.0, "latency_s": 9.0}, 2.0),
        ({"start_s": 2.0, "ttft_s": None, "latency_s": 9.0}, 11.0),
        ({"start_s": None}, None),
    ],
    ids=["first token", "at once", "no token", "never sent"],
)
def test_a_request_counts_when_its_first_token_came(fields: dict[str, Any], at_s: float | None) -> None:
    assert looked_up_s(make_request_result(**fields)) == at_s


def test_the_rate_of_a_stretch_is_that_of_the_requests_that_count_in_it_beside_their_optimum() -> None:
    requests = [
        make_request_result(start_s=0.0, ttft_s=1.0, cached_tokens=1),
        make_request_result(start_s=0.0, ttft_s=2.0, prompt_tokens=300, cached_tokens=100),
        make_request_result(start_s=2.5, ttft_s=0.5, cached_tokens=None),
        make_request_result(start_s=2.9, ttft_s=0.2, cached_tokens=1),
        make_request_result(start_s=1.5, ttft_s=0.5, status="failed", cached_tokens=1),
    ]

    use = cache_use(answered_of(requests, [10, 200, 80, 10, 10]), Interval(1.0, 3.0), is_told=True)

    assert use == CacheUse(
        requests=2,
        prompt_tokens=400,
        cached_tokens=100,
        hit_rate=0.25,
        optimal_tokens=280,
        optimal_hit_rate=0.7,
    )


def test_each_request_counts_in_one_part_of_the_run() -> None:
    moments = [0.0, 0.5, 1.0, 1.5, 2.0]
    looked = answered_of([make_request_result(start_s=0.0, ttft_s=at_s) for at_s in moments], [50] * 5)

    parts = [cache_use(looked, Interval(*edges), is_told=True).requests for edges in ((0.0, 1.0), (1.0, 2.0))]

    assert parts == [3, 2]


def test_without_any_report_there_is_no_measured_rate_and_an_optimum_all_the_same() -> None:
    looked = answered_of([make_request_result(cached_tokens=None)], [50])

    use = cache_use(looked, Interval(0.0, 1.0), is_told=tells_cached(looked))

    assert (use.cached_tokens, use.hit_rate, use.optimal_hit_rate) == (None, None, 0.5)


def test_of_no_request_there_is_no_rate() -> None:
    use = cache_use([], Interval(0.0, 1.0), is_told=True)

    assert (use.requests, use.cached_tokens, use.hit_rate, use.optimal_hit_rate) == (0, 0, None, None)
