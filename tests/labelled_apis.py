"""The APIs in which the labelled corpus is spoken: messages of a script, in the form of chat completions, as each has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from chat_wire import PATH, Message, delta

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Api:
    """How a client asks, and how a server answers."""

    path: Callable[[Fields], str]
    body: Callable[[Sequence[Message], Fields], Message]
    answer: Callable[[Sequence[Message]], Message]
    begins: Message
    """The event that brings the first words of an answer."""
    has_choices: bool = True


def _rest(fields: Fields) -> Message:
    return {name: value for name, value in fields.items() if name not in ("tools", "n", "stream_options")}


def _apart(messages: Sequence[Message]) -> tuple[list[str], list[Message]]:
    """Return the texts of the system, and the other messages."""
    system = [message["content"] for message in messages if message["role"] == "system"]
    return system, [message for message in messages if message["role"] != "system"]


def _calls(message: Message) -> Iterator[tuple[str, str, str]]:
    for call in message.get("tool_calls", ()):
        yield call["id"], call["function"]["name"], call["function"]["arguments"]


def _schemas(fields: Fields) -> list[Message]:
    return [tool["function"] for tool in fields.get("tools") or ()]


def _chat_answer(answers: Sequence[Message]) -> Message:
    choices = [
        {"index": i, "message": x, "finish_reason": "tool_calls" if x.get("tool_calls") else "stop"}
        for i, x in enumerate(answers)
    ]
    return {"choices": choices}


def _messages_body(messages: Sequence[Message], fields: Fields) -> Message:
    system, others = _apart(messages)
    sent: list[Message] = [
        {"role": "assistant" if role == "assistant" else "user", "content": [x for m in group for x in _blocks(m)]}
        for role, group in groupby(others, lambda message: message["role"])
    ]
    sent[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    tools = [{"name": x["name"], "input_schema": x["parameters"]} for x in _schemas(fields)]
    body = _rest(fields) | {"max_tokens": 99, "system": "\n".join(system), "messages": sent}
    return body | ({"tools": tools} if tools else {})


def _blocks(message: Message) -> Iterator[Message]:
    if message["role"] == "tool":
        yield {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
        return
    if thinking := message.get("reasoning_content"):
        yield {"type": "thinking", "thinking": thinking, "signature": "sealed"}
    if message["content"]:
        yield {"type": "text", "text": message["content"]}
    for call_id, name, arguments in _calls(message):
        yield {"type": "tool_use", "id": call_id, "name": name, "input": json.loads(arguments)}


def _messages_answer(answers: Sequence[Message]) -> Message:
    reason = "tool_use" if answers[0].get("tool_calls") else "end_turn"
    return {"type": "message", "role": "assistant", "content": list(_blocks(answers[0])), "stop_reason": reason}


def _responses_body(messages: Sequence[Message], fields: Fields) -> Message:
    system, others = _apart(messages)
    tools = [{"type": "function"} | x for x in _schemas(fields)]
    body = _rest(fields) | {"instructions": "\n".join(system), "input": [x for m in others for x in _items(m)]}
    return body | ({"tools": tools} if tools else {})


def _items(message: Message) -> Iterator[Message]:
    if message["role"] == "tool":
        yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}
        return
    if thinking := message.get("reasoning_content"):
        yield {"type": "reasoning", "summary": [], "encrypted_content": thinking}
    kind = "output_text" if message["role"] == "assistant" else "input_text"
    if message["content"]:
        content = [{"type": kind, "text": message["content"]}]
        yield {"type": "message", "role": message["role"], "content": content}
    for call_id, name, arguments in _calls(message):
        yield {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def _responses_answer(answers: Sequence[Message]) -> Message:
    return {"status": "completed", "output": list(_items(answers[0]))}


def _gemini_path(fields: Fields) -> str:
    method = "streamGenerateContent" if fields.get("stream") else "generateContent"
    return f"/v1beta/models/{fields['model']}:{method}"


def _gemini_body(messages: Sequence[Message], fields: Fields) -> Message:
    system, others = _apart(messages)
    names = {call_id: name for message in others for call_id, name, _ in _calls(message)}
    contents = [
        {"role": "model" if role == "assistant" else "user", "parts": [x for m in group for x in _parts(m, names)]}
        for role, group in groupby(others, lambda message: message["role"])
    ]
    body: Message = {"contents": contents, "generationConfig": {"candidateCount": fields.get("n", 1)}}
    if system:
        body["systemInstruction"] = {"parts": [{"text": "\n".join(system)}]}
    return body | ({"tools": [{"functionDeclarations": schemas}]} if (schemas := _schemas(fields)) else {})


def _parts(message: Message, names: Mapping[str, str]) -> Iterator[Message]:
    """Yield parts without ids, as older versions have them."""
    if message["role"] == "tool":
        name = names.get(message["tool_call_id"], "read")
        yield {"functionResponse": {"name": name, "response": {"output": message["content"]}}}
        return
    if thinking := message.get("reasoning_content"):
        yield {"text": thinking, "thought": True}
    if message["content"]:
        yield {"text": message["content"]}
    for _, name, arguments in _calls(message):
        yield {"functionCall": {"name": name, "args": json.loads(arguments)}}


def _gemini_answer(answers: Sequence[Message]) -> Message:
    contents = [{"role": "model", "parts": list(_parts(answer, {}))} for answer in answers]
    return {"candidates": [{"index": i, "content": x, "finishReason": "STOP"} for i, x in enumerate(contents)]}


APIS = {
    "chat": Api(
        lambda _: PATH,
        lambda messages, fields: dict(fields) | {"messages": list(messages)},
        _chat_answer,
        delta({"content": "I begin"}),
    ),
    "messages": Api(
        lambda _: "/v1/messages",
        _messages_body,
        _messages_answer,
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "I begin"}},
        has_choices=False,
    ),
    "responses": Api(
        lambda _: "/v1/responses",
        _responses_body,
        _responses_answer,
        {"type": "response.output_text.delta", "output_index": 0, "delta": "I begin"},
        has_choices=False,
    ),
    "gemini": Api(
        _gemini_path,
        _gemini_body,
        _gemini_answer,
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "I begin"}]}}]},
    ),
}
