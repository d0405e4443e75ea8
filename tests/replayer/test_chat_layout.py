from __future__ import annotations

from collections.abc import Sequence

import pytest

from rotoscope.replayer.chat_layout import lay_out
from rotoscope.replayer.chat_template import ChatTemplate, TemplateIds
from rotoscope.replayer.rendering import LaidOut
from rotoscope.testing import make_call, trace_of
from rotoscope.traces import Call, Prefix, SharedPrefix, SharedPrefixLink

TEMPLATE = ChatTemplate(head=5, turn=11, back=6, tail=11, common=11)
THINKS = ChatTemplate(head=5, turn=8, back=6, tail=11, common=8)
"""Prompts end with the beginning of a thought, turns do not."""
IDS = TemplateIds(TEMPLATE, 1000)
FIRST = make_call(0, isl=100, osl=20)


def laid_out(*calls: Call, template: ChatTemplate = TEMPLATE, shared_prefixes: Sequence[SharedPrefix] = ()) -> LaidOut:
    return lay_out(trace_of(*calls, shared_prefixes=shared_prefixes), template, TemplateIds(template, 1000))


def after(of: int | str, tokens: int, *, isl: int, call: int = 1, osl: int = 10) -> Call:
    return make_call(call, isl=isl, osl=osl, prefix=Prefix(of, tokens, "ids"))


def left_at(plan: LaidOut, call: int = 1) -> tuple[int | str | None, int]:
    prefix = next(c for c in plan.trace.calls() if c.call == call).prefix
    return prefix.of, prefix.tokens


def fixed(plan: LaidOut, call: int) -> list[tuple[int, list[int]]]:
    return sorted((at, ids.tolist()) for at, ids in plan.layout(call).fixed)


def test_a_first_prompt_is_a_message_of_the_user_in_the_template() -> None:
    plan = laid_out(FIRST)

    assert fixed(plan, 0) == [(0, IDS.head.tolist()), (89, IDS.tail.tolist())]
    assert (plan.layout(0).lead, plan.layout(0).tail) == (5, 11)


def test_a_prefix_that_ends_in_a_message_goes_on_in_it() -> None:
    plan = laid_out(FIRST, after(0, 60, isl=90))

    assert left_at(plan) == (0, 60)
    assert fixed(plan, 1) == [(79, IDS.tail.tolist())]
    assert plan.layout(1).lead == 0


def test_a_prefix_that_ends_in_an_answer_goes_on_with_the_user() -> None:
    plan = laid_out(FIRST, after(0, 115, isl=160))

    assert left_at(plan) == (0, 115)
    assert fixed(plan, 1) == [(115, IDS.back.tolist()), (149, IDS.tail.tolist())]
    assert plan.layout(1).lead == 6


def test_a_prefix_that_ends_where_an_answer_begins_has_an_answer_of_its_own() -> None:
    plan = laid_out(FIRST, after(0, 100, isl=160))

    assert left_at(plan) == (0, 100)
    assert fixed(plan, 1) == [(120, IDS.back.tolist()), (149, IDS.tail.tolist())]
    assert plan.layout(1).lead == 0


def test_a_repeated_prompt_has_nothing_of_its_own() -> None:
    plan = laid_out(FIRST, after(0, 100, isl=100))

    assert left_at(plan) == (0, 100)
    assert fixed(plan, 1) == []


@pytest.mark.parametrize("tokens", [90, 95, 99])
def test_a_prefix_that_ends_in_the_template_leaves_before_it(tokens: int) -> None:
    plan = laid_out(FIRST, after(0, tokens, isl=160))

    assert left_at(plan) == (0, 89)
    assert plan.lost_tokens == tokens - 89


@pytest.mark.parametrize(("own", "leaves_at"), [(18, 120), (17, 119), (5, 107), (1, 103)])
def test_a_prompt_leaves_an_answer_as_early_as_the_template_needs(own: int, leaves_at: int) -> None:
    plan = laid_out(FIRST, after(0, 120, isl=120 + own))

    assert left_at(plan) == (0, leaves_at)
    assert plan.lost_tokens == 120 - leaves_at


def test_a_prompt_without_room_for_an_answer_goes_on_with_what_the_user_says() -> None:
    plan = laid_out(FIRST, after(0, 100, isl=118))

    assert left_at(plan) == (0, 89)
    assert fixed(plan, 1) == [(107, IDS.tail.tolist())]


def test_a_part_of_a_prompt_ends_before_the_template() -> None:
    assert left_at(laid_out(FIRST, after(0, 60, isl=60))) == (0, 49)


def test_a_prompt_too_short_for_the_template_is_longer_than_recorded() -> None:
    plan = laid_out(make_call(0, isl=10))

    assert [call.prompt_tokens for call in plan.trace.calls()] == [17]
    assert plan.too_short == 1


def test_what_follows_a_prompt_that_became_longer_moves_with_it() -> None:
    plan = laid_out(make_call(0, isl=10, osl=20), after(0, 25, isl=80))

    assert left_at(plan) == (0, 32)
    assert [call.prompt_tokens for call in plan.trace.calls()] == [17, 80]


def test_all_prompts_have_the_beginning_of_the_template_in_common() -> None:
    plan = laid_out(FIRST, after(0, 4, isl=90))

    assert left_at(plan) == (None, 0)
    assert plan.lost_tokens == 0


def test_the_second_to_leave_an_answer_leaves_behind_the_template() -> None:
    plan = laid_out(FIRST, after(0, 115, isl=160), after(0, 115, isl=170, call=2))

    assert left_at(plan, 1) == (0, 115)
    assert left_at(plan, 2) == (1, 121)


def test_where_turns_are_not_what_prompts_end_with_answers_are_not_taken_up() -> None:
    plan = laid_out(FIRST, after(0, 115, isl=160), template=THINKS)

    assert left_at(plan) == (0, 97)
    assert plan.lost_tokens == 18


def test_shared_prefixes_are_the_beginning_of_the_first_message() -> None:
    shared = [SharedPrefix("s0", "system", 40), SharedPrefix("s1", "system", 60, SharedPrefixLink("s0", 40))]
    plan = laid_out(after("s1", 60, isl=90, call=0), after("s0", 20, isl=90), shared_prefixes=shared)

    assert plan.trace.shared_prefixes == tuple(shared)
    assert left_at(plan, 0) == ("s1", 60)
    assert left_at(plan, 1) == ("s0", 20)


def test_shared_prefixes_that_end_within_the_template_are_none() -> None:
    shared = [SharedPrefix("s0", "group", 5), SharedPrefix("s1", "system", 60, SharedPrefixLink("s0", 5))]
    plan = laid_out(after("s0", 5, isl=90, call=0), after("s1", 60, isl=90), shared_prefixes=shared)

    assert plan.trace.shared_prefixes == (SharedPrefix("s1", "group", 60),)
    assert left_at(plan, 0) == (None, 0)
    assert left_at(plan, 1) == ("s1", 60)


def test_parts_of_one_prompt_that_are_equally_long_are_the_same_prompt() -> None:
    plan = laid_out(FIRST, after(0, 60, isl=60), after(0, 60, isl=60, call=2))

    assert left_at(plan, 1) == (0, 49)
    assert left_at(plan, 2) == (1, 60)
    assert fixed(plan, 2) == []


def test_prompts_of_two_models_that_end_with_a_shared_prefix_are_not_the_same() -> None:
    whole = Prefix("s0", 60, "ids")
    calls = [make_call(number, isl=60, prefix=whole, domain=domain) for number, domain in enumerate((0, 1, 0))]
    plan = laid_out(*calls, shared_prefixes=[SharedPrefix("s0", "system", 60)])

    assert [left_at(plan, call) for call in range(3)] == [("s0", 49), ("s0", 49), (0, 60)]
