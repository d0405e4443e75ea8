from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from chat_wire import Wire, assistant, result, system, tool, tool_call, usage, user

from rotoscope.recorder import loose_tree
from rotoscope.traces import Prefix

START = [system("You are an agent. " * 20), user("Do it. " * 30)]
ASKING = assistant("I look.", calls=[tool_call("1")])


def prefixes(wire: Wire) -> list[Prefix]:
    return [call.prefix for call in wire.calls()]


def test_siblings_may_go_on_alike_a_little_further_each_of_them() -> None:
    wire = Wire()
    grown = wire.call(START, ASKING, counts=usage(1000, 20))
    for text in ("one", "two", "three"):
        wire.call([*grown, result("1", f"The file {text}")], assistant(text), counts=usage(1060, 5))
    _, *siblings = prefixes(wire)[1:]

    for sibling in siblings:
        assert sibling.tokens == 1021
        assert sibling.greatest > 1021 + len("The file ")


def test_a_template_that_ignores_tools_may_render_two_prompts_alike() -> None:
    wire = Wire()
    wire.call(START, assistant("a"), counts=usage(1000, 20))
    wire.call(START, assistant("a"), counts=usage(1000, 20), tools=[tool("a")])
    trace = wire.close()
    link = trace.shared_prefixes[1].prefix

    assert [call.prefix.greatest for call in trace.calls()] == [1000, 1000]
    assert link is not None
    assert link.greatest >= 1000


def test_a_prompt_alone_may_begin_like_a_shared_prefix() -> None:
    wire = Wire()
    wire.call([user("You are an agent.")], assistant("a"), counts=usage(20, 20))
    wire.call(START, assistant("a"), counts=usage(1000, 20))
    alone, _ = prefixes(wire)

    assert alone == Prefix(None, 0, "text", high=20)


def test_a_first_prompt_that_nothing_is_like_is_not_in_doubt() -> None:
    wire = Wire()
    wire.call([user("a")], assistant("a"), counts=usage(20, 20))

    assert prefixes(wire) == [Prefix(None, 0, "text")]


def test_measured_prompts_are_not_in_doubt() -> None:
    wire = Wire()
    for number in range(3):
        exchange = wire.ask([user(f"text {number}")])
        wire.answer(exchange, assistant("a"), counts=usage(20, 20))
        exchange.measured([1, 2, *range(number * 100 + 10, number * 100 + 28)])

    assert prefixes(wire) == [Prefix(None, 0, "ids"), Prefix(0, 2, "ids"), Prefix(0, 2, "ids")]


def test_a_measured_prompt_may_be_more_like_one_that_was_not() -> None:
    wire = Wire()
    for number, text in enumerate(("first", "same text", "same text ")):
        exchange = wire.ask([user(text)])
        wire.answer(exchange, assistant("a"), counts=usage(20, 20))
        if number != 1:
            exchange.measured([1, *range(number * 100 + 10, number * 100 + 29)])

    assert prefixes(wire)[2].greatest == 20


def test_more_branches_than_are_compared_leave_everything_possible() -> None:
    wire = Wire()
    for number in range(loose_tree.MOST_COMPARED + 2):
        wire.call([user(f"text {number}")], assistant("a"), counts=usage(5000, 20))
    found = prefixes(wire)

    assert found[1].greatest < 1200
    assert found[-1].greatest == 5000


@pytest.mark.parametrize("others", [3, loose_tree.MOST_COMPARED + 1])
def test_more_system_messages_than_are_compared_leave_everything_possible(others: int) -> None:
    def prompt(*systems: str) -> list[dict[str, Any]]:
        return [*map(system, systems), user("a"), assistant("b"), user("w" * 8000)]

    wire = Wire()
    for number in range(others):
        wire.call(prompt("You are an agent.", f"{number}"), assistant("a"), counts=usage(5000, 20))
    wire.call(prompt("Another."), assistant("a"), counts=usage(5000, 20))

    assert (prefixes(wire)[-1].greatest == 5000) == (others > loose_tree.MOST_COMPARED)


def test_a_template_that_moves_system_messages_may_render_alike_what_stands_before_them() -> None:
    def prompt(first: str, last: str) -> list[dict[str, Any]]:
        return [system(first), user("u" * 3000), assistant("b"), user(last)]

    wire = Wire()
    wire.call(prompt("One.", "x"), assistant("a"), counts=usage(4000, 20))
    wire.call(prompt("Other.", "y"), assistant("a"), counts=usage(4001, 20))

    assert [prefix.greatest >= 3000 for prefix in prefixes(wire)] == [True, True]


def test_pairs_of_siblings_are_within_the_least_bound_on_the_way() -> None:
    wire = Wire()
    grown = wire.call(START, ASKING, counts=usage(1000, 20))
    texts = ["x" * 100 + "a", "x" * 100 + "b", "y", "x" * 50]
    for text in texts:
        wire.call([*grown, result("1", text)], assistant(text), counts=usage(1300, 5))
    siblings = prefixes(wire)[1:]

    for (a, one), (b, other) in combinations(list(zip(siblings, texts, strict=True))[1:], 2):
        alike = next((i for i, (x, y) in enumerate(zip(one, other, strict=False)) if x != y), min(len(one), len(other)))
        assert min(a.greatest, b.greatest) >= 1021 + alike
