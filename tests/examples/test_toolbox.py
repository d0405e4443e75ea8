import asyncio
from typing import Annotated

import pytest

from examples.chat import ToolCall
from examples.toolbox import Toolbox


def look(place: Annotated[str, "Where."], times: Annotated[int, "How often."] = 1) -> str:
    """Look."""
    if place == "nowhere":
        raise ValueError("there is no such place")
    return place * times


async def ask_all(people: Annotated[list[str], "Whom."]) -> str:
    """Ask."""
    await asyncio.sleep(0)
    return " and ".join(people)


def called(name: str, arguments: str) -> str:
    message = asyncio.run(Toolbox(look, ask_all).call(ToolCall("c1", name, arguments)))
    assert message["role"] == "tool"
    assert message["tool_call_id"] == "c1"
    return str(message["content"])


def test_a_tool_gets_what_the_model_gave() -> None:
    assert called("look", '{"place": "here", "times": 2}') == "herehere"


def test_a_tool_may_take_its_time() -> None:
    assert called("ask_all", '{"people": ["anna", "ben"]}') == "anna and ben"


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("fly", "{}", "error: there is no tool 'fly', only look, ask_all"),
        ("look", '{"place": "nowhere"}', "error: there is no such place"),
        ("look", '{"place": 7}', "error: place: "),
        ("look", '{"place": "here", "times": "2"}', "error: times: "),
        ("look", "{}", "error: place: "),
        ("look", "", "error: place: "),
        ("look", '{"place": "here", "colour": "red"}', "error: colour: "),
        ("look", '["here"]', "error: "),
        ("look", '{"place": "he', "error: "),
        ("ask_all", '{"people": "anna"}', "error: people: "),
    ],
)
def test_what_a_model_gets_wrong_is_told_to_it(name: str, arguments: str, told: str) -> None:
    assert called(name, arguments).startswith(told)
    assert "\n" not in called(name, arguments)
