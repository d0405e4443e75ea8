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
