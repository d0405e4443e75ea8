from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rotoscope.replayer.backlog import latency_growth, open_window
from rotoscope.replayer.metrics import Interval


def jobs_of(starts_s: Sequence[float], latencies_s: Sequence[float]) -> list[Interval]:
    return [Interval(start, start + latency) for start, latency in zip(starts_s, latencies_s, strict=True)]


def at_a_rate(count: int, *, every_s: float, latency_s: float) -> list[Interval]:
    return jobs_of([every_s * number for number in range(count)], [latency_s] * count)


def one_by_one(starts_s: Sequence[float], services_s: Sequence[float]) -> list[Interval]:
    """Return the jobs of a server that performs one at a time, in order."""
    ends_s: list[float] = []
    for start_s, service_s in zip(starts_s, services_s, strict=True):
        ends_s.append(max(start_s, ends_s[-1] if ends_s else 0.0) + service_s)
    return [Interval(start, end) for start, end in zip(starts_s, ends_s, strict=True)]


def window_of(jobs: Sequence[Interval]) -> Interval | None:
    return open_window([job.start_s for job in jobs], jobs)


@given(st.integers(20, 300), st.floats(0.1, 10.0), st.floats(0.1, 1000.0), st.randoms(use_true_random=False))
def test_equal_latencies_do_not_grow_in_whatever_order_jobs_are_told(
    count: int, every_s: float, latency_s: float, random: object
) -> None:
    jobs = at_a_rate(count, every_s=every_s, latency_s=latency_s)
    random.shuffle(jobs)  # type: ignore[attr-defined]

    found = latency_growth(jobs)

    assert found is not None
    assert found.growth == pytest.approx(0.0, abs=1e-9)
    assert not found.is_overload


def test_a_server_that_does_half_of_what_arrives_makes_each_second_of_arrivals_a_second_longer() -> None:
    found = latency_growth(one_by_one([5.0 * number for number in range(200)], [10.0] * 200))

    assert found is not None
    assert found.growth == pytest.approx(1.0)
    assert found.at_least == pytest.approx(1.0)
    assert found.is_overload


@pytest.mark.parametrize("jobs", [at_a_rate(19, every_s=1.0, latency_s=2.0), at_a_rate(30, every_s=0.0, latency_s=2.0)])
def test_too_few_jobs_and_such_that_start_at_once_tell_nothing(jobs: list[Interval]) -> None:
    assert latency_growth(jobs) is None


def drawn_loop(seed: int, *, load: float, count: int) -> list[Interval]:
    """Return jobs that arrive by chance at a server of exponential service times of 1 s."""
    random = np.random.default_rng(seed)
    starts_s = [*map(float, accumulate(random.exponential(1 / load, count)))]
    return one_by_one(starts_s, [*map(float, random.exponential(1.0, count))])


def overloads(load: float, *, count: int = 1000, trials: int = 100) -> int:
    found = [latency_growth(drawn_loop(seed, load=load, count=count)) for seed in range(trials)]
    return sum(one is not None and one.is_overload for one in found)


def test_a_server_that_is_half_or_eight_tenths_loaded_is_hardly_ever_called_overloaded() -> None:
    assert overloads(0.5) <= 2
    assert overloads(0.8) <= 4


def test_chance_is_hardly_ever_taken_for_an_overload_of_few_jobs() -> None:
    assert overloads(0.5, count=50) <= 2
    assert overloads(0.8, count=200) <= 6


def test_a_server_that_gets_a_fifth_more_than_it_can_do_is_hardly_ever_missed() -> None:
    assert overloads(1.2) >= 90


def test_the_window_opens_when_as_many_are_there_as_will_be_and_closes_at_the_last_arrival() -> None:
    assert window_of(at_a_rate(100, every_s=5.0, latency_s=30.0)) == Interval(30.0, 495.0)


def test_sessions_that_take_longer_than_half_the_arrivals_leave_no_window() -> None:
    assert window_of(at_a_rate(100, every_s=1.0, latency_s=60.0)) is None
    assert window_of(at_a_rate(1, every_s=1.0, latency_s=1.0)) is None
    assert open_window([0.0, 1.0], []) is None


def test_where_an_overloaded_server_makes_them_slow_the_window_is_the_second_half() -> None:
    jobs = one_by_one([5.0 * number for number in range(201)], [10.0] * 201)

    assert window_of(jobs) == Interval(500.0, 1000.0)


def test_long_jobs_that_come_only_later_are_no_overload_where_they_get_no_longer() -> None:
    latencies_s = [1.0 if number < 100 or number % 5 else 1000.0 for number in range(300)]

    assert window_of(jobs_of([1.0 * number for number in range(300)], latencies_s)) is None


def test_jobs_that_were_slow_from_the_start_leave_no_window_though_they_get_longer() -> None:
    """Of such a run nobody can say whether it was still filling up."""
    assert window_of(jobs_of([1.0 * n for n in range(100)], [60.0 + 0.5 * n for n in range(100)])) is None


def test_long_jobs_among_short_ones_are_no_overload() -> None:
    """There are as many at the end as at the start, and not yet as many as there will be."""
    jobs = jobs_of([1.0 * number for number in range(300)], [1.0 if number % 5 else 1000.0 for number in range(300)])

    assert window_of(jobs) is None
