from __future__ import annotations

from typing import Any

import pytest
from chat_wire import Message, Wire, assistant, result, system, tool, tool_call, user

from rotoscope.recorder import Exchange

START = [system("You are an agent."), user("a")]
TITLE = [system("Make a title."), user("a")]
TOOLS = [tool(f"read{x}") for x in range(9)]
ASKING = assistant(calls=[tool_call("1")])


def asides(wire: Wire) -> list[int]:
    return [call.call for call in wire.calls() if call.aux]


def beside_an_agent(messages: list[Message], *, start: float = 0.5, end: float = 1.5, **fields: Any) -> Wire:
    """Record an agent with one tool, which runs from 2 to 5, and a call of its own."""
    wire = Wire()
    moments = [(0.0, "ask"), (2.0, "answered"), (5.0, "again"), (6.0, "done"), (start, "aside"), (end, "titled")]
    open_calls: dict[str, Exchange] = {}
    for at, what in sorted(moments):
        match what:
            case "ask":
                open_calls[what] = wire.ask(START, at=at, tools=TOOLS)
            case "answered":
                wire.answer(open_calls["ask"], ASKING, at=at)
            case "again":
                open_calls[what] = wire.ask([*START, ASKING, result("1", "x")], at=at, tools=TOOLS)
            case "done":
                wire.answer(open_calls["again"], assistant("b"), at=at)
            case "aside":
                open_calls[what] = wire.ask(messages, at=at, **fields)
            case "titled":
                wire.answer(open_calls["aside"], assistant("A title"), at=at)
    return wire


def test_a_title_beside_the_agent_is_a_side_call() -> None:
    assert asides(beside_an_agent(TITLE)) == [1]


def test_so_is_one_with_the_schema_of_its_answer() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "title"}}

    assert asides(beside_an_agent(TITLE, response_format=schema)) == [1]


def test_so_is_one_with_another_model() -> None:
    assert asides(beside_an_agent([START[0], user("title?")], model="small")) == [1]


@pytest.mark.parametrize(
    ("messages", "fields"),
    [
        (TITLE, {"start": 2.5, "end": 4.0}),
        (TITLE, {"start": 7.0, "end": 8.0}),
        (TITLE, {"tools": TOOLS}),
        ([START[0], user("title?")], {}),
        ([TITLE[0], *[user(f"{x}") for x in range(3)]], {}),
        (TITLE, {"n": 2}),
    ],
    ids=["inside a gap", "behind the agent", "with tools", "same instructions", "long", "choices"],
)
def test_what_may_be_part_of_the_work_is_none(messages: list[Message], fields: dict[str, Any]) -> None:
    assert asides(beside_an_agent(messages, **fields)) == []


def test_what_is_gone_on_from_is_none() -> None:
    wire = beside_an_agent(TITLE)
    wire.call([*TITLE, assistant("A title"), user("shorter")], assistant("T"), start=7, end=8)

    assert asides(wire) == []


def test_without_an_agent_there_are_no_side_calls() -> None:
    wire = Wire()
    slow = wire.ask(START, at=0)
    wire.call(TITLE, assistant("A title"), start=0.5, end=1)
    wire.answer(slow, assistant("b"), at=2)

    assert asides(wire) == []


@pytest.mark.parametrize(("session", "found"), [({}, []), ({"prompt_cache_key": "k"}, [0])])
def test_whom_the_client_names_is_an_agent_by_its_tools_alone(session: dict[str, Any], found: list[int]) -> None:
    wire = Wire()
    wire.call(TITLE, assistant("A title"), start=0, end=1, **session)
    wire.call(START, assistant("b"), start=2, end=3, tools=TOOLS, **session)

    assert asides(wire) == found


CHECK = user("Are you done?")
VERDICT = assistant("The user's turn it is, without doubt.")


def checked(check: list[Message], *, twice: bool = True, goes_on: bool = True, **fields: Any) -> Wire:
    """Record an agent whose answers are looked at by calls with other instructions."""
    wire, messages = Wire(), START
    for at in range(2 if twice else 1):
        asked = wire.call(messages, ASKING, start=10 * at, end=10 * at + 1, tools=TOOLS)
        answer = assistant(f"The answer {at}, which is of some length.")
        messages = wire.call([*asked, result("1", "x")], answer, start=10 * at + 2, end=10 * at + 3, tools=TOOLS)
        wire.call([*check, *messages[1:], CHECK], VERDICT, start=10 * at + 4, end=10 * at + 5, **fields)
        messages = [*messages, user(f"and {at}?")]
    if goes_on:
        wire.call(messages, assistant("The last answer of all."), start=30, end=31, tools=TOOLS)
    return wire


@pytest.mark.parametrize("fields", [{}, {"model": "small"}, {"tools": TOOLS[:1]}], ids=["bare", "small", "schema"])
def test_a_look_at_the_work_without_instructions_is_a_side_call(fields: dict[str, Any]) -> None:
    wire = checked([], goes_on=False, **fields)
    calls = wire.calls()

    assert [call.call for call in calls if call.aux] == [2, 5]
    assert {call.conversation_id for call in calls if not call.aux} == {0}
    assert [call.link for call in calls if call.aux] == [None, None]


def test_a_look_with_instructions_is_one_where_the_agent_went_on_without_it() -> None:
    assert asides(checked([system("You look at agents.")])) == [2, 5]


def test_so_is_each_that_follows() -> None:
    assert asides(checked([system("You look at agents.")], goes_on=False)) == [2, 5]


def test_the_last_answer_may_be_given_by_another_one() -> None:
    assert asides(checked([system("You write.")], twice=False, goes_on=False)) == []


def test_a_look_with_the_same_instructions_is_none() -> None:
    assert asides(checked([START[0]])) == []


def test_a_look_that_uses_tools_is_none() -> None:
    assert asides(checked([], tools=TOOLS)) == []


def test_what_may_be_a_summary_is_none() -> None:
    wire = Wire()
    asked = wire.call(START, ASKING, start=0, end=1, tools=TOOLS)
    told = wire.call([*asked, result("1", "x")], assistant("The answer, which is long."), start=2, end=3, tools=TOOLS)
    wire.call([system("Sum up."), *told[1:], user("Sum up.")], VERDICT, start=4, end=5)
    wire.call([START[0], told[-1], user("Go on.")], assistant("Well."), start=6, end=7, tools=TOOLS)

    assert asides(wire) == []


def test_a_look_between_two_calls_of_the_agent_that_holds_less_is_one() -> None:
    wire = Wire()
    asked = wire.call(START, assistant("I look.", calls=[tool_call("1")]), start=0, end=1, tools=TOOLS)
    told = [*asked, result("1", "x")]
    more = wire.call(told, assistant("Again.", calls=[tool_call("2")]), start=2, end=3, tools=TOOLS)
    wire.call([system("Is it a loop?"), *told[1:], CHECK], VERDICT, start=4, end=5)
    wire.call([*more, result("2", "y")], assistant("Well."), start=6, end=7, tools=TOOLS)

    assert asides(wire) == [2]
