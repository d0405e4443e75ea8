from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from replay_doubles import make_request_result, make_setup

from rotoscope.replayer.failures import FailureKind
from rotoscope.replayer.goodput import Goodput, goodput_of, is_good
from rotoscope.replayer.limits import Limits
from rotoscope.replayer.metrics import Interval, ends_in_window, share_in_window
from rotoscope.replayer.results import RequestResult

WINDOW = Interval(0.0, 10.0)
FAST = make_request_result(ttft_s=0.5, itl_s=0.02, latency_s=2.0, completion_tokens=51)
SLOW = make_request_result(session=1, ttft_s=3.0, itl_s=0.02, latency_s=4.0, completion_tokens=51)
FAILED = make_request_result(session=2, status="failed", failure=FailureKind.REFUSED, ttft_s=None, latency_s=0.1)


def goodput_within(text: str, *requests: RequestResult, window: Interval | None = WINDOW, gpus: int = 1) -> Goodput:
    found = goodput_of(make_setup(limits=Limits.parse(text), gpus=gpus), requests, window)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("limits", "good"),
    [
        ("ttft:0.5", True),
        ("ttft:0.49", False),
        ("itl:0.02", True),
        ("itl:0.019", False),
        ("tpot:0.03", True),
        ("tpot:0.029", False),
        ("latency:2", True),
        ("latency:1.9", False),
        ("ttft:9,itl:9,tpot:9,latency:1.9", False),
    ],
)
def test_an_answer_is_good_within_all_limits(limits: str, good: bool) -> None:
    assert is_good(FAST, Limits.parse(limits)) is good


def test_an_answer_of_one_token_breaks_no_limit_between_tokens() -> None:
    single = make_request_result(itl_s=None, completion_tokens=1)

    assert is_good(single, Limits.parse("itl:0.001,tpot:0.001"))


def test_failed_requests_are_never_good_and_cancelled_ones_do_not_count() -> None:
    cancelled = make_request_result(status="cancelled", start_s=None, ttft_s=None, latency_s=None)

    goodput = goodput_within("ttft:1", FAST, SLOW, FAILED, cancelled)

    assert (goodput.good, goodput.ended) == (1, 3)
    assert goodput.share == pytest.approx(1 / 3)


def test_the_rate_counts_good_answers_with_their_share_in_the_window() -> None:
    half: dict[str, Any] = {"start_s": -1.0, "ttft_s": 0.5, "latency_s": 2.0}

    goodput = goodput_within("ttft:1", FAST, SLOW, make_request_result(**half), gpus=2)

    assert goodput.requests_per_s_per_gpu == pytest.approx(1.5 / 10 / 2)
    assert goodput_within("ttft:1", FAST, window=None).requests_per_s_per_gpu is None


def test_the_share_has_an_interval_over_sessions() -> None:
    requests = [make_request_result(session=number // 4, ttft_s=0.1 * (number % 7)) for number in range(80)]

    goodput = goodput_within("ttft:0.35", *requests)

    assert goodput.share_interval is not None
    assert goodput.share_interval.low < goodput.share < goodput.share_interval.high
    assert goodput_within("ttft:1", FAST).share_interval is None


@given(st.lists(st.floats(0.01, 5.0), min_size=1, max_size=30), st.floats(0.01, 5.0), st.floats(0.0, 2.0))
def test_looser_limits_lose_no_answer(ttfts_s: list[float], limit_s: float, more_s: float) -> None:
    requests = [make_request_result(session=number, ttft_s=ttft_s) for number, ttft_s in enumerate(ttfts_s)]

    tight, loose = (
        sum(is_good(request, Limits(ttft_s=limit)) for request in requests) for limit in (limit_s, limit_s + more_s)
    )

    assert tight <= loose
    assert tight == sum(ttft_s <= limit_s for ttft_s in ttfts_s)


def test_there_is_no_goodput_without_limits_or_requests() -> None:
    assert goodput_of(make_setup(), [FAST], WINDOW) is None
    assert goodput_of(make_setup(limits=Limits(ttft_s=1.0)), [], WINDOW) is None


def test_where_requests_pile_up_good_ones_count_when_they_end() -> None:
    setup, window = make_setup(limits=Limits.parse("itl:1"), gpus=1), Interval(1.0, 3.0)

    assert [
        found.requests_per_s_per_gpu
        for credit in (share_in_window, ends_in_window)
        if (found := goodput_of(setup, [FAST, SLOW], window, credit=credit))
    ] == [pytest.approx((0.5 + 0.5) / 2), pytest.approx(1 / 2)]
