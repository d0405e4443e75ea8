from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from replay_doubles import make_request_result, make_session_result, make_setup

from rotoscope.replayer.bootstrap import mean_interval
from rotoscope.replayer.metrics import Interval, share_in_window
from rotoscope.replayer.results import RequestResult, SessionResult
from rotoscope.replayer.window import Window, window_of


@dataclass
class ClosedLoop:
    """Sessions of drawn latencies, so many at once, of which some fail after a while."""

    latencies_s: list[float]
    concurrency: int
    failing: frozenset[int] = frozenset()
    sessions: list[SessionResult] = field(default_factory=list)
    requests: list[RequestResult] = field(default_factory=list)

    def window(self, *, gpus: int = 1, seed: int = 0) -> Window:
        free_s = [0.0] * self.concurrency
        for number, latency_s in enumerate(self.latencies_s):
            start_s = min(free_s)
            free_s[free_s.index(start_s)] = start_s + latency_s
            self._add(number, start_s, latency_s)
        setup = make_setup(concurrency=self.concurrency, sessions=len(self.sessions), gpus=gpus, seed=seed)
        window = window_of(setup, self.sessions, self.requests)
        assert window is not None
        return window

    def _add(self, number: int, start_s: float, latency_s: float) -> None:
        self.requests.append(make_request_result(session=number, start_s=start_s, latency_s=latency_s))
        failed = number in self.failing
        self.sessions.append(
            make_session_result(
                number,
                admitted_s=start_s,
                start_s=start_s,
                latency_s=None if failed else latency_s,
                status="failed" if failed else "ok",
            )
        )


def test_jobs_that_found_an_empty_server_are_not_in_the_rates() -> None:
    began_empty = ClosedLoop([*(4.0 * place for place in range(1, 6)), *[20.0] * 12], concurrency=5).window(gpus=2)

    assert began_empty.jobs_per_h_per_gpu == pytest.approx(450.0)
    assert began_empty.jobs_per_h_per_user == pytest.approx(180.0)


def test_equal_jobs_leave_no_doubt_however_the_window_cuts_them() -> None:
    window = ClosedLoop([10.0, 10.0, 10.0, 4.0, 10.0, 4.0, *[10.0] * 9], concurrency=2).window()
    equal = ClosedLoop([10.0] * 9, concurrency=2).window(gpus=2)

    assert window.jobs_per_h_per_gpu_interval is not None
    assert window.jobs_per_h_per_gpu_interval.low < window.jobs_per_h_per_gpu < window.jobs_per_h_per_gpu_interval.high
    for value, bounds in (
        (360.0, equal.jobs_per_h_per_user_interval),
        (360.0, equal.jobs_per_h_per_gpu_interval),
        (10.0, equal.mean_job_latency_interval_s),
    ):
        assert bounds is not None
        assert (bounds.low, bounds.high) == pytest.approx((value, value))


def test_95_of_100_closed_loops_hold_the_true_rates() -> None:
    """The true rate of a loop of C slots is C / mean job latency."""
    random, trials, held, held_by_users = np.random.default_rng(3), 100, 0, 0
    for trial in range(trials):
        window = ClosedLoop([*map(float, random.gamma(4.0, size=100))], concurrency=4).window(gpus=2, seed=trial)
        per_gpu, per_user = window.jobs_per_h_per_gpu_interval, window.jobs_per_h_per_user_interval
        assert per_gpu is not None
        assert per_user is not None
        held += per_gpu.low <= 3600 * 4 / 4.0 / 2 <= per_gpu.high
        held_by_users += per_user.low <= 3600 / 4.0 <= per_user.high

    assert 0.9 <= held / trials <= 0.99
    assert 0.9 <= held_by_users / trials <= 0.99


def test_failures_lower_the_rate_and_widen_its_interval() -> None:
    latencies_s = [10.0] * 40
    window = ClosedLoop(latencies_s, concurrency=2, failing=frozenset(range(3, 40, 5))).window()

    bounds = window.jobs_per_h_per_gpu_interval
    assert bounds is not None
    assert bounds.low < window.jobs_per_h_per_gpu < bounds.high < 720.0
    assert window.jobs_per_h_per_gpu == pytest.approx(720 * 29 / 36)
    assert window.jobs_per_h_per_user == 360.0


def test_an_open_loop_of_which_nobody_can_say_whether_it_is_kept_up_with_counts_what_ends() -> None:
    """Each session ends 7 s behind the one before it: a server that does 514 an hour is offered 720."""
    sessions = [
        make_session_result(number, admitted_s=5.0 * number, start_s=5.0 * number, latency_s=10.0 + 2.0 * number)
        for number in range(30)
    ]

    window = window_of(make_setup(concurrency=None, rate_per_h=720.0, arrivals="constant", gpus=1), sessions, [])

    assert window is not None
    assert window.open_loop is not None
    assert window.open_loop.overloaded is None
    assert window.excess_of_begun is None
    assert window.jobs == window.whole_jobs
    assert window.jobs_per_h_per_gpu == pytest.approx(514.0, rel=0.06)


def test_an_open_loop_draws_sessions_and_not_their_seconds() -> None:
    """How many come is fixed: what varies is how much of each lies in the window, however long they take."""
    latencies_s = [1.0, 99.0] * 60
    sessions = [make_session_result(number, latency_s=latency_s) for number, latency_s in enumerate(latencies_s)]
    setup = make_setup(concurrency=None, rate_per_h=360.0, arrivals="constant", gpus=1, seed=4)

    window = window_of(setup, sessions, [])

    assert window is not None
    times = [Interval(10.0 * number, 10.0 * number + one) for number, one in enumerate(latencies_s)]
    shares = [share_in_window(time, Interval(window.opens_s, window.closes_s)) for time in times]
    per_session = mean_interval(shares, seed=4)
    assert per_session is not None
    assert window.jobs_per_h_per_gpu_interval is not None
    per_job = 3600 * 120 / (window.closes_s - window.opens_s)
    assert window.jobs_per_h_per_gpu_interval.low == pytest.approx(per_session.low * per_job)
    assert window.jobs_per_h_per_gpu_interval.high == pytest.approx(per_session.high * per_job)
