from __future__ import annotations

from dataclasses import replace
from typing import Any

from chat_wire import Wire, assistant, delta, sse, usage, user

from rotoscope.recorder.calls import SeenCall, SeenRun, gather
from rotoscope.recorder.exchange import Exchange
from rotoscope.traces.journal import CallOpened

HI = [user("hi")]


def run_of(wire: Wire) -> SeenRun:
    return gather(wire.written().records)


def one_call(answer: Any, counts: dict[str, Any] | None) -> SeenCall:
    wire = Wire()
    wire.call(HI, answer, counts=counts)
    (call,) = run_of(wire).calls
    return call


def streamed(wire: Wire, *events: Any) -> Exchange:
    exchange = wire.ask(HI, stream=True)
    exchange.response(200, at_s=wire.now_s, content_type="text/event-stream")
    exchange.chunk(sse(*events), at_s=wire.now_s)
    return exchange


def test_a_call_has_what_the_server_counted() -> None:
    call = one_call(assistant("yes", thinking="hm"), usage(10, 5, reasoning=2))

    assert (call.reported_prompt_tokens, call.completion_tokens, call.reasoning_tokens) == (10, 5, 2)
    assert (call.prompt_source, call.completion_source) == ("usage", "usage")


def test_thinking_that_was_not_counted_has_its_share_of_the_bytes() -> None:
    call = one_call(assistant("a" * 50, thinking="b" * 150), usage(10, 100))

    assert call.reasoning_tokens == 75
    assert call.shows_thinking
    assert not call.hides_thinking


def test_thinking_without_its_text_is_hidden() -> None:
    assert one_call(assistant("a"), usage(10, 100, reasoning=90)).hides_thinking


def test_an_output_that_was_not_counted_is_estimated_from_its_bytes() -> None:
    call = one_call(assistant("a" * 400), None)

    assert (call.completion_tokens, call.completion_source) == (100, "estimate")


def test_a_stream_that_was_cut_has_a_token_for_each_piece_at_least() -> None:
    wire = Wire()
    streamed(wire, *(delta({"content": "a"}) for _ in range(7))).cancelled(at_s=wire.now_s)
    (call,) = run_of(wire).calls

    assert (call.finish_reason, call.completion_tokens, call.completion_source) == ("cancelled", 7, "estimate")


def test_a_stream_that_was_cut_behind_its_usage_is_counted() -> None:
    wire = Wire()
    events = delta({"content": "a"}), {"choices": [], "usage": usage(10, 5)}
    streamed(wire, *events).cancelled(at_s=wire.now_s)
    (call,) = run_of(wire).calls

    assert (call.completion_tokens, call.completion_source) == (5, "usage")


def test_refusals_are_attempts_of_the_call_that_was_made_at_last() -> None:
    wire = Wire()
    wire.refuse(HI, status=429)
    wire.refuse(HI, status=503)
    wire.call(HI, assistant("yes"), counts=usage(10, 5))
    run = run_of(wire)

    assert [(call.number, call.attempts, call.reported_prompt_tokens) for call in run.calls] == [(0, 3, 10)]
    assert run.refused == 0


def test_a_request_that_never_reached_the_server_is_an_attempt() -> None:
    wire = Wire()
    wire.ask(HI).failed(at_s=wire.now_s)
    wire.call(HI, assistant("yes"), counts=usage(10, 5))

    assert [call.attempts for call in run_of(wire).calls] == [2]


def test_the_choices_of_a_request_fail_together_and_are_sent_again_together() -> None:
    wire = Wire()
    wire.refuse(HI, n=2)
    wire.answer(wire.ask(HI, n=2), assistant("yes"), assistant("no"))

    assert [call.attempts for call in run_of(wire).calls] == [2, 2]


def test_the_choices_of_a_server_that_failed_for_good_have_the_attempts_of_their_request() -> None:
    wire = Wire()
    for _ in range(2):
        wire.refuse(HI, n=2, status=500)

    assert [(call.attempts, call.finish_reason) for call in run_of(wire).calls] == [(2, "error")] * 2


def test_an_error_inside_an_answer_that_said_nothing_is_an_attempt() -> None:
    wire = Wire()
    for _ in range(2):
        streamed(wire, {"error": {"message": "overloaded"}}).end(at_s=wire.now_s)
    wire.call(HI, assistant("yes"))

    assert [(call.attempts, call.finish_reason) for call in run_of(wire).calls] == [(3, "stop")]


def test_an_error_inside_an_answer_that_was_counted_is_a_call() -> None:
    wire = Wire()
    streamed(wire, {"choices": [], "usage": usage(10, 5)}, {"error": {"message": "no"}}).end(at_s=wire.now_s)
    wire.call(HI, assistant("yes"))

    assert [call.attempts for call in run_of(wire).calls] == [1, 1]


def test_what_one_was_refused_is_no_attempt_of_another_that_sends_the_same() -> None:
    wire = Wire()
    wire.refuse(HI, status=429)
    wire.call(HI, assistant("yes"))
    wire.call(HI, assistant("yes"))
    threads = {0: 1, 1: 0, 2: 1}
    records = [
        replace(x, thread=threads[x.call], thread_source="client") if isinstance(x, CallOpened) else x
        for x in wire.written().records
    ]

    assert [call.attempts for call in gather(records).calls] == [1, 2]


def test_another_prompt_is_no_further_attempt() -> None:
    wire = Wire()
    wire.refuse(HI, status=500)
    wire.call([user("other")], assistant("yes"), counts=usage(10, 5))

    assert [(call.attempts, call.finish_reason) for call in run_of(wire).calls] == [(1, "error"), (1, "stop")]


def test_a_request_that_began_before_the_refusal_is_no_further_attempt() -> None:
    wire = Wire()
    refused, other = wire.ask(HI), wire.ask(HI)
    wire.now_s += 1
    refused.failed(at_s=wire.now_s)
    wire.answer(other, assistant("yes"))

    assert sorted(call.attempts for call in run_of(wire).calls) == [1, 1]


def test_each_request_that_was_refused_for_good_is_counted() -> None:
    wire = Wire()
    for _ in range(3):
        wire.refuse(HI, status=400)
    wire.call([*HI, user("other")], assistant("x"))

    assert gather(wire.written().records).refused == 3


def test_what_was_refused_for_good_is_no_call_and_is_counted() -> None:
    wire = Wire()
    wire.refuse(HI, status=400)
    wire.call([user("other")], assistant("yes"))
    run = run_of(wire)

    assert ([call.number for call in run.calls], run.refused) == ([0], 1)


def test_a_server_that_failed_for_good_leaves_a_call_with_its_attempts() -> None:
    wire = Wire()
    for _ in range(3):
        wire.refuse(HI, status=500)

    assert [(call.attempts, call.finish_reason) for call in run_of(wire).calls] == [(3, "error")]


def test_output_before_the_failure_makes_it_a_call() -> None:
    wire = Wire()
    streamed(wire, delta({"content": "a"})).failed(at_s=wire.now_s)
    wire.call(HI, assistant("yes"))

    assert [(call.attempts, call.finish_reason) for call in run_of(wire).calls] == [(1, "error"), (1, "stop")]


def test_a_call_in_flight_is_lost_and_never_ends() -> None:
    wire = Wire()
    wire.ask(HI)
    (call,) = run_of(wire).calls

    assert (call.finish_reason, call.end_ms, call.answer) == ("lost", float("inf"), None)


def test_choices_share_what_was_counted_by_their_sizes() -> None:
    wire = Wire()
    exchange = wire.ask(HI, n=3)
    wire.answer(exchange, assistant("a" * 99), assistant("b" * 199), assistant(""), counts=usage(10, 31, cached=4))
    run = run_of(wire)

    assert [call.completion_tokens for call in run.calls] == [10, 21, 0]
    assert {call.completion_source for call in run.calls} == {"estimate"}
    assert [call.reported_prompt_tokens for call in run.calls] == [10] * 3
    assert [call.end.cached_tokens for call in run.calls if call.end] == [4, None, None]
    assert {call.opened.request for call in run.calls} == {0}


def test_a_measured_prompt_counts_where_usage_is_missing() -> None:
    wire = Wire()
    exchange = wire.ask(HI)
    wire.answer(exchange, assistant("yes"))
    exchange.measured([1, 2, 3])
    run = run_of(wire)

    assert (run.calls[0].reported_prompt_tokens, run.calls[0].prompt_source) == (3, "tokenizer:server")
    assert run.exact == {0}


def test_a_measured_prompt_of_another_length_than_was_counted_is_not_believed() -> None:
    wire = Wire()
    exchange = wire.ask(HI)
    wire.answer(exchange, assistant("yes"), counts=usage(4, 5))
    exchange.measured([1, 2, 3])
    run = run_of(wire)

    assert (run.calls[0].reported_prompt_tokens, run.exact) == (4, frozenset())
