from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from event_loops import in_event_loop
from simulated import Client, openai_client, simulated

from rotoscope.replayer.simulator.model import Answer, ModelRequest, ToolCall
from rotoscope.replayer.simulator.server import running_simulator
from rotoscope.replayer.simulator.tokenizer import END, control_id, decode, encode

USER = {"role": "user", "content": "Hi"}
CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
FULL = Answer(
    text="I look.",
    reasoning="Where is it?",
    tool_calls=(ToolCall("ls", '{"path": "."}'), ToolCall("cat", "")),
)


@in_event_loop
async def test_token_ids_go_in_and_come_out() -> None:
    body = {"prompt": [300, 301, 302], "max_tokens": 5, "ignore_eos": True, "return_token_ids": True}
    async with simulated() as client:
        answer = await client.ask(TEXT, body)
        again = await client.ask(TEXT, body)

    (choice,) = answer["choices"]
    assert len(choice["token_ids"]) == 5
    assert choice["text"] == decode(choice["token_ids"])
    assert choice["finish_reason"] == "length"
    assert again["choices"] == answer["choices"]


@in_event_loop
async def test_ids_are_left_out_unless_asked_for() -> None:
    async with simulated() as client:
        answer = await client.ask(TEXT, {"prompt": [300, 301]})
        events = await client.stream(CHAT, {"messages": [USER], "max_tokens": 3})

    assert "token_ids" not in answer["choices"][0]
    assert all("token_ids" not in choice for event in events for choice in event["choices"])


@in_event_loop
async def test_several_prompts_and_outputs_are_choices_in_order() -> None:
    body = {"prompt": [[300, 301], [302]], "n": 2, "max_tokens": 4, "ignore_eos": True, "return_token_ids": True}
    async with simulated() as client:
        whole = await client.ask(TEXT, body)
        events = await client.stream(TEXT, body)

    assert [choice["index"] for choice in whole["choices"]] == [0, 1, 2, 3]
    assert len({tuple(choice["token_ids"]) for choice in whole["choices"]}) == 4
    assert whole["usage"]["prompt_tokens"] == 3
    assert whole["usage"]["completion_tokens"] == 16
    for choice in whole["choices"]:
        assert choice["token_ids"] == streamed_ids(events, choice["index"])


@in_event_loop
async def test_what_several_outputs_share_is_reported_once() -> None:
    body = {"prompt": [[300] * 40, [400] * 30], "n": 3, "max_tokens": 2}
    async with simulated(profile="token") as client:
        await client.ask(TEXT, body)
        usage = (await client.ask(TEXT, body))["usage"]

    assert usage["prompt_tokens"] == 70
    assert usage["prompt_tokens_details"]["cached_tokens"] == 68


def streamed_ids(events: list[dict[str, Any]], index: int = 0) -> list[int]:
    choices = [choice for event in events for choice in event["choices"] if choice["index"] == index]
    return [token for choice in choices for token in choice["token_ids"]]


@in_event_loop
async def test_a_streamed_text_is_the_whole_one_in_pieces() -> None:
    body = {
        "prompt": "Once upon",
        "max_tokens": 40,
        "return_token_ids": True,
        "stream_options": {"include_usage": True},
    }
    async with simulated(Answer(text="a time, 日本 was far.")) as client:
        whole = await client.ask(TEXT, body)
        *events, last = await client.stream(TEXT, body)

    (choice,) = whole["choices"]
    assert "".join(event["choices"][0]["text"] for event in events) == choice["text"]
    assert streamed_ids(events) == choice["token_ids"]
    assert [event["choices"][0]["finish_reason"] for event in events] == [None] * (len(events) - 1) + ["stop"]
    assert all(event["usage"] is None for event in events)
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"] == len(choice["token_ids"])
    assert len({event["id"] for event in [*events, last]}) == 1


@in_event_loop
async def test_a_whole_chat_answer_has_reasoning_text_and_tool_calls() -> None:
    async with simulated(FULL) as client:
        answer = await client.ask(CHAT, {"messages": [USER], "return_token_ids": True})

    (choice,) = answer["choices"]
    message = choice["message"]
    assert message["content"] == "I look."
    assert message["reasoning_content"] == "Where is it?"
    assert [call["function"] for call in message["tool_calls"]] == [
        {"name": "ls", "arguments": '{"path": "."}'},
        {"name": "cat", "arguments": ""},
    ]
    assert len({call["id"] for call in message["tool_calls"]}) == 2
    assert choice["finish_reason"] == "tool_calls"
    assert choice["token_ids"][-1] == control_id(END)
    details = answer["usage"]["completion_tokens_details"]
    assert details == {"reasoning_tokens": len(encode("Where is it?")) + 2}
    assert answer["usage"]["completion_tokens"] == len(choice["token_ids"])


@in_event_loop
async def test_an_answer_of_tools_alone_has_no_text() -> None:
    async with simulated(Answer(tool_calls=(ToolCall("ls", "{}"),))) as client:
        answer = await client.ask(CHAT, {"messages": [USER]})

    assert answer["choices"][0]["message"]["content"] is None
    assert "reasoning_content" not in answer["choices"][0]["message"]
    assert answer["usage"]["completion_tokens_details"] == {"reasoning_tokens": 0}


@in_event_loop
async def test_chat_deltas_follow_openais_grammar() -> None:
    async with simulated(FULL) as client:
        events = await client.stream(CHAT, {"messages": [USER], "stream_options": {"include_usage": True}})

    *chunks, last = events
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert deltas[-1] == {}
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * (len(chunks) - 1) + ["tool_calls"]
    assert [next(iter(delta)) for delta in deltas[1:-1]] == sorted(
        (next(iter(delta)) for delta in deltas[1:-1]), key=["reasoning_content", "content", "tool_calls"].index
    )
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "Where is it?"
    assert "".join(delta.get("content", "") for delta in deltas) == "I look."
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert [(call["index"], call["function"]["name"]) for call in calls if "id" in call] == [(0, "ls"), (1, "cat")]
    assert all(call["function"]["arguments"] == "" for call in calls if "id" in call)
    assert "".join(call["function"]["arguments"] for call in calls if call["index"] == 0) == '{"path": "."}'
    assert all(set(call) == {"index", "function"} for call in calls if "id" not in call)
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] == last["usage"]["prompt_tokens"] + last["usage"]["completion_tokens"]


@in_event_loop
async def test_streamed_chat_ids_hold_every_token_once() -> None:
    body = {"messages": [USER], "return_token_ids": True}
    async with simulated(FULL) as client:
        whole = await client.ask(CHAT, body)
        events = await client.stream(CHAT, body)

    assert streamed_ids(events) == whole["choices"][0]["token_ids"]
    assert events[0]["prompt_token_ids"] == whole["prompt_token_ids"]
    assert all("prompt_token_ids" not in event for event in events[1:])


@in_event_loop
async def test_usage_is_left_out_of_a_stream_unless_asked_for() -> None:
    async with simulated() as client:
        events = await client.stream(CHAT, {"messages": [USER], "max_tokens": 3})

    assert all(event["choices"] and event["usage"] is None for event in events)


@in_event_loop
async def test_the_openai_client_reads_whole_answers() -> None:
    async with simulated(FULL) as client, openai_client(client) as real:
        answer = await real.chat.completions.create(model="rotoscope-simulator", messages=[USER])  # type: ignore[list-item]
        text = await real.completions.create(model="rotoscope-simulator", prompt=[300, 301], max_tokens=3)

    message = answer.choices[0].message
    assert message.tool_calls is not None
    assert [call.function.name for call in message.tool_calls if call.type == "function"] == ["ls", "cat"]
    assert message.model_extra is not None
    assert message.model_extra["reasoning_content"] == "Where is it?"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens_details is not None
    assert answer.usage.prompt_tokens_details.cached_tokens == 0
    assert text.choices[0].finish_reason == "length"


@in_event_loop
async def test_the_openai_client_puts_a_stream_together() -> None:
    async with simulated(FULL) as client, openai_client(client) as real:
        stream = real.chat.completions.stream(
            model="rotoscope-simulator",
            messages=[USER],  # type: ignore[list-item]
            stream_options={"include_usage": True},
        )
        async with stream as events:
            answer = await events.get_final_completion()

    message = answer.choices[0].message
    assert message.content == "I look."
    assert [call.function.arguments for call in message.tool_calls or []] == ['{"path": "."}', ""]
    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 0


@in_event_loop
async def test_a_conversation_finds_all_it_said_before() -> None:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}]
    async with simulated(profile="token") as client:
        known = 0
        for turn in range(4):
            messages.append({"role": "user", "content": f"Turn {turn}."})
            answer = await client.ask(CHAT, {"messages": messages})
            usage = answer["usage"]
            if turn:
                assert usage["prompt_tokens_details"]["cached_tokens"] == known
            known = usage["total_tokens"] - 1  # the end-of-turn token is rendered again, but was never computed
            messages.append(answer["choices"][0]["message"])


@in_event_loop
async def test_a_conversation_with_reasoning_finds_its_prompts_only() -> None:
    async with simulated(FULL, profile="token") as client:
        first = await client.ask(CHAT, {"messages": [USER]})
        history = [USER, first["choices"][0]["message"], {"role": "tool", "content": "none", "tool_call_id": "x"}]
        second = await client.ask(CHAT, {"messages": history})

    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] == first["usage"]["prompt_tokens"]


@in_event_loop
async def test_calls_of_another_cache_salt_share_nothing() -> None:
    async with simulated(profile="token") as client:
        cached = [
            (await client.ask(TEXT, {"prompt": [300] * 50} | salt))["usage"]["prompt_tokens_details"]["cached_tokens"]
            for salt in ({}, {"cache_salt": "a"}, {"cache_salt": "a"}, {})
        ]

    assert cached == [0, 0, 49, 49]


@in_event_loop
async def test_stop_strings_end_an_answer() -> None:
    async with simulated(Answer(text="I act. Observation: none")) as client:
        answer = await client.ask(CHAT, {"messages": [USER], "stop": ["Observation:"]})
        events = await client.stream(CHAT, {"messages": [USER], "stop": "Observation:"})

    assert answer["choices"][0]["message"]["content"] == "I act. "
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in events) == "I act. "


@pytest.mark.parametrize("path", [TEXT, CHAT])
@in_event_loop
async def test_without_its_end_an_answer_is_exactly_as_long_as_asked(path: str) -> None:
    body = {"messages": [USER], "prompt": "Hi", "max_tokens": 700, "min_tokens": 700, "ignore_eos": True}
    async with simulated(FULL) as client:
        whole = await client.ask(path, body)

    assert whole["usage"]["completion_tokens"] == 700
    assert whole["choices"][0]["finish_reason"] == "length"


@in_event_loop
async def test_the_model_sees_the_conversation_the_tools_and_the_seed() -> None:
    seen: list[ModelRequest] = []

    def answer(request: ModelRequest) -> Answer:
        seen.append(request)
        return Answer(text="ok")

    tool = {"type": "function", "function": {"name": "ls"}}
    async with simulated(answer, seed=5) as client:
        chat = await client.ask(CHAT, {"messages": [USER], "tools": [tool], "n": 2})

    assert [request.choice for request in seen] == [0, 1]
    assert seen[0].messages[0].content == "Hi"
    assert seen[0].tools == (tool,)
    assert seen[0].seed == 5
    assert len(seen[0].prompt_ids) == chat["usage"]["prompt_tokens"]


@in_event_loop
async def test_a_request_may_bring_a_seed_of_its_own() -> None:
    body = {"prompt": "Hi", "max_tokens": 8}
    async with simulated(seed=5) as client:
        said = [(await client.ask(TEXT, body | seed))["choices"] for seed in ({}, {"seed": 5}, {"seed": 0})]

    assert said[0] == said[1] != said[2]


@in_event_loop
async def test_metrics_agree_with_the_sums_of_usage() -> None:
    async with simulated(profile="vllm") as client:
        usages = []
        for length in (40, 200, 200, 100):
            body = {"prompt": [300 + i for i in range(length)], "max_tokens": 10, "ignore_eos": length == 40}
            usages.append((await client.ask(TEXT, body))["usage"])
        metrics = await client.metrics()

    assert metrics["vllm:prefix_cache_queries_total"] == sum(usage["prompt_tokens"] for usage in usages)
    assert metrics["vllm:prompt_tokens_total"] == sum(usage["prompt_tokens"] for usage in usages)
    cached = sum(usage["prompt_tokens_details"]["cached_tokens"] for usage in usages)
    assert metrics["vllm:prefix_cache_hits_total"] == cached == 32 + 192 + 96
    assert metrics["vllm:generation_tokens_total"] == sum(usage["completion_tokens"] for usage in usages)
    assert metrics["vllm:request_success_total:length"] == 4
    assert metrics["vllm:time_to_first_token_seconds_count"] == 4
    assert metrics["vllm:inter_token_latency_seconds_count"] == 36
    assert metrics["vllm:num_requests_running"] == metrics["vllm:num_requests_waiting"] == 0
    assert metrics["vllm:kv_cache_usage_perc"] == 0


async def until(client: Client, name: str, value: float) -> None:
    """Ask for a metric until it has the value."""
    while (await client.metrics())[name] != value:
        pass


@pytest.mark.parametrize("stream", [True, False])
@in_event_loop
async def test_a_client_that_hangs_up_frees_slot_and_blocks_at_once(stream: bool) -> None:
    endless = {"prompt": [300] * 100, "max_tokens": 10_000, "ignore_eos": True}
    async with simulated(max_batch=1, speed=1.0) as client:
        hanging = asyncio.create_task(client.ask(TEXT, endless | {"stream": stream}))
        await until(client, "vllm:num_requests_running", 1)
        queued = asyncio.create_task(client.ask(TEXT, endless | {"stream": stream}))
        await until(client, "vllm:num_requests_waiting", 1)
        assert (await client.metrics())["vllm:kv_cache_usage_perc"] == pytest.approx(632 / 8192)

        queued.cancel()
        await until(client, "vllm:num_requests_waiting", 0)
        hanging.cancel()
        await until(client, "vllm:num_requests_running", 0)
        after = await client.metrics()

    assert after["vllm:kv_cache_usage_perc"] == 0
    assert after["vllm:request_success_total:abort"] == 2


@in_event_loop
async def test_stopping_the_server_ends_streams_with_an_error() -> None:
    endless = {"prompt": [300] * 100, "max_tokens": 10_000, "ignore_eos": True, "stream": True}
    async with aiohttp.ClientSession() as session:
        async with running_simulator() as url:
            response = await session.post(url + TEXT, json=endless)
            await response.content.readuntil(b"\n\n")
        rest = await response.read()

    assert b'{"error":{"message":"the simulated engine has stopped","type":"server_error"' in rest
    assert b"[DONE]" not in rest
