from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_doubles import make_request_result

from rotoscope.replayer.metrics import Interval
from rotoscope.replayer.results import RequestResult
from rotoscope.replayer.token_rates import Sessions, TokenRates, token_rates_of

WINDOW = Interval(10.0, 20.0)
HALF = make_request_result(start_s=9.0, latency_s=2.0, ttft_s=0.5, prompt_tokens=100, completion_tokens=4)
WHOLE = make_request_result(start_s=12.0, latency_s=2.0, ttft_s=0.5, prompt_tokens=200, completion_tokens=16)


def rates_of(*requests: RequestResult, gpus: int = 1) -> TokenRates:
    return token_rates_of(WINDOW, requests, gpus=gpus)


def test_tokens_count_with_the_share_of_their_request_in_the_window() -> None:
    rates = rates_of(HALF, WHOLE, gpus=2)

    assert rates.tokens_per_s_per_gpu == pytest.approx((0.5 * 104 + 216) / 20)
    assert rates.output_tokens_per_s_per_gpu == pytest.approx((0.5 * 4 + 16) / 20)
    assert rates.fresh_tokens_per_s_per_gpu == pytest.approx((0.5 * 64 + 176) / 20)


def test_users_see_the_rates_of_whole_requests() -> None:
    rates = rates_of(HALF, WHOLE)

    assert (rates.whole_requests, rates.sent_requests) == (1, 1)
    assert rates_of(WHOLE, make_request_result(start_s=19.5, latency_s=2.0)).sent_requests == 2
    assert rates.tokens_per_s_per_user == pytest.approx(10.0)
    assert rates.interactivity_per_s is not None
    assert rates.interactivity_per_s.p50 == pytest.approx(8.0)
    assert rates_of(HALF).tokens_per_s_per_user is None
    assert rates_of(HALF).interactivity_per_s is None


def test_only_answered_requests_move_tokens() -> None:
    failed = make_request_result(status="failed", start_s=12.0)
    unsent = make_request_result(status="cancelled", start_s=None, latency_s=None)

    assert rates_of(WHOLE, failed, unsent) == rates_of(WHOLE)
    assert rates_of().tokens_per_s_per_gpu == 0.0


def test_what_is_fresh_is_not_known_where_no_cached_tokens_are_told() -> None:
    silent = make_request_result(start_s=12.0, cached_tokens=None)

    assert rates_of(silent).fresh_tokens_per_s_per_gpu is None
    assert rates_of(silent, WHOLE).fresh_tokens_per_s_per_gpu == pytest.approx((103 + 176) / 10)


def test_who_tells_cached_tokens_outside_of_the_window_had_none_to_tell_in_it() -> None:
    """Older vLLM leaves out a 0."""
    silent, before = make_request_result(start_s=12.0, cached_tokens=None), make_request_result(start_s=1.0)

    assert rates_of(before, silent).fresh_tokens_per_s_per_gpu == pytest.approx(103 / 10)


def test_lengths_that_the_server_does_not_tell_are_taken_as_planned() -> None:
    silent = make_request_result(start_s=12.0, prompt_tokens=None, completion_tokens=None)

    assert rates_of(silent).tokens_per_s_per_gpu == pytest.approx((100 + 3) / 10)


@given(st.integers(1, 4), st.integers(1, 9), st.floats(0.0, 5.0))
def test_a_lane_that_is_never_idle_has_its_exact_rate_however_the_window_cuts_it(
    lanes: int, latency_s: int, offset_s: float
) -> None:
    starts_s = [offset_s + latency_s * number for number in range(-10, 40)]
    requests = [make_request_result(start_s=start_s, latency_s=float(latency_s)) for start_s in starts_s] * lanes

    assert rates_of(*requests).tokens_per_s_per_gpu == pytest.approx(lanes * 103 / latency_s)


def test_rates_have_intervals_over_the_sessions_that_moved_the_tokens() -> None:
    """Two sessions at a time, of 1 to 4 requests each, and one that has none answered."""
    requests = [
        make_request_result(
            session=session,
            start_s=10.0 + session // 2 + 0.25 * number,
            latency_s=0.25,
            ttft_s=0.05 + 0.05 * (session % 3),
            completion_tokens=2 + session % 5,
        )
        for session in range(20)
        for number in range(1 + session % 4)
    ]
    times = {session: Interval(10.0 + session // 2, 11.0 + session // 2) for session in range(20)}
    sessions = Sessions(times | {20: Interval(19.0, 20.0)}, seed=3)

    rates = token_rates_of(WINDOW, requests, gpus=1, sessions=sessions)

    reached = rates.interactivity_per_s
    assert reached is not None
    for value, bounds in (
        (rates.tokens_per_s_per_user, rates.tokens_per_s_per_user_interval),
        (reached.p50, rates.interactivity_p50_interval_per_s),
        (reached.p90, rates.interactivity_p90_interval_per_s),
        (rates.tokens_per_s_per_gpu, rates.tokens_per_s_per_gpu_interval),
        (rates.output_tokens_per_s_per_gpu, rates.output_tokens_per_s_per_gpu_interval),
        (rates.fresh_tokens_per_s_per_gpu, rates.fresh_tokens_per_s_per_gpu_interval),
    ):
        assert value is not None
        assert bounds is not None
        assert bounds.low <= value <= bounds.high
        assert bounds.low < bounds.high
    assert token_rates_of(WINDOW, requests, gpus=1).tokens_per_s_per_gpu_interval is None


def test_equal_sessions_leave_no_doubt_of_their_rate_however_the_window_cuts_them() -> None:
    times = {number: Interval(7.0 + 2 * number, 9.0 + 2 * number) for number in range(8)}
    requests = [make_request_result(session=one, start_s=time.start_s, latency_s=2.0) for one, time in times.items()]

    rates = token_rates_of(WINDOW, requests, gpus=2, sessions=Sessions(times, seed=0))

    assert rates.tokens_per_s_per_gpu == pytest.approx(103 / 2 / 2)
    assert rates.tokens_per_s_per_gpu_interval is not None
    assert rates.tokens_per_s_per_gpu_interval.low == pytest.approx(103 / 2 / 2)
    assert rates.tokens_per_s_per_gpu_interval.high == pytest.approx(103 / 2 / 2)
