from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from replay_doubles import make_request_result

from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.measured import Place, request_result, session_result
from rotoscope.replayer.results import RequestResult, SessionResult
from rotoscope.testing import make_call

PLACE = Place(session=3, trace=1, run_start_s=100.0)
REQUESTS = st.builds(
    lambda start_s, ttft_s, rest_s: make_request_result(
        start_s=float(start_s), ttft_s=float(ttft_s), latency_s=float(ttft_s + rest_s)
    ),
    st.integers(0, 20),
    st.integers(0, 4),
    st.integers(0, 4),
)


def result_of(*requests: RequestResult, status: str = "ok") -> SessionResult:
    return session_result(PLACE, requests, admitted_s=100.5, status=status, failure=None)  # type: ignore[arg-type]


def seconds(requests: list[RequestResult], *, from_first_token: bool) -> set[int]:
    """Return the seconds in which a request is in flight, or its answer arriving."""
    found: set[int] = set()
    for one in requests:
        assert one.start_s is not None
        assert one.ttft_s is not None
        assert one.latency_s is not None
        begins_s = one.start_s + (one.ttft_s if from_first_token else 0.0)
        found.update(range(int(begins_s), int(one.start_s + one.latency_s)))
    return found


def test_times_to_the_first_token_and_to_the_first_output_are_told_apart() -> None:
    exchange = Exchange(prompt=b"[]", output_tokens=3, sent_s=101.0)
    exchange.note_tokens(1, 102.0)
    exchange.note_tokens(1, 103.5, is_output=True)
    exchange.note_tokens(1, 104.0, is_output=True)

    result = request_result(PLACE, make_call(), exchange, due_s=0.0, status="cancelled", failure=None)

    assert (result.start_s, result.ttft_s, result.ttfo_s) == (1.0, 1.0, 2.5)


def test_there_is_no_time_to_output_where_nobody_knows_what_is_reasoning() -> None:
    exchange = Exchange(prompt=b"[]", output_tokens=3, sent_s=101.0)
    exchange.note_tokens(1, 102.0)

    assert request_result(PLACE, make_call(), exchange, due_s=0.0, status="ok", failure=None).ttfo_s is None


def test_while_an_answer_arrives_another_prompt_costs_the_job_no_time_of_its_own() -> None:
    first = make_request_result(start_s=1.0, ttft_s=1.0, latency_s=4.0)
    beside = make_request_result(start_s=2.0, ttft_s=2.0, latency_s=5.0)

    result = result_of(first, beside)

    assert (result.latency_s, result.generating_s, result.queue_prefill_s, result.decode_s) == (6.0, 6.0, 1.0, 5.0)


@given(st.lists(REQUESTS, min_size=1, max_size=6))
def test_each_second_of_a_job_is_prefill_or_decode_or_waiting(requests: list[RequestResult]) -> None:
    result = result_of(*requests)

    in_flight, arriving = seconds(requests, from_first_token=False), seconds(requests, from_first_token=True)

    assert result.decode_s == len(arriving)
    assert result.queue_prefill_s == len(in_flight - arriving)
    assert result.latency_s == len(in_flight) + (result.waiting_s or 0.0)


def test_a_session_that_was_not_completed_is_no_job() -> None:
    result = result_of(make_request_result(), status="failed")

    assert (result.latency_s, result.queue_prefill_s, result.decode_s) == (None, None, None)
