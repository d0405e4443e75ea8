"""How a client of each dialect writes messages and tools of a chat, and how its server writes the answer.

A gateway that serves a dialect from a chat template brings it back to the same messages.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import orjson

Message = dict[str, Any]
Counts = tuple[int, int] | None
"""Tokens of prompt and output, where the server tells them."""


@dataclass(frozen=True)
class Speech:
    """Chat completions."""

    path: str = "/v1/chat/completions"

    def request(self, messages: list[Message], tools: Any) -> Message:
        """Return the body of a request."""
        return {"model": "toy", "messages": messages} | ({"tools": tools} if tools else {})

    def answer(self, message: Message, counts: Counts, name: str) -> Message:
        """Return the body of an answer; `name` is an id that no other has."""
        usage = {"prompt_tokens": counts[0], "completion_tokens": counts[1]} if counts else None
        return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]} | _told("usage", usage)


@dataclass(frozen=True)
class Messages(Speech):
    """Anthropic messages."""

    path: str = "/v1/messages"

    def request(self, messages: list[Message], tools: Any) -> Message:
        system = [{"type": "text", "text": text(m)} for m in messages if m["role"] == "system"]
        body: Message = {"model": "toy", "max_tokens": 9, "messages": self._messages(messages)}
        if tools:
            body["tools"] = [_renamed(tool["function"], parameters="input_schema") for tool in tools]
        return body | ({"system": system} if system else {})

    def answer(self, message: Message, counts: Counts, name: str) -> Message:
        usage = (
            {"input_tokens": counts[0], "cache_read_input_tokens": 0, "output_tokens": counts[1]} if counts else None
        )
        return {"type": "message", "content": self._blocks(message), "stop_reason": "end_turn"} | _told("usage", usage)

    def _messages(self, messages: list[Message]) -> list[Message]:
        brought: list[Message] = []
        for is_answer, group in groupby(_spoken(messages), lambda m: m["role"] == "assistant"):
            for message in group:
                role = "assistant" if is_answer else "user"
                blocks = self._blocks(message)
                if (not is_answer and message["role"] == "user" and brought and _is_result(brought[-1])) or (
                    message["role"] == "tool" and brought and _is_result(brought[-1]) and not _is_mixed(brought[-1])
                ):
                    brought[-1]["content"] += blocks
                else:
                    brought.append({"role": role, "content": blocks})
        return brought

    def _blocks(self, message: Message) -> list[Message]:
        if message["role"] == "tool":
            return [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": text(message)}]
        blocks: list[Message] = []
        if thinking := message.get("reasoning_content"):
            blocks.append({"type": "thinking", "thinking": thinking, "signature": "s"})
        if said := text(message):
            blocks.append({"type": "text", "text": said})
        for call in message.get("tool_calls", ()):
            arguments = orjson.loads(call["function"]["arguments"])
            blocks.append({"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": arguments})
        return blocks


@dataclass(frozen=True)
class Responses(Speech):
    """OpenAI responses."""

    path: str = "/v1/responses"

    def request(self, messages: list[Message], tools: Any) -> Message:
        body: Message = {"model": "toy", "input": self.items(messages)}
        if tools:
            body["tools"] = [{"type": "function"} | tool["function"] for tool in tools]
        system = [text(m) for m in messages if m["role"] == "system"]
        return body | ({"instructions": system[0]} if system else {})

    def items(self, messages: list[Message]) -> list[Message]:
        """Return messages but those of the system as items."""
        return [item for message in _spoken(messages) for item in self._items(message)]

    def answer(self, message: Message, counts: Counts, name: str) -> Message:
        usage = {"input_tokens": counts[0], "output_tokens": counts[1]} if counts else None
        return {"id": name, "status": "completed", "output": self._items(message)} | _told("usage", usage)

    def _items(self, message: Message) -> list[Message]:
        if message["role"] == "tool":
            return [{"type": "function_call_output", "call_id": message["tool_call_id"], "output": text(message)}]
        if message["role"] != "assistant":
            return [{"role": message["role"], "content": text(message)}]
        items: list[Message] = []
        if thinking := message.get("reasoning_content"):
            items.append(
                {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": thinking}]}
            )
        if (said := text(message)) or not message.get("tool_calls"):
            content = [{"type": "output_text", "text": said}]
            items.append({"type": "message", "role": "assistant", "content": content})
        return items + [
            {"type": "function_call", "call_id": call["id"]} | call["function"]
            for call in message.get("tool_calls", ())
        ]


@dataclass(frozen=True)
class StatefulResponses(Responses):
    """The same, with a server that keeps what was said: clients send what is new where they can."""

    kept: dict[bytes, str] = field(default_factory=dict)
    """By all that was said, the response that ended with it."""
    asked: list[list[Message]] = field(default_factory=list)

    def request(self, messages: list[Message], tools: Any) -> Message:
        body = super().request(messages, tools)
        spoken = _spoken(messages)
        self.asked.append(spoken)
        for count in range(len(spoken) - 1, 0, -1):
            if name := self.kept.get(orjson.dumps(spoken[:count])):
                return body | {"input": self.items(spoken[count:]), "previous_response_id": name}
        return body

    def answer(self, message: Message, counts: Counts, name: str) -> Message:
        self.kept[orjson.dumps([*self.asked[-1], message])] = name
        return super().answer(message, counts, name)


@dataclass(frozen=True)
class Gemini(Speech):
    """Gemini's generateContent."""

    path: str = "/v1beta/models/toy:generateContent"

    def request(self, messages: list[Message], tools: Any) -> Message:
        body: Message = {"contents": [self._content(message) for message in _spoken(messages)]}
        if tools:
            body["tools"] = [{"functionDeclarations": [tool["function"] for tool in tools]}]
        system = [{"text": text(m)} for m in messages if m["role"] == "system"]
        return body | ({"systemInstruction": {"parts": system}} if system else {})

    def answer(self, message: Message, counts: Counts, name: str) -> Message:
        usage = {"promptTokenCount": counts[0], "candidatesTokenCount": counts[1]} if counts else None
        candidate = {"content": self._content(message), "finishReason": "STOP"}
        return {"candidates": [candidate]} | _told("usageMetadata", usage)

    def _content(self, message: Message) -> Message:
        if message["role"] == "tool":
            answered = {"id": message["tool_call_id"], "name": "read", "response": {"output": text(message)}}
            return {"role": "user", "parts": [{"functionResponse": answered}]}
        parts: list[Message] = []
        if thinking := message.get("reasoning_content"):
            parts.append({"text": thinking, "thought": True})
        if said := text(message):
            parts.append({"text": said})
        for call in message.get("tool_calls", ()):
            arguments = orjson.loads(call["function"]["arguments"])
            parts.append({"functionCall": {"id": call["id"], "name": call["function"]["name"], "args": arguments}})
        return {"role": "model" if message["role"] == "assistant" else "user", "parts": parts}


SPEECHES: dict[str, Speech] = {
    "chat": Speech(),
    "messages": Messages(),
    "responses": Responses(),
    "gemini": Gemini(),
}


def text(message: Message) -> str:
    """Return what a message says."""
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(piece["text"] for piece in content)


def _spoken(messages: list[Message]) -> list[Message]:
    return [message for message in messages if message["role"] != "system"]


def _is_result(message: Message) -> bool:
    return bool(message["content"]) and message["content"][0]["type"] == "tool_result"


def _is_mixed(message: Message) -> bool:
    return any(block["type"] != "tool_result" for block in message["content"])


def _renamed(fields: Message, **names: str) -> Message:
    return {names.get(key, key): value for key, value in fields.items()}


def _told(name: str, value: Message | None) -> Message:
    return {} if value is None else {name: value}
