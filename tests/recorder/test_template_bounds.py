from __future__ import annotations

from pathlib import Path
from typing import Any

from chat_wire import Wire, assistant, result, system, tool, tool_call, usage, user

from rotoscope.recorder.calls import SeenCall, gather
from rotoscope.recorder.canonical import message_part
from rotoscope.recorder.template_bounds import (
    ANSWER_START_TOKENS,
    PART_TOKENS,
    PREAMBLE_TOKENS,
    Bounds,
)

Prompt = tuple[list[dict[str, Any]], int | None]
READ = tool_call("1", "read")


def bounds_of(*prompts: Prompt, answer: dict[str, Any] | None = None, **fields: Any) -> tuple[Bounds, list[SeenCall]]:
    """Record prompts of some length in tokens and return their bounds."""
    wire = Wire()
    for messages, tokens in prompts:
        wire.call(messages, answer or assistant("yes"), counts=usage(tokens, 5) if tokens else None, **fields)
    run = gather(wire.written().records)
    return Bounds(run.tree, run.calls), list(run.calls)


def least(*prompts: Prompt, **fields: Any) -> int:
    """Return what the first and the last of some prompts share at least."""
    bounds, calls = bounds_of(*prompts, **fields)
    return bounds.least(calls[-1], calls[0])


def most(*prompts: Prompt, **fields: Any) -> int:
    bounds, calls = bounds_of(*prompts, **fields)
    return bounds.most(calls[-1], calls[0])


def test_a_growing_prompt_shares_the_whole_prompt_before_it_but_for_what_begins_the_answer() -> None:
    start = [system("s"), user("a")]

    then = [*start, assistant("yes", calls=[READ]), result("1", "b")]

    assert least((start, 1000), (then, 1030)) == 1000 - ANSWER_START_TOKENS


def test_a_growing_prompt_shares_the_whole_stream_at_most() -> None:
    start = [system("s"), user("a")]

    assert most((start, 1000), ([*start, assistant("yes"), user("b")], 1400)) == 1005


def test_another_message_of_the_user_makes_what_is_behind_the_last_one_uncertain() -> None:
    start = [user("a"), assistant("b"), user("c")]
    then = [*start, assistant("yes"), user("d")]

    assert least((start, 1000), (then, 1030)) == 1000 - ANSWER_START_TOKENS
    assert least(([system("s"), *start], 1000), ([system("s"), *then], 1030)) == 0


def test_what_could_be_moved_to_the_last_message_of_the_user_is_not_certain_before_it() -> None:
    start = [system("s"), user("a"), assistant("b"), user("c" * 5000)]
    then = [*start, assistant("yes"), user("d")]

    shared = least((start, 9000), (then, 9030))
    assert 9000 - 5000 - PREAMBLE_TOKENS - 300 < shared < 9000 - 5000 - PREAMBLE_TOKENS


def test_two_last_messages_of_the_user_behind_one_system_message_share_it_for_certain() -> None:
    shared = least(([system("s"), user("a")], 1000), ([system("s"), user("b")], 1001))

    assert shared > 1001 - ANSWER_START_TOKENS - PART_TOKENS - 50


def test_other_tools_leave_nothing_certain() -> None:
    bounds, calls = bounds_of(([system("s"), user("a")], 1000))
    other, more = bounds_of(([system("s"), user("a")], 1000), tools=[tool("x")])
    wire = Wire()
    wire.call([system("s"), user("a")], assistant("b"), counts=usage(1000, 5))
    wire.call([system("s"), user("a")], assistant("b"), counts=usage(1050, 5), tools=[tool("x")])
    run = gather(wire.written().records)

    assert Bounds(run.tree, run.calls).least(run.calls[1], run.calls[0]) == 0
    assert Bounds(run.tree, run.calls).most(run.calls[1], run.calls[0]) == 1005
    assert bounds.least(calls[0], calls[0]) == other.least(more[0], more[0]) == 1000


def test_a_repeated_prompt_is_the_same_prompt_unless_it_was_counted_otherwise() -> None:
    start = [user("a")]

    assert least((start, 1000), (start, 1000)) == 1000
    assert least((start, 1000), (start, 1010)) == 0
    assert least((start, 1000), (start, None)) == 1000 - ANSWER_START_TOKENS


def test_thinking_that_was_sent_back_may_be_dropped_once_the_user_goes_on() -> None:
    start = [user("a"), assistant("b", calls=[READ], thinking="hm " * 90), result("1", "c")]
    loop = [*start, assistant("yes", calls=[READ]), result("1", "d")]
    chat = [*start, assistant("yes"), user("d")]

    assert least((start, 1000), (loop, 1030)) == 1000 - ANSWER_START_TOKENS
    assert least((start, 1000), (chat, 1030)) == 0


def test_a_prompt_without_thinking_says_nothing_of_how_long_it_is_with_it() -> None:
    start = [user("a"), assistant("b", calls=[READ], thinking="hm " * 400), result("1", "c")]
    chat = [*start, assistant("d"), user("e")]
    loop = [*start, assistant("yes", calls=[READ]), result("2", "f")]
    bounds, (first, _, third) = bounds_of((start, 1200), (chat, 90), (loop, 1230))

    assert bounds.most(third, first) == 1205


def test_messages_that_part_share_no_more_than_their_sizes() -> None:
    start = [user("a")]
    one, other = [*start, assistant("b"), user("c" * 40)], [*start, assistant("b"), user("d" * 4000)]

    bounds, calls = bounds_of((start, 500), (one, 560), (other, 2000))

    assert bounds.most(calls[2], calls[0]) == 505
    assert 505 <= bounds.most(calls[2], calls[1]) <= 565


def test_long_messages_that_part_early_share_little() -> None:
    def prompt(text: str) -> list[dict[str, Any]]:
        return [user("a"), assistant("b"), user(text)]

    start = [user("a"), assistant("b")]
    bounds, calls = bounds_of(
        (start, 500), (prompt("same " * 10 + "x" * 9000), 3000), (prompt("same " * 10 + "y" * 9000), 3000)
    )

    assert bounds.most(calls[2], calls[1]) < 500 + 50 + 128 + 200


def test_tool_calls_may_be_laid_out_anew_so_that_their_beginnings_say_nothing() -> None:
    def prompt(arguments: str) -> list[dict[str, Any]]:
        return [user("a"), assistant(calls=[tool_call("1", "read", arguments)]), result("1", "b")]

    one, other = '{"x":"' + "x" * 300 + '","a":1}', '{"b":1,"x":"' + "x" * 300 + '"}'
    bounds, calls = bounds_of(([user("a")], 100), (prompt(one), 900), (prompt(other), 900))

    assert bounds.most(calls[2], calls[1]) > 300


def test_spaces_ids_and_roles_may_be_ignored_by_a_template() -> None:
    one = [user("a"), assistant(calls=[tool_call("1")]), result("1", "b  c"), user("d")]
    other = [user("a "), assistant(calls=[tool_call("2")]), user("b c"), user("e")]

    assert most((one, 900), (other, 900)) >= 4 * PART_TOKENS


def test_one_message_of_the_user_behind_two_system_messages_is_no_common_beginning() -> None:
    task = user("t" * 3000)

    assert most(([system("Give it a title."), task], 4000), ([system("Do it well."), task], 4000)) < 1500
    assert most(([system("Do it well."), task], 4000), ([system("Do it  well."), task], 4000)) > 3000


def test_an_answer_without_its_thinking_shares_only_how_both_begin() -> None:
    start = [user("a")]
    answer = assistant("yes " * 100, thinking="hm " * 500)
    then = [*start, assistant("yes " * 100), user("b")]
    bounds, calls = bounds_of((start, 1000), answer=answer)
    wire = Wire()
    wire.call(start, answer, counts=usage(1000, 600))
    wire.call(then, assistant("b"), counts=usage(1200, 5))
    run = gather(wire.written().records)

    shared = Bounds(run.tree, run.calls).most(run.calls[1], run.calls[0])
    assert 1000 <= shared < 1000 + ANSWER_START_TOKENS + PART_TOKENS + 100
    assert bounds.least(calls[0], calls[0]) == 1000


def test_bounds_that_contradict_what_was_counted_are_given_up() -> None:
    start = [user("a")]

    assert least((start, 100), ([*start, assistant("yes"), user("b")], 9000)) == 0


def test_the_page_that_explains_the_bounds_has_their_constants() -> None:
    page = (Path(__file__).parents[2] / "docs" / "prefixes.md").read_text()

    assert f"at most {PART_TOKENS} tokens around each and {ANSWER_START_TOKENS} before an answer" in page
    assert f"at most {PREAMBLE_TOKENS:,} once at its start" in page
    assert f"leaves `low` {ANSWER_START_TOKENS} tokens below the previous prompt" in page


def test_a_part_may_have_what_a_template_adds_beside_its_text() -> None:
    bounds, (call,) = bounds_of(([user("a")], 900))

    assert bounds.most_tokens(call.head) == message_part(user("a")).most_tokens + PART_TOKENS


def test_the_end_of_the_leading_messages_is_bounded() -> None:
    bounds, (call,) = bounds_of(([system("s" * 2000), user("a")], 900))
    low, high = bounds.of_leading(call)

    assert 900 - ANSWER_START_TOKENS - PART_TOKENS - 50 < low < high == 900
