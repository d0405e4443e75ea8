from __future__ import annotations

import heapq

import numpy as np
import pytest
from replay_doubles import make_session_result, make_setup

from rotoscope.replayer.bootstrap import mean_interval
from rotoscope.replayer.precision import Precision, parse_half_width
from rotoscope.replayer.results import SessionResult
from rotoscope.replayer.window import window_of
from rotoscope.traces import UnusableInput

TRIALS = 100
CONCURRENCY = 4


def until_known(wanted: float, latencies_s: list[float], *, concurrency: int = 1) -> int:
    """Return after how many sessions that is enough, 0 if never."""
    precision = Precision(wanted, concurrency=concurrency)
    for number, seconds in enumerate(latencies_s, 1):
        precision.add(is_job=True, seconds=seconds)
        if precision.is_enough:
            return number
    return 0


def closed_loop_until(wanted: float, random: np.random.Generator) -> list[SessionResult]:
    """Perform jobs of mean 1 s in slots that are always taken until jobs/h is known; those in flight end."""
    precision = Precision(wanted, concurrency=CONCURRENCY)
    sessions: list[SessionResult] = []
    running: list[tuple[float, float]] = []

    def let_in(now_s: float) -> None:
        latency_s = float(random.gamma(4.0, 0.25))
        heapq.heappush(running, (now_s + latency_s, latency_s))
        times = {"admitted_s": now_s, "start_s": now_s, "latency_s": latency_s}
        sessions.append(make_session_result(len(sessions), **times))

    for _ in range(CONCURRENCY):
        let_in(0.0)
    while not precision.is_enough:
        ended_s, latency_s = heapq.heappop(running)
        precision.add(is_job=True, seconds=latency_s)
        if not precision.is_enough:
            let_in(ended_s)
    return sessions


def test_a_half_width_is_written_in_percent() -> None:
    assert parse_half_width("5%") == 0.05
    assert parse_half_width("2.5%") == 0.025


@pytest.mark.parametrize("text", ["5", "0%", "100%", "-5%", "five%", ""])
def test_what_is_no_half_width_is_refused(text: str) -> None:
    with pytest.raises(UnusableInput, match="such as 5%"):
        parse_half_width(text)


def test_the_half_width_is_that_of_the_interval() -> None:
    latencies_s = [float(one) for one in np.random.default_rng(1).gamma(4.0, size=400)]
    precision = Precision(None, concurrency=1)
    for seconds in latencies_s:
        precision.add(is_job=True, seconds=seconds)

    bounds = mean_interval(latencies_s, seed=1)

    assert bounds is not None
    assert precision.half_width == pytest.approx((bounds.high - bounds.low) / 2 / np.mean(latencies_s), rel=0.1)
    assert not precision.is_enough


def test_of_a_few_sessions_nothing_is_said() -> None:
    precision = Precision(0.05, concurrency=1)
    for _ in range(19):
        precision.add(is_job=True, seconds=1.0)

    assert precision.half_width is None


def test_jobs_that_are_all_alike_are_known_at_the_second_look() -> None:
    assert until_known(0.05, [1.0] * 100) == 25
    assert until_known(0.05, [1.0] * 1000, concurrency=64) == 218


def test_one_narrow_look_is_not_enough() -> None:
    latencies_s = [1.0] * 20 + [9.0] * 4 + [1.0] * 5000

    assert until_known(0.05, latencies_s) > 100


def test_failed_sessions_make_the_number_less_certain() -> None:
    sound, failing = Precision(None, concurrency=1), Precision(None, concurrency=1)
    for number in range(100):
        sound.add(is_job=True, seconds=1.0 + number % 3)
        failing.add(is_job=number % 5 > 0, seconds=1.0 + number % 3)

    assert sound.half_width is not None
    assert failing.half_width is not None
    assert failing.half_width > 1.3 * sound.half_width


def test_where_no_job_was_done_nothing_is_known() -> None:
    precision = Precision(0.5, concurrency=1)
    for _ in range(200):
        precision.add(is_job=False, seconds=1.0)

    assert (precision.half_width, precision.is_enough) == (None, False)


def test_intervals_of_runs_that_end_when_they_know_hold_the_true_rate_nearly_as_often_as_they_say() -> None:
    random = np.random.default_rng(11)
    held, half_widths = 0, []
    for trial in range(TRIALS):
        setup = make_setup(concurrency=CONCURRENCY, gpus=1, seed=trial)
        window = window_of(setup, closed_loop_until(0.1, random), [])
        assert window is not None
        bounds = window.jobs_per_h_per_gpu_interval
        assert bounds is not None
        held += bounds.low <= 3600 * CONCURRENCY <= bounds.high
        half_widths.append((bounds.high - bounds.low) / 2 / window.jobs_per_h_per_gpu)

    assert 0.90 <= held / TRIALS < 1
    assert np.percentile(half_widths, 90) <= 0.1
