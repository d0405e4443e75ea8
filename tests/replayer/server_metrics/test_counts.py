from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.server_metrics.counts import Counter, ServerMetrics, growth


def counter(**ranks: float) -> Counter:
    return Counter({("name", (("rank", rank),)): value for rank, value in ranks.items()})


def metrics(**fields: Any) -> ServerMetrics:
    return ServerMetrics(family="vllm", **fields)


def test_a_hit_rate_is_that_of_what_was_counted_in_between() -> None:
    before = metrics(prompt=counter(a=1000.0), cached=counter(a=900.0))
    after = metrics(prompt=counter(a=3000.0), cached=counter(a=1400.0))

    assert growth(before, after).hit_rate == 500 / 2000


def test_ranks_are_summed() -> None:
    before = metrics(prompt=counter(a=10.0, b=20.0), cached=counter(a=0.0, b=0.0))
    after = metrics(prompt=counter(a=110.0, b=120.0), cached=counter(a=50.0, b=20.0))

    assert (growth(before, after).prompt, growth(before, after).cached) == (200.0, 70.0)
    assert after.prompt is not None
    assert after.prompt.total == 230.0


def test_hits_in_other_tiers_are_apart_and_part_of_the_rate() -> None:
    before = metrics(prompt=counter(a=0.0), cached=counter(a=0.0))
    after = metrics(prompt=counter(a=100.0), cached=counter(a=40.0), external_cached=counter(host=10.0))

    found = growth(before, after)
    assert (found.cached, found.external_cached, found.hit_rate) == (40.0, 10.0, 0.5)


def test_a_series_that_was_not_there_before_counts_from_zero() -> None:
    before = metrics(prompt=counter(a=5.0), cached=counter())
    after = metrics(prompt=counter(a=15.0, b=10.0), cached=counter(a=5.0))

    found = growth(before, after)
    assert (found.prompt, found.cached, found.restarted) == (20.0, 5.0, False)


def test_a_rank_that_restarts_is_seen_though_the_sum_grows() -> None:
    before = metrics(prompt=counter(a=1000.0, b=1000.0), cached=counter(a=0.0))
    after = metrics(prompt=counter(a=10.0, b=9000.0), cached=counter(a=0.0))

    found = growth(before, after)
    assert (found.restarted, found.prompt, found.hit_rate) == (True, None, None)


@pytest.mark.parametrize(
    "after",
    [
        metrics(prompt=counter(a=3.0), cached=counter(a=1.0)),
        metrics(prompt=counter(b=30.0), cached=counter(a=20.0)),
        metrics(prompt=counter(a=30.0)),
        replace(metrics(prompt=counter(a=30.0), cached=counter(a=20.0)), family="sglang"),
    ],
    ids=["went back", "another rank", "no longer told", "another engine"],
)
def test_what_does_not_go_on_is_a_restart(after: ServerMetrics) -> None:
    before = metrics(prompt=counter(a=10.0), cached=counter(a=10.0))

    assert growth(before, after).restarted


def test_what_an_engine_does_not_tell_stays_unknown_and_is_no_restart() -> None:
    found = growth(metrics(), metrics())

    assert (found.prompt, found.cached, found.hit_rate, found.preemptions) == (None, None, None, None)
    assert not found.restarted


def test_without_prompts_there_is_no_rate() -> None:
    same = metrics(prompt=counter(a=10.0), cached=counter(a=5.0))

    assert growth(same, same).hit_rate is None


@given(
    st.dictionaries(st.sampled_from("abcd"), st.tuples(st.integers(0, 10**9), st.integers(0, 10**9))),
    st.floats(0.5, 64),
)
def test_what_is_added_to_ranks_is_what_was_counted(ranks: dict[str, tuple[int, int]], factor: float) -> None:
    before = counter(**{rank: float(start) for rank, (start, _) in ranks.items()})
    after = counter(**{rank: float(start + more) for rank, (start, more) in ranks.items()})

    added = sum(more for _, more in ranks.values())
    assert after.growth_since(before) == added
    assert after.times(factor).growth_since(before.times(factor)) == pytest.approx(added * factor, rel=1e-6, abs=1e-3)
