from __future__ import annotations

from typing import Any

import pytest
from event_loops import in_event_loop
from simulated import simulated

from rotoscope.replayer.simulator.model import Answer, ModelRequest, ToolCall

PATH = "/v1/messages"
USER = {"role": "user", "content": "Hi"}
FULL = Answer(
    text="I look.", reasoning="Where is it?", tool_calls=(ToolCall("ls", '{"path":"."}'), ToolCall("cat", ""))
)
SAMPLE = {"messages": [USER], "max_tokens": 5, "ignore_eos": True}
ROOM = {"messages": [USER], "max_tokens": 1000}


@in_event_loop
async def test_a_whole_message_has_a_block_for_each_thing_that_is_said() -> None:
    async with simulated(FULL) as client:
        message = await client.ask(PATH, ROOM)

    assert (message["type"], message["role"], message["stop_reason"]) == ("message", "assistant", "tool_use")
    thinking, text, *calls = message["content"]
    assert thinking["thinking"] == "Where is it?"
    assert text == {"type": "text", "text": "I look."}
    assert [(call["name"], call["input"]) for call in calls] == [("ls", {"path": "."}), ("cat", {})]


@in_event_loop
async def test_a_streamed_message_is_the_whole_one_in_pieces() -> None:
    async with simulated(FULL) as client:
        whole = await client.ask(PATH, ROOM)
        events = await client.named_events(PATH, ROOM)

    assert [event["type"] for event in (events[0], *events[-2:])] == ["message_start", "message_delta", "message_stop"]
    assert events[-2]["delta"]["stop_reason"] == "tool_use"
    assert events[-2]["usage"] == {"output_tokens": whole["usage"]["output_tokens"]}
    starts = [event["index"] for event in events if event["type"] == "content_block_start"]
    stops = [event["index"] for event in events if event["type"] == "content_block_stop"]
    assert starts == stops == [0, 1, 2, 3]
    assert deltas(events, "text_delta", "text") == "I look."
    assert deltas(events, "thinking_delta", "thinking") == "Where is it?"
    assert deltas(events, "input_json_delta", "partial_json") == '{"path":"."}'


def deltas(events: list[dict[str, Any]], kind: str, key: str) -> str:
    found = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    return "".join(delta[key] for delta in found if delta["type"] == kind)


@in_event_loop
async def test_the_prompt_is_counted_in_parts_when_the_message_starts() -> None:
    async with simulated(profile="token") as client:
        first = (await client.ask(PATH, SAMPLE))["usage"]
        start, *_ = await client.named_events(PATH, SAMPLE)

    assert (first["cache_read_input_tokens"], first["output_tokens"]) == (0, 5)
    usage = start["message"]["usage"]
    assert (usage["input_tokens"], usage["cache_read_input_tokens"]) == (1, first["input_tokens"] - 1)


@in_event_loop
async def test_an_answer_that_is_cut_says_so() -> None:
    async with simulated() as client:
        assert (await client.ask(PATH, SAMPLE))["stop_reason"] == "max_tokens"
        assert (await client.named_events(PATH, SAMPLE))[-2]["delta"]["stop_reason"] == "max_tokens"


@in_event_loop
async def test_the_same_conversation_is_the_same_prompt_as_in_a_chat() -> None:
    seen: list[ModelRequest] = []

    def say(request: ModelRequest) -> Answer:
        seen.append(request)
        return Answer(text="Done.")

    blocks = [
        {"type": "thinking", "thinking": "dropped"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "."}},
    ]
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a.py"}]}
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path":"."}'}}
    messages = [
        {"role": "system", "content": "Be brief."},
        USER,
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
        {"role": "user", "content": "And?"},
    ]
    async with simulated(say) as client:
        history = [USER, {"role": "assistant", "content": blocks}]
        last = {"role": "user", "content": [result, {"type": "text", "text": "And?"}]}
        tools = [{"name": "ls", "input_schema": {"type": "object"}}]
        body = {"system": [{"type": "text", "text": "Be brief."}], "messages": [*history, last], "tools": tools}
        await client.ask(PATH, body | {"max_tokens": 5})
        chat_tools = [{"type": "function", "function": {"name": "ls", "parameters": {"type": "object"}}}]
        await client.ask("/v1/chat/completions", {"messages": messages, "tools": chat_tools, "max_tokens": 5})

    assert seen[0].messages == seen[1].messages
    assert seen[0].prompt_ids.tolist() == seen[1].prompt_ids.tolist()


@in_event_loop
async def test_a_stop_sequence_ends_the_answer() -> None:
    async with simulated(Answer(text="one two three")) as client:
        message = await client.ask(PATH, ROOM | {"stop_sequences": [" two"]})

    assert message["content"] == [{"type": "text", "text": "one"}]
    assert message["stop_reason"] == "end_turn"


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"messages": [USER]}, 400, "invalid_request_error"),
        ({"messages": [], "max_tokens": 5}, 400, "invalid_request_error"),
        ({"messages": [{"role": "tool", "content": "x"}], "max_tokens": 5}, 400, "invalid_request_error"),
        ({"messages": [USER], "max_tokens": 5, "model": "gpt"}, 404, "not_found_error"),
    ],
)
@in_event_loop
async def test_what_cannot_be_answered_is_refused_in_anthropics_form(body: Any, status: int, kind: str) -> None:
    async with simulated() as client:
        answer = await client.ask(PATH, body, status=status)

    assert answer["type"] == "error"
    assert answer["error"]["type"] == kind
    assert answer["error"]["message"]
