from __future__ import annotations

import pytest

from benchmarks.engines import HEADINGS, Comparison, Outcome, Workload, comparison_of, explanation
from rotoscope.replayer.results import RequestResult
from rotoscope.testing import make_trace

WORK = Workload("six turns", [make_trace()], 2, 2)


def request(call: int, start_s: float, ttft_s: float, cached: int | None) -> RequestResult:
    return RequestResult(
        session=0,
        trace=0,
        call=call,
        branch=None,
        start_s=start_s,
        ttft_s=ttft_s,
        itl_s=None,
        latency_s=ttft_s + 9.0,
        prompt_tokens=100,
        completion_tokens=5,
        cached_tokens=cached,
        planned_prompt_tokens=100,
        planned_completion_tokens=5,
        asked_tokens=5,
        isl_mismatch=False,
        osl_mismatch=False,
        status="ok",
    )


def test_calls_stand_in_the_order_in_which_they_were_sent_beside_their_optima() -> None:
    compared = comparison_of(WORK, [request(1, 5.0, 1.0, 64), request(0, 0.0, 1.0, None)], [80, 0])

    assert compared.calls == (Outcome(100, 0, 0, False), Outcome(100, 64, 80, False))
    assert list(compared.differences()) == [(1, compared.calls[1])]


@pytest.mark.parametrize(("second_s", "overlapped"), [(0.9, True), (1.1, False)])
def test_prompts_overlap_until_the_first_token(second_s: float, overlapped: bool) -> None:
    compared = comparison_of(WORK, [request(0, 0.0, 1.0, 0), request(1, second_s, 1.0, 0)], [0, 0])

    assert [one.overlapped for one in compared.calls] == [overlapped, overlapped]


def test_two_calls_sent_at_the_same_moment_overlap() -> None:
    compared = comparison_of(WORK, [request(0, 0.0, 1.0, 0), request(1, 0.0, 1.0, 0)], [0, 0])

    assert all(one.overlapped for one in compared.calls)


def test_a_row_sums_tokens_and_counts_calls() -> None:
    outcomes = (Outcome(100, 32, 32, False), Outcome(100, 0, 32, True), Outcome(100, 64, 32, False))

    row = dict(zip(HEADINGS, Comparison(WORK, outcomes).row("vllm"), strict=True))

    assert (row["prompt tokens"], row["cached"], row["optimum"]) == ("300", "96", "96")
    assert (row["calls"], row["equal"], row["below"], row["above"]) == ("3", "1", "1", "1")


@pytest.mark.parametrize(
    ("engine", "outcome", "is_explained"),
    [
        ("vllm", Outcome(100, 0, 32, False), False),
        ("vllm", Outcome(100, 0, 32, True), True),
        ("llamacpp", Outcome(100, 0, 32, False), True),
        ("llamacpp", Outcome(100, 64, 32, True), False),
    ],
)
def test_more_than_the_optimum_is_never_explained(engine: str, outcome: Outcome, is_explained: bool) -> None:
    assert (explanation(engine, outcome) is not None) == is_explained
