from __future__ import annotations

from typing import Any

import orjson

from rotoscope.recorder.dialects.chat_form import chat_form
from rotoscope.traces.journal import DialectName

SCHEMA = {"type": "object"}
FUNCTION = {"type": "function", "function": {"name": "read", "description": "d", "parameters": SCHEMA}}


def form(dialect: DialectName, **body: Any) -> Any:
    return chat_form(dialect, orjson.dumps(body))


def test_a_chat_is_what_it_is_and_a_text_its_text() -> None:
    assert form("chat", messages=[1]) == {"messages": [1]}
    assert form("completions", prompt="once") == "once"
    assert form("completions", prompt=["a", "b"]) is None
    assert form("completions", prompt=[1, 2]) is None
    assert form("gemini", contents=[]) is None


def test_messages_come_to_one_system_message_tools_as_functions_and_results_as_messages_of_tools() -> None:
    body = form(
        "messages",
        model="m",
        system=[{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": {"type": "ephemeral"}}],
        tools=[{"name": "read", "description": "d", "input_schema": SCHEMA}],
        thinking={"type": "enabled", "budget_tokens": 1024},
        messages=[
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "read", "input": {"x": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "found"}]},
        ],
    )

    call = {"type": "function", "id": "t", "function": {"name": "read", "arguments": '{"x":1}'}}
    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "ab"},
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "t", "content": "found"},
        ],
        "tools": [FUNCTION],
    }


def test_responses_come_to_a_chat_unless_the_server_keeps_a_part_of_it() -> None:
    tool = {"type": "function", "name": "read", "description": "d", "parameters": SCHEMA}
    body = form("responses", model="m", instructions="a", input="go", tools=[tool])

    messages = [{"role": "system", "content": "a"}, {"role": "user", "content": "go"}]
    assert body == {"model": "m", "messages": messages, "tools": [FUNCTION]}
    assert form("responses", input="go", previous_response_id="r") is None
    assert form("responses", input="go", conversation="c") is None


def test_what_is_no_request_has_no_form() -> None:
    assert form("messages", messages=[]) is None
