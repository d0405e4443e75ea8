from __future__ import annotations

from typing import Any

import pytest
from chat_wire import Wire, assistant, delta, result, sse, system, tool, tool_call, usage, user

from rotoscope.recorder.template_bounds import ANSWER_START_TOKENS
from rotoscope.traces import Prefix

START = [system("You are an agent. " * 20), user("Do it. " * 30)]
READ = tool_call("1", "read")
ASKING = assistant("I look.", calls=[READ])


def summary(prefix: Prefix) -> tuple[Any, int, str]:
    return prefix.of, prefix.tokens, prefix.source


def test_growth_is_the_whole_previous_stream_by_the_text_of_the_answer() -> None:
    wire = Wire()
    grown = [*wire.call(START, ASKING, counts=usage(1000, 20)), result("1", "found")]
    wire.call(grown, assistant("done"), counts=usage(1060, 5))
    prefix = wire.calls()[1].prefix

    assert prefix == Prefix(0, 1020, "text", low=1000 - ANSWER_START_TOKENS)


def test_growth_is_seen_although_the_client_gives_new_ids_to_tool_calls() -> None:
    wire = Wire()
    wire.call(START, ASKING, counts=usage(1000, 20))
    renamed = assistant("I look.", calls=[tool_call("x", "read")])
    wire.call([*START, renamed, result("x", "found")], assistant("done"), counts=usage(1060, 5))

    assert summary(wire.calls()[1].prefix) == (0, 1020, "text")


def test_thinking_that_was_dropped_leaves_the_previous_prompt() -> None:
    wire = Wire()
    wire.call(START, assistant("I look.", calls=[READ], thinking="hm " * 50), counts=usage(1000, 90, reasoning=70))
    wire.call([*START, ASKING, result("1", "found")], assistant("done"), counts=usage(1060, 5))
    prefix = wire.calls()[1].prefix

    assert summary(prefix) == (0, 1000, "text")
    assert prefix.greatest < 1090


def test_thinking_that_was_sent_back_is_part_of_the_stream() -> None:
    wire = Wire()
    grown = wire.call(START, assistant("I look.", calls=[READ], thinking="hm " * 50), counts=usage(1000, 90))
    wire.call([*grown, result("1", "found")], assistant("done"), counts=usage(1160, 5))

    assert summary(wire.calls()[1].prefix) == (0, 1090, "text")


def test_thinking_that_was_never_shown_is_not_in_the_next_prompt() -> None:
    wire = Wire()
    grown = wire.call(START, ASKING, counts=usage(1000, 90, reasoning=70))
    wire.call([*grown, result("1", "found")], assistant("done"), counts=usage(1060, 5))
    prefix = wire.calls()[1].prefix

    assert (prefix.of, prefix.tokens) == (0, 1000)
    assert prefix.greatest == 1060


def test_a_prompt_too_short_for_the_whole_answer_shares_the_previous_prompt() -> None:
    wire = Wire()
    grown = wire.call(START, ASKING, counts=usage(1000, 500))
    wire.call([*grown, result("1", "found")], assistant("done"), counts=usage(1060, 5))

    assert summary(wire.calls()[1].prefix) == (0, 1000, "text")


def test_the_same_prompt_again_is_shared_as_a_whole_and_exactly() -> None:
    wire = Wire()
    wire.call(START, assistant("a"), counts=usage(1000, 20))
    wire.call(START, assistant("b"), counts=usage(1000, 20))

    assert wire.calls()[1].prefix == Prefix(0, 1000, "usage")


def test_the_same_prompt_again_is_named_after_its_first_call() -> None:
    wire = Wire()
    for _ in range(3):
        wire.call(START, assistant("a"), counts=usage(1000, 20))

    assert [call.prefix.of for call in wire.calls()] == ["s0", 0, 0]


def test_a_prompt_that_was_counted_otherwise_the_second_time_is_not_the_same() -> None:
    wire = Wire()
    wire.call(START, assistant("a"), counts=usage(1000, 20))
    wire.call(START, assistant("b"), counts=usage(1010, 20))
    prefix = wire.calls()[1].prefix

    assert prefix.of == 0
    assert prefix.least == 0
    assert prefix.tokens < 1010


def test_a_fork_shares_the_answer_and_one_token_that_marks_its_end() -> None:
    wire = Wire()
    grown = wire.call(START, ASKING, counts=usage(1000, 20))
    for text in ("one", "two", "three"):
        wire.call([*grown, result("1", text)], assistant(text), counts=usage(1060, 5))

    assert [summary(call.prefix)[:2] for call in wire.calls()[1:]] == [(0, 1020), (1, 1021), (1, 1021)]


def test_a_rewind_shares_what_stands_before_the_new_message() -> None:
    wire = Wire()
    first = [*wire.call(START, ASKING, counts=usage(1000, 20)), result("1", "found")]
    second = [*wire.call(first, assistant("next"), counts=usage(1060, 5)), user("go on")]
    wire.call(second, assistant("more"), counts=usage(1090, 5))
    wire.call([*first[:3], result("1", "nothing")], assistant("sorry"), counts=usage(1065, 5))

    assert summary(wire.calls()[3].prefix)[:2] == (1, 1021)


def test_an_edit_inside_a_long_message_shares_its_beginning() -> None:
    wire = Wire()
    text = "A long text of many words. " * 100
    wire.call([*START, assistant("a"), user(text)], assistant("b"), counts=usage(2000, 5))
    wire.call(
        [*START, assistant("a"), user(text[:1350] + "CHANGED" + text[1350:])], assistant("c"), counts=usage(2002, 5)
    )
    prefix = wire.calls()[1].prefix

    assert 1050 < prefix.tokens < 1250
    assert prefix.least == 0


def test_a_summary_behind_the_system_prompt_shares_the_system_prompt_only() -> None:
    wire = Wire()
    wire.call(START, assistant("a"), counts=usage(1000, 20))
    wire.call([START[0], user("Summary: all is well.")], assistant("b"), counts=usage(760, 20))
    trace = wire.close()

    assert {summary(call.prefix)[:2] for call in trace.calls()} == {("s0", trace.shared_prefixes[0].tokens)}


def test_an_answer_that_the_client_changed_leaves_the_previous_prompt() -> None:
    wire = Wire()
    wire.call(START, assistant("I look into it."), counts=usage(1000, 20))
    wire.call([*START, assistant("Looked."), user("and?")], assistant("b"), counts=usage(1030, 20))

    assert summary(wire.calls()[1].prefix)[:2] == (0, 1000)


def test_an_output_that_was_not_delivered_when_the_request_came_is_not_shared() -> None:
    wire = Wire()
    slow = wire.ask(START, at=0)
    other = wire.ask([*START, assistant("yes"), user("and?")], at=1)
    wire.answer(other, assistant("b"), counts=usage(1030, 20), at=2)
    wire.answer(slow, assistant("yes"), counts=usage(1000, 20), at=3)

    assert wire.calls()[1].prefix.tokens == 1000


def test_outputs_that_begin_alike_are_counted_and_not_shared() -> None:
    wire = Wire()
    for _ in range(3):
        wire.call(START, assistant("the same answer"), counts=usage(1000, 20))
    trace = wire.close()

    assert trace.output_matches == 2
    assert [call.prefix.tokens for call in trace.calls()][1:] == [1000, 1000]


def test_prompts_of_two_models_share_nothing() -> None:
    wire = Wire()
    wire.call(START, assistant("a"), counts=usage(1000, 20))
    wire.call(START, assistant("a"), counts=usage(900, 20), model="other")
    trace = wire.close()

    assert [(call.domain, call.prefix.of) for call in trace.calls()] == [(0, "s0"), (1, "s1")]
    assert trace.shared_prefixes[1].prefix is None


def test_other_tools_leave_the_system_prompt() -> None:
    wire = Wire()
    wire.call(START, assistant("a"), counts=usage(1000, 20), tools=[tool("a")])
    wire.call(START, assistant("a"), counts=usage(1100, 20), tools=[tool("a"), tool("b")])
    trace = wire.close()
    link = trace.shared_prefixes[1].prefix

    assert link is not None
    assert (link.of, link.least) == ("s0", 0)
    assert 0 < link.tokens < trace.shared_prefixes[0].tokens
    assert [call.prefix.of for call in trace.calls()] == ["s0", "s1"]


def test_a_prompt_without_anything_in_common_shares_nothing() -> None:
    wire = Wire()
    wire.call([user("a")], assistant("a"), counts=usage(10, 20))
    wire.call([user("b")], assistant("a"), counts=usage(11, 20))
    prefix = wire.calls()[1].prefix

    assert (prefix.of, prefix.tokens) == (None, 0)
    assert prefix.greatest == 11


def test_a_call_that_was_lost_is_estimated_and_can_be_named() -> None:
    wire = Wire()
    grown = wire.call(START, ASKING, counts=usage(1000, 20))
    wire.ask([*grown, result("1", "found " * 100)])
    wire.call([*grown, result("1", "found " * 100), user("again")], assistant("a"), counts=usage(1260, 5))
    lost, last = wire.calls()[1:]

    assert lost.finish_reason == "lost"
    assert lost.prompt_tokens_source == "estimate"
    assert 1120 < lost.prompt_tokens < 1280
    assert last.prefix.of == 1


def test_a_run_without_any_usage_is_estimated_throughout() -> None:
    wire = Wire()
    grown = wire.call(START, ASKING)
    wire.call([*grown, result("1", "found")], assistant("done"))
    trace = wire.close()

    assert trace.token_source == "estimate"
    assert [call.prefix.of for call in trace.calls()] == ["s0", 0]


@pytest.mark.parametrize("measured", [False, True])
def test_a_streamed_answer_grows_like_a_whole_one(measured: bool) -> None:
    wire = Wire()
    exchange = wire.ask(START, stream=True)
    exchange.response(200, at_s=wire.now_s, content_type="text/event-stream")
    piece = {"index": 0, "id": "1", "function": {"name": "read", "arguments": "{}"}}
    events = (delta({"content": "I "}), delta({"content": "look."}), delta({"tool_calls": [piece]}))
    exchange.chunk(sse(*events, {"choices": [], "usage": usage(1000, 20)}, "[DONE]"), at_s=wire.now_s)
    exchange.end(at_s=wire.now_s)
    then = wire.ask([*START, ASKING, result("1", "found")])
    wire.answer(then, assistant("done"), counts=usage(1060, 5))
    if measured:
        exchange.measured(range(1000))
        then.measured(range(1060))

    assert summary(wire.calls()[1].prefix) == (0, 1020, "text")


def test_measured_prompts_say_exactly_where_they_part() -> None:
    wire = Wire()
    grown = wire.call(START, ASKING, counts=usage(1000, 20))
    for number, ids in enumerate([[*range(1000), 5, 6, *range(2000, 2058)], [*range(1000), 5, 7, *range(3000, 3058)]]):
        exchange = wire.ask([*grown, result("1", str(number))])
        wire.answer(exchange, assistant("a"), counts=usage(1060, 5))
        exchange.measured(ids)
    calls = wire.calls()

    assert calls[2].prefix == Prefix(0, 1001, "ids", low=976, high=calls[2].prefix.high)


def test_a_repeated_prompt_is_exact_although_it_is_no_longer_than_the_stream_before_it() -> None:
    wire = Wire()
    grown = [*wire.call(START, ASKING, counts=usage(1000, 20)), result("1", "")]
    for _ in range(2):
        wire.call(grown, assistant("a"), counts=usage(1020, 5))
    calls = wire.calls()

    assert calls[1].prefix.tokens < 1020
    assert calls[2].prefix == Prefix(1, 1020, "usage")


def test_an_edited_answer_behind_hidden_thinking_shares_the_previous_prompt() -> None:
    wire = Wire()
    answer = "A long answer of many words. " * 60
    wire.call(START, assistant(answer), counts=usage(1000, 900, reasoning=400))
    wire.call([*START, assistant(answer[:1000] + "CHANGED"), user("and?")], assistant("b"), counts=usage(1300, 20))

    assert summary(wire.calls()[1].prefix)[:2] == (0, 1000)


def measured(wire: Wire, messages: list[dict[str, Any]], answer: str, ids: list[int], output: int = 5) -> list[Any]:
    """Make a call whose prompt has these ids, and return the messages with its answer."""
    exchange = wire.ask(messages)
    wire.answer(exchange, assistant(answer), counts=usage(len(ids), output))
    exchange.measured(ids)
    return [*messages, assistant(answer)]


def test_growth_of_measured_prompts_needs_the_whole_prompt_before_it() -> None:
    wire = Wire()
    first = measured(wire, [user("a")], "yes", [*range(9), 50])
    measured(wire, [*first, user("b")], "x", [*range(9), 60, 61, 62])
    again = measured(wire, [user("a")], "no", [*range(9), 50])
    measured(wire, [*again, user("c")], "y", [*range(9), 60, *range(70, 90)])
    calls = wire.calls()

    assert calls[3].prefix == Prefix(1, 10, "ids")


def test_what_was_measured_is_believed_where_what_was_not_contradicts_it() -> None:
    wire = Wire()
    first = measured(wire, [user("a")], "yes", [*range(1000)])
    second = [*wire.call([*first, user("b")], assistant("x"), counts=usage(1040, 5)), user("c")]
    measured(wire, second, "y", [*range(10), *range(5000, 6080)])
    prefix = wire.calls()[2].prefix

    assert summary(prefix) == (0, 10, "ids")
    assert prefix.greatest > 1000


def test_a_measured_prompt_goes_on_behind_one_that_was_not_measured() -> None:
    wire = Wire()
    first = measured(wire, [user("a")], "yes", [*range(1000)])
    second = [*wire.call([*first, user("b")], assistant("x"), counts=usage(1040, 5)), user("c")]
    measured(wire, second, "y", [*range(1000), *range(5000, 5090)])

    assert summary(wire.calls()[2].prefix) == (1, 1045, "text")


def test_what_two_measured_prompts_share_of_an_uncertain_output_is_uncertain_for_the_output() -> None:
    wire = Wire()
    grown = wire.call([user("a")], assistant("yes " * 20), counts=usage(100, 30))
    measured(wire, [*grown, user("b")], "x", [*range(118), *range(500, 540)])
    measured(wire, [*grown[:1], assistant("yes " * 10), user("c")], "y", [*range(118), *range(600, 640)])
    prefix = wire.calls()[2].prefix

    assert summary(prefix) == (0, 118, "ids")
    assert prefix.least < 118 < prefix.greatest
