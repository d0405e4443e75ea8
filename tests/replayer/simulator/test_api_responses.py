from __future__ import annotations

from typing import Any

import pytest
from event_loops import in_event_loop
from simulated import openai_client, simulated

from rotoscope.replayer.simulator.model import Answer, ModelRequest, ToolCall
from rotoscope.replayer.simulator.tokenizer import encode

PATH = "/v1/responses"
FULL = Answer(
    text="I look.", reasoning="Where is it?", tool_calls=(ToolCall("ls", '{"path": "."}'), ToolCall("cat", ""))
)
SAMPLE = {"input": "Hi", "max_output_tokens": 5, "ignore_eos": True}


@in_event_loop
async def test_a_whole_response_has_an_item_for_each_thing_that_is_said() -> None:
    async with simulated(FULL) as client:
        response = await client.ask(PATH, {"input": "Hi"})

    assert (response["object"], response["status"], response["incomplete_details"]) == ("response", "completed", None)
    reasoning, message, *calls = response["output"]
    assert reasoning["content"] == [{"type": "reasoning_text", "text": "Where is it?"}]
    assert message["content"] == [{"type": "output_text", "text": "I look.", "annotations": []}]
    assert [(call["name"], call["arguments"]) for call in calls] == [("ls", '{"path": "."}'), ("cat", "")]
    assert len({call["call_id"] for call in calls}) == 2
    details = response["usage"]["output_tokens_details"]
    assert details == {"reasoning_tokens": len(encode("Where is it?")) + 2}


@in_event_loop
async def test_a_streamed_response_is_the_whole_one_in_pieces() -> None:
    async with simulated(FULL) as client:
        whole = await client.ask(PATH, {"input": "Hi"})
        events = await client.named_events(PATH, {"input": "Hi"})

    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1]["type"] == "response.completed"
    assert strip_ids(events[-1]["response"]["output"]) == strip_ids(whole["output"])
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"]
    assert deltas(events, "output_text") == "I look."
    assert deltas(events, "reasoning_text") == "Where is it?"
    assert deltas(events, "function_call_arguments") == '{"path": "."}'


def strip_ids(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in item.items() if key not in ("id", "call_id")} for item in items]


def deltas(events: list[dict[str, Any]], kind: str) -> str:
    return "".join(event["delta"] for event in events if event["type"] == f"response.{kind}.delta")


@in_event_loop
async def test_an_answer_that_is_cut_is_incomplete() -> None:
    async with simulated() as client:
        response = await client.ask(PATH, SAMPLE)
        *_, last = await client.named_events(PATH, SAMPLE)

    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert last["type"] == "response.incomplete"
    assert last["response"]["usage"]["output_tokens"] == response["usage"]["output_tokens"] == 5


@in_event_loop
async def test_a_repeated_prompt_is_cached_but_for_its_last_token() -> None:
    async with simulated(profile="token") as client:
        first = (await client.ask(PATH, SAMPLE))["usage"]
        second = (await client.ask(PATH, SAMPLE))["usage"]

    assert first["input_tokens_details"] == {"cached_tokens": 0}
    assert second["input_tokens_details"] == {"cached_tokens": second["input_tokens"] - 1}
    assert second["total_tokens"] == second["input_tokens"] + 5


@in_event_loop
async def test_the_same_conversation_is_the_same_prompt_as_in_a_chat() -> None:
    seen: list[ModelRequest] = []

    def say(request: ModelRequest) -> Answer:
        seen.append(request)
        return Answer(text="Done.")

    call = {"name": "ls", "arguments": '{"path": "."}'}
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Where?"}]},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Where is it?"}]},
        {"type": "message", "role": "assistant", "content": "I look."},
        {"type": "function_call", "call_id": "c1", **call},
        {"type": "function_call", "call_id": "c2", **call},
        {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
    ]
    calls = [{"id": number, "type": "function", "function": call} for number in ("c1", "c2")]
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "I look.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
    ]
    async with simulated(say) as client:
        await client.ask(
            PATH, {"input": items, "instructions": "Be brief.", "tools": [{"type": "function", "name": "ls"}]}
        )
        tools = [{"type": "function", "function": {"name": "ls"}}]
        await client.ask("/v1/chat/completions", {"messages": messages, "tools": tools})

    assert seen[0].messages == seen[1].messages
    assert seen[0].prompt_ids.tolist() == seen[1].prompt_ids.tolist()


@in_event_loop
async def test_the_openai_client_reads_it() -> None:
    async with simulated(Answer(text="Hi you.")) as client, openai_client(client) as real:
        whole = await real.responses.create(model="rotoscope-simulator", input="Hi", store=False)
        stream = await real.responses.create(model="rotoscope-simulator", input="Hi", store=False, stream=True)
        events = [event async for event in stream]

    assert whole.output_text == "Hi you."
    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text == "Hi you."


@pytest.mark.parametrize(
    "body",
    [
        {"input": []},
        {"input": "Hi", "max_output_tokens": 0},
        {"input": "Hi", "previous_response_id": "resp_1"},
        {"input": [{"type": "image"}]},
    ],
)
@in_event_loop
async def test_what_cannot_be_answered_is_refused(body: dict[str, Any]) -> None:
    async with simulated() as client:
        error = (await client.ask(PATH, body, status=400))["error"]

    assert error["type"] == "invalid_request_error"
