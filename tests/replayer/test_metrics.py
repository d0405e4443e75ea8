from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rotoscope.replayer import bootstrap, metrics
from rotoscope.replayer.metrics import Interval

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_itl_leaves_out_the_tokens_of_the_first_event() -> None:
    assert metrics.itl_s(1.0, 2.0, output_tokens=13, first_event_tokens=3) == pytest.approx(0.1)


def test_an_answer_of_one_event_has_no_itl() -> None:
    assert metrics.itl_s(1.0, 1.0, output_tokens=3, first_event_tokens=3) is None


def test_the_first_token_has_no_time_per_output_token() -> None:
    assert metrics.tpot_s(0.5, 4.0, output_tokens=101) == pytest.approx(0.035)
    assert metrics.tpot_s(0.5, 0.5, output_tokens=1) is None


def test_a_user_sees_the_tokens_of_the_median_request() -> None:
    assert metrics.tokens_per_s_per_user([0.01, 0.02, 9.0]) == 50.0
    assert metrics.tokens_per_s_per_user([]) is None
    assert metrics.tokens_per_s_per_user([0.0, 0.0, 1.0]) is None


def test_the_slow_side_of_interactivity_is_below_its_median() -> None:
    interactivity = metrics.interactivity_per_s([(100, 1.0 + number) for number in range(11)])

    assert interactivity is not None
    assert (interactivity.p50, interactivity.p90) == pytest.approx((100 / 6, 10.0))
    assert interactivity.p99 == pytest.approx(100 / 10.9)
    assert metrics.interactivity_per_s([]) is None
    assert metrics.interactivity_per_s([(3, 0.0)]) is None


@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 1000)), min_size=1, max_size=60))
def test_nine_of_ten_requests_reach_the_interactivity_of_the_slow_side(requests: list[tuple[int, float]]) -> None:
    interactivity = metrics.interactivity_per_s(requests)

    assert interactivity is not None
    reaching = sum(tokens / latency_s >= interactivity.p90 * (1 - 1e-9) for tokens, latency_s in requests)
    assert reaching >= 0.9 * (len(requests) - 1)


def test_a_job_lasts_from_its_first_request_to_its_last_answer() -> None:
    requests = [Interval(3.0, 4.0), Interval(1.0, 2.0), Interval(1.5, 9.0)]

    assert metrics.job_latency_s(requests) == 8.0


def closed_loop(latencies_s: Sequence[float], concurrency: int, *, ramp_s: float = 0.0) -> list[Interval]:
    """Return jobs that begin where a slot is free, the first `concurrency` of them evenly over `ramp_s`, no other before."""
    free_at = [0.0] * concurrency
    jobs: list[Interval] = []
    for number, latency_s in enumerate(latencies_s):
        planned_s = ramp_s * min(number / max(concurrency - 1, 1), 1.0)
        slot = free_at.index(min(free_at))
        start_s = max(free_at[slot], planned_s)
        free_at[slot] = start_s + latency_s
        jobs.append(Interval(start_s, start_s + latency_s))
    return jobs


def test_the_window_opens_a_generation_after_full_concurrency_and_closes_with_the_last_admission() -> None:
    jobs = closed_loop([2.0, 3.0, 4.0, 4.0, 4.0, 4.0, 4.0], 2)

    assert [job.start_s for job in jobs] == [0.0, 0.0, 2.0, 3.0, 6.0, 7.0, 10.0]
    assert metrics.steady_window(jobs, 2) == Interval(3.0, 10.0)


def test_a_loop_whose_first_sessions_end_within_its_ramp_is_full_only_after_it() -> None:
    jobs = closed_loop([4.0] * 12, 3, ramp_s=20.0)

    assert [job.start_s for job in jobs[:6]] == [0.0, 10.0, 20.0, 20.0, 20.0, 24.0]
    assert metrics.steady_window(jobs, 3) == Interval(24.0, 32.0)


def test_what_found_an_empty_server_is_not_in_the_window() -> None:
    in_line = [*(4.0 * place for place in range(1, 6)), *[20.0] * 20]
    jobs = closed_loop(in_line, 5)
    window = metrics.steady_window(jobs, 5)
    assert window is not None

    assert metrics.jobs_per_h_per_gpu(metrics.jobs_in_window(jobs, window), window, gpus=1) == pytest.approx(900.0)


@pytest.mark.parametrize(("sessions", "begun_s", "in_window_s"), [(40, 3.71, 1.31), (800, 2.92, 2.86)])
def test_jobs_that_begin_in_a_short_window_are_longer_than_its_time_says(
    sessions: int, begun_s: float, in_window_s: float
) -> None:
    """One of ten is 20 times as long as the others; the true mean is 2.9 s."""
    jobs = closed_loop([20.0 if number % 10 == 9 else 1.0 for number in range(sessions)], 10)
    window = metrics.steady_window(jobs, 10)
    assert window is not None

    assert metrics.mean_latency_of_begun_s(jobs, window) == pytest.approx(begun_s, abs=0.005)
    assert metrics.mean_job_latency_in_window_s(jobs, window) == pytest.approx(in_window_s, abs=0.005)
    assert metrics.mean_latency_of_begun_s(jobs, Interval(-2.0, -1.0)) is None


def test_there_is_no_window_below_three_sessions_a_slot() -> None:
    assert metrics.steady_window(closed_loop([1.0] * 5, 2), 2) is None
    assert metrics.steady_window(closed_loop([1.0] * 6, 2), 2) is not None


@pytest.mark.parametrize("length_s", [1.0, 10.0])
def test_there_is_no_window_where_the_loop_was_never_full(length_s: float) -> None:
    """A session that begins as another one ends takes its place."""
    assert metrics.steady_window([Interval(10.0 * number, 10.0 * number + length_s) for number in range(9)], 2) is None


def test_there_is_no_window_of_no_length() -> None:
    assert metrics.steady_window([Interval(3.0, 3.0)] * 3, 1) is None


@pytest.mark.parametrize(
    ("job", "share"),
    [
        (Interval(2.0, 4.0), 1.0),
        (Interval(-1.0, 3.0), 0.75),
        (Interval(9.0, 13.0), 0.25),
        (Interval(-5.0, 15.0), 0.5),
        (Interval(-5.0, -1.0), 0.0),
        (Interval(11.0, 12.0), 0.0),
        (Interval(5.0, 5.0), 1.0),
        (Interval(11.0, 11.0), 0.0),
    ],
)
def test_a_job_counts_with_its_share_in_the_window(job: Interval, share: float) -> None:
    assert metrics.share_in_window(job, Interval(0.0, 10.0)) == share


def test_the_field_counts_jobs_that_end_in_the_window() -> None:
    jobs = [Interval(-9.0, 0.0), Interval(1.0, 5.0), Interval(9.0, 10.0), Interval(9.0, 10.1)]

    assert metrics.whole_jobs_in_window(jobs, Interval(0.0, 10.0)) == 3


@given(
    st.integers(1, 5),
    st.lists(st.integers(1, 50), min_size=15, max_size=40),
)
def test_a_closed_loop_of_jobs_obeys_littles_law_exactly(concurrency: int, latencies: list[int]) -> None:
    jobs = closed_loop(latencies, concurrency)
    window = metrics.steady_window(jobs, concurrency)
    assume(window is not None)  # jobs that begin together at the end leave none
    assert window is not None

    latency_s = metrics.mean_job_latency_in_window_s(jobs, window)
    per_user = metrics.jobs_per_h_per_user(latency_s or 0.0)
    per_gpu = metrics.jobs_per_h_per_gpu(metrics.jobs_in_window(jobs, window), window, gpus=1)

    assert per_gpu == pytest.approx(concurrency * per_user)


@pytest.mark.parametrize("sessions", [6, 7, 8, 30])
def test_a_closed_loop_of_equal_jobs_has_its_exact_rate_at_any_length(sessions: int) -> None:
    jobs = closed_loop([10.0] * sessions, 2)
    window = metrics.steady_window(jobs, 2)
    assert window is not None

    assert metrics.jobs_per_h_per_gpu(metrics.jobs_in_window(jobs, window), window, gpus=1) == 720.0


@pytest.mark.parametrize(
    ("latencies_s", "settling_s"),
    [
        ([10.0], 9.9),
        ([10.0, 10.0, 10.0], 9.9),
        ([1.0] * 9 + [91.0], 90.0),  # of 100 s in all, 99 are there
        ([1.0] * 99 + [1.0 + 100 / 99], 1.0),
        ([0.0, 0.0], 0.0),
    ],
)
def test_the_settling_time_is_when_99_of_100_sessions_are_there_that_will_be(
    latencies_s: list[float], settling_s: float
) -> None:
    assert metrics.settling_s(latencies_s[::-1]) == pytest.approx(settling_s)


@given(st.lists(st.floats(0.001, 1000.0), min_size=1, max_size=50))
def test_after_the_settling_time_99_percent_of_the_mean_latency_has_passed(latencies_s: list[float]) -> None:
    after_s = metrics.settling_s(latencies_s)

    assert sum(min(one, after_s) for one in latencies_s) == pytest.approx(0.99 * sum(latencies_s))


def test_arrivals_count_behind_the_one_with_which_the_window_opens() -> None:
    assert metrics.arrivals_in_window([0.0, 5.0, 10.0, 15.0, 20.0], Interval(5.0, 15.0)) == 2


def test_sessions_in_flight_are_their_seconds_in_the_window_over_its_length() -> None:
    sessions = [Interval(0.0, 12.0), Interval(10.0, 30.0), Interval(18.0, 19.0), Interval(40.0, 50.0)]

    assert metrics.mean_in_flight(sessions, Interval(10.0, 20.0)) == pytest.approx((2 + 10 + 1) / 10)


def test_more_gpus_share_the_jobs() -> None:
    assert metrics.jobs_per_h_per_gpu(6, Interval(0.0, 60.0), gpus=3) == 120.0


def test_a_hit_rate_is_pooled_and_unknown_without_prompts() -> None:
    assert metrics.hit_rate(30, 120) == 0.25
    assert metrics.hit_rate(0, 0) is None


def test_percentiles_lie_between_the_closest_ranks() -> None:
    values = metrics.distribution([4.0, 1.0, 3.0, 2.0])

    assert values is not None
    assert (values.count, values.mean, values.p50, values.max) == (4, 2.5, 2.5, 4.0)
    assert values.p90 == pytest.approx(3.7)
    assert metrics.distribution([]) is None


def test_every_metric_has_a_row_in_the_docs() -> None:
    functions = [
        name
        for module in (metrics, bootstrap)
        for name, value in inspect.getmembers(module, inspect.isfunction)
        if value.__module__ == module.__name__ and not name.startswith("_")
    ]

    page = PAGE.read_text()

    assert [name for name in functions if f"`{name}`" not in page] == []
