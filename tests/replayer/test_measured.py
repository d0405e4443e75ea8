from __future__ import annotations

from replay_doubles import make_request_result

from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.job_path import Path
from rotoscope.replayer.measured import Place, request_result, session_result
from rotoscope.replayer.results import RequestResult, SessionResult
from rotoscope.testing import make_call

PLACE = Place(session=3, trace=1, run_start_s=100.0)


def result_of(*requests: RequestResult, status: str = "ok") -> SessionResult:
    return session_result(PLACE, requests, admitted_s=100.5, status=status, failure=None)  # type: ignore[arg-type]


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


def test_the_parts_of_a_job_are_those_of_the_path_to_its_last_answer() -> None:
    first = make_request_result(start_s=1.0, ttft_s=1.0, latency_s=4.0)
    last = Path(100.0).then("tool_s", 102.0).through(Exchange(prompt=b"", output_tokens=1, sent_s=102.0), 105.0)

    result = session_result(PLACE, [first], admitted_s=100.5, last=last, join_wait_s=2.5, status="ok", failure=None)

    assert (result.start_s, result.latency_s) == (1.0, 4.0)
    assert (result.generating_s, result.queue_prefill_s, result.decode_s) == (3.0, 3.0, 0.0)
    assert (result.waiting_s, result.tool_s, result.client_s, result.overhead_s) == (1.0, 1.0, 0.0, 0.0)
    assert result.join_wait_s == 2.5


def test_a_session_that_was_not_completed_is_no_job() -> None:
    result = result_of(make_request_result(), status="failed")

    assert (result.latency_s, result.queue_prefill_s, result.decode_s, result.join_wait_s) == (None, None, None, None)
