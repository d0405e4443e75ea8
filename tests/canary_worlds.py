"""Every place of every dialect where somebody's text goes, each with a canary of its own.

A world is a request, an answer whole and streamed, and an error in a stream. What is planted is remembered, so that a test
can look for all of it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Event = dict[str, Any] | str
Json = dict[str, Any]


@dataclass
class Planted:
    """Canaries by place; asking for one plants it."""

    texts: dict[str, str] = field(default_factory=dict)

    def __getitem__(self, place: str) -> str:
        mark = hashlib.sha256(place.encode()).hexdigest()[:8]
        return self.texts.setdefault(place, f"canary-{place.replace(' ', '-')}-{mark}")

    def ids(self, place: str) -> list[int]:
        """Return token ids that stand for a canary in a prompt of ids."""
        return toy_ids(self[place])

    def arguments(self, place: str) -> str:
        return json.dumps({self["name of an argument"]: self[place]})


def toy_ids(text: str) -> list[int]:
    """Tokenize by characters."""
    return [1000 + ord(char) for char in text]


def chat(it: Planted) -> Json:
    tool = {
        "type": "function",
        "function": {"name": it["tool"], "description": it["tool text"], "parameters": schema(it)},
    }
    call = {
        "id": it["call id"],
        "type": "function",
        "function": {"name": it["tool"], "arguments": it.arguments("sent")},
    }
    image = {"url": "data:image/png;base64," + base64.b64encode(it["image"].encode()).decode()}
    return {
        "model": it["model"],
        "messages": [
            {"role": "system", "content": it["system"], "name": it["system name"]},
            {"role": "developer", "content": it["developer"]},
            {
                "role": "user",
                "content": [{"type": "text", "text": it["user"]}, {"type": "image_url", "image_url": image}],
            },
            {
                "role": "assistant",
                "content": it["earlier"],
                "reasoning_content": it["earlier thought"],
                "tool_calls": [call],
            },
            {"role": "tool", "tool_call_id": it["call id"], "content": it["result"]},
        ],
        "tools": [tool],
        "tool_choice": {"type": "function", "function": {"name": it["tool"]}},
        "response_format": {"type": "json_schema", "json_schema": {"name": it["format"], "schema": schema(it)}},
        "metadata": {it["metadata name"]: it["metadata"]},
        "prompt_cache_key": it["cache key"],
        "user": it["person"],
        "stop": [it["stop"]],
        it["unknown field"]: it["unknown value"],
    }


def schema(it: Planted) -> Json:
    text = {"type": "string", "description": it["argument text"], "enum": [it["choice"]]}
    return {"type": "object", "properties": {it["name of an argument"]: text}}


def chat_whole(it: Planted) -> Json:
    call = {
        "id": it["new call id"],
        "type": "function",
        "function": {"name": it["new tool"], "arguments": it.arguments("new")},
    }
    message = {"role": "assistant", "content": it["answer"], "reasoning_content": it["thought"], "tool_calls": [call]}
    return {
        "id": it["answer id"],
        "model": it["answering model"],
        "system_fingerprint": it["fingerprint"],
        "choices": [{"index": 0, "message": message, "finish_reason": it["finish reason"]}],
        "usage": {"prompt_tokens": 60, "completion_tokens": 9, "note": it["usage note"]},
    }


def chat_events(it: Planted) -> list[Event]:
    def event(**delta: Any) -> Json:
        return {"id": it["answer id"], "model": it["answering model"], "choices": [{"index": 0, "delta": delta}]}

    call = {"index": 0, "id": it["new call id"], "function": {"name": it["new tool"], "arguments": it.arguments("new")}}
    return [
        event(role="assistant", reasoning_content=it["thought"]),
        event(content=it["answer"]),
        event(tool_calls=[call]),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": it["finish reason"]}]},
        {"choices": [], "usage": {"prompt_tokens": 60, "completion_tokens": 9}},
        "[DONE]",
    ]


def chat_error(it: Planted) -> Json:
    return {
        "error": {
            "message": it["error"],
            "type": it["error type"],
            "code": it["error code"],
            "param": it["error field"],
        }
    }


def messages(it: Planted) -> Json:
    return {
        "model": it["model"],
        "max_tokens": 99,
        "system": [{"type": "text", "text": it["system"], "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": it["user"]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": it["earlier thought"], "signature": it["signature"]},
                    {"type": "redacted_thinking", "data": it["hidden thought"]},
                    {"type": "text", "text": it["earlier"]},
                    {"type": "tool_use", "id": it["call id"], "name": it["tool"], "input": {it["name of an argument"]: it["sent"]}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": it["call id"], "content": it["result"]}]},
        ],
        "tools": [{"name": it["tool"], "description": it["tool text"], "input_schema": schema(it)}],
        "metadata": {"user_id": json.dumps({"session_id": it["session in the body"], "device_id": it["device"]})},
        "stop_sequences": [it["stop"]],
    }  # fmt: skip


def messages_whole(it: Planted) -> Json:
    return {
        "id": it["answer id"],
        "type": "message",
        "role": "assistant",
        "model": it["answering model"],
        "content": [
            {"type": "thinking", "thinking": it["thought"], "signature": it["new signature"]},
            {"type": "text", "text": it["answer"]},
            {
                "type": "tool_use",
                "id": it["new call id"],
                "name": it["new tool"],
                "input": {it["new argument"]: it["new"]},
            },
        ],
        "stop_reason": it["finish reason"],
        "stop_sequence": it["stop"],
        "usage": {"input_tokens": 60, "output_tokens": 9, "service_tier": it["tier"]},
    }


def messages_events(it: Planted) -> list[Event]:
    def block(index: int, start: Json, *deltas: Json) -> list[Event]:
        return [
            {"type": "content_block_start", "index": index, "content_block": start},
            *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": index},
        ]

    tool = {"type": "tool_use", "id": it["new call id"], "name": it["new tool"], "input": {}}
    opened = {
        "id": it["answer id"],
        "type": "message",
        "model": it["answering model"],
        "usage": {"input_tokens": 60, "output_tokens": 1},
    }
    return [
        {"type": "message_start", "message": opened},
        *block(0, {"type": "thinking", "thinking": ""}, {"type": "thinking_delta", "thinking": it["thought"]},
               {"type": "signature_delta", "signature": it["new signature"]}),
        *block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": it["answer"]}),
        *block(2, tool, {"type": "input_json_delta", "partial_json": it.arguments("new")}),
        {"type": "message_delta", "delta": {"stop_reason": it["finish reason"]}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]  # fmt: skip


def messages_error(it: Planted) -> Json:
    return {
        "type": "error",
        "error": {"type": it["error type"], "message": it["error"]},
        "request_id": it["request id"],
    }


def responses(it: Planted) -> Json:
    content = [{"type": "input_text", "text": it["user"]}]
    return {
        "model": it["model"],
        "instructions": it["system"],
        "previous_response_id": it["earlier response"],
        "input": [
            {"type": "message", "role": "user", "content": content},
            {"type": "reasoning", "id": it["item id"], "summary": [], "encrypted_content": it["hidden thought"]},
            {"type": "function_call", "call_id": it["call id"], "name": it["tool"], "arguments": it.arguments("sent")},
            {"type": "function_call_output", "call_id": it["call id"], "output": it["result"]},
        ],
        "tools": [{"type": "function", "name": it["tool"], "description": it["tool text"], "parameters": schema(it)}],
        "prompt_cache_key": it["cache key"],
        "client_metadata": {it["metadata name"]: it["metadata"]},
    }


def _response(it: Planted) -> Json:
    return {
        "id": it["answer id"],
        "object": "response",
        "status": "completed",
        "model": it["answering model"],
        "output": [
            {"type": "reasoning", "id": it["new item id"], "summary": [{"type": "summary_text", "text": it["thought"]}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": it["answer"]}]},
            {"type": "function_call", "call_id": it["new call id"], "name": it["new tool"], "arguments": it.arguments("new")},
        ],
        "usage": {"input_tokens": 60, "output_tokens": 9, "output_tokens_details": {"reasoning_tokens": 3}},
    }  # fmt: skip


def responses_events(it: Planted) -> list[Event]:
    whole = _response(it)
    items: list[Event] = [
        {"type": "response.output_item.done", "output_index": place, "item": item}
        for place, item in enumerate(whole["output"])
    ]
    return [
        {"type": "response.created", "response": {"id": it["answer id"], "output": []}},
        {"type": "response.output_item.added", "output_index": 1, "item": whole["output"][1] | {"content": []}},
        {"type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": it["answer"]},
        *items,
        {"type": "response.completed", "response": whole},
    ]


def responses_error(it: Planted) -> Json:
    return {"type": "error", "code": it["error code"], "message": it["error"], "param": it["error field"]}


def gemini(it: Planted) -> Json:
    call = {"functionCall": {"name": it["tool"], "args": {it["name of an argument"]: it["sent"]}}}
    result = {"functionResponse": {"name": it["tool"], "response": {"output": it["result"]}}}
    return {
        "systemInstruction": {"parts": [{"text": it["system"]}]},
        "contents": [
            {
                "role": "user",
                "parts": [{"text": it["user"]}, {"inlineData": {"mimeType": "image/png", "data": it["image"]}}],
            },
            {"role": "model", "parts": [{"text": it["earlier thought"], "thought": True}, call]},
            {"role": "user", "parts": [result]},
        ],
        "tools": [
            {"functionDeclarations": [{"name": it["tool"], "description": it["tool text"], "parameters": schema(it)}]}
        ],
        "labels": {it["metadata name"]: it["metadata"]},
    }


def gemini_whole(it: Planted) -> Json:
    call = {
        "functionCall": {"name": it["new tool"], "args": {it["new argument"]: it["new"]}},
        "thoughtSignature": it["signature"],
    }
    parts = [{"text": it["thought"], "thought": True}, {"text": it["answer"]}, call]
    candidate = {"content": {"parts": parts, "role": "model"}, "index": 0, "finishReason": it["finish reason"]}
    usage = {"promptTokenCount": 60, "candidatesTokenCount": 9, "trafficType": it["tier"]}
    return {
        "candidates": [candidate],
        "usageMetadata": usage,
        "modelVersion": it["answering model"],
        "responseId": it["answer id"],
    }


def gemini_events(it: Planted) -> list[Event]:
    whole = gemini_whole(it)
    parts = whole["candidates"][0]["content"]["parts"]
    first: list[Event] = [
        {"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}]} for part in parts[:2]
    ]
    return [*first, whole]


def gemini_error(it: Planted) -> Json:
    details = [{"reason": it["error code"], "metadata": {"service": it["error field"]}}]
    return {"error": {"code": 500, "message": it["error"], "status": it["error type"], "details": details}}


def completions(it: Planted) -> Json:
    return {"model": it["model"], "prompt": it["user"], "suffix": it["suffix"], "user": it["person"]}


def completions_of_ids(it: Planted) -> Json:
    return {"model": it["model"], "prompt": it.ids("user"), "return_token_ids": True}


def completions_whole(it: Planted) -> Json:
    choice = {"index": 0, "text": it["answer"], "token_ids": it.ids("answer"), "finish_reason": it["finish reason"]}
    return {"id": it["answer id"], "choices": [choice], "usage": {"prompt_tokens": 60, "completion_tokens": 9}}


def completions_events(it: Planted) -> list[Event]:
    return [completions_whole(it) | {"usage": None}, "[DONE]"]


def embeddings(it: Planted) -> Json:
    return {"model": it["model"], "input": [it["user"], it["another text"]]}


def embeddings_whole(it: Planted) -> Json:
    return {"model": it["answering model"], "data": [{"index": 0, "embedding": [0.5]}], "usage": {"prompt_tokens": 60}}


@dataclass(frozen=True)
class World:
    """One dialect."""

    path: str
    body: Callable[[Planted], Json]
    whole: Callable[[Planted], Json]
    events: Callable[[Planted], Sequence[Event]]
    error: Callable[[Planted], Json] = chat_error
    stream_path: str = ""
    """Where streams are asked for, if not by a field."""

    def asked(self, it: Planted, *, streams: bool) -> tuple[str, Json]:
        """Return path and body of a request."""
        if streams and self.stream_path:
            return self.stream_path, self.body(it)
        return self.path, self.body(it) | ({"stream": True} if streams else {})


WORLDS = {
    "chat": World("/v1/chat/completions", chat, chat_whole, chat_events),
    "messages": World("/v1/messages?beta=true", messages, messages_whole, messages_events, messages_error),
    "responses": World("/v1/responses", responses, _response, responses_events, responses_error),
    "gemini": World(
        "/v1beta/models/m:generateContent",
        gemini,
        gemini_whole,
        gemini_events,
        gemini_error,
        "/v1beta/models/m:streamGenerateContent?alt=sse",
    ),
    "completions": World("/v1/completions", completions, completions_whole, completions_events),
    "completions of ids": World("/v1/completions", completions_of_ids, completions_whole, completions_events),
    "embeddings": World("/v1/embeddings", embeddings, embeddings_whole, lambda it: []),
}


def headers(it: Planted) -> dict[str, str]:
    """Return what clients tell of themselves, their place and their keys."""
    turn = {
        "turn_id": it["turn"],
        "workspaces": {f"/home/{it['person']}/{it['folder']}": {"git": f"git@host:{it['remote']}"}},
    }
    return {
        "Authorization": f"Bearer {it['key']}",
        "x-api-key": it["other key"],
        "x-goog-api-key": it["third key"],
        "Cookie": f"id={it['cookie']}",
        "User-Agent": it["agent"],
        "x-codex-turn-metadata": json.dumps(turn),
        "session-id": it["session"],
        "x-claude-code-session-id": it["session of Claude Code"],
        "x-claude-code-agent-id": it["agent id"],
        "openai-organization": it["organization"],
        "Referer": f"https://{it['referer']}.example/",
    }


def sse(events: Sequence[Event]) -> list[bytes]:
    """Return events as they are on the wire."""

    def one(event: Event) -> bytes:
        if isinstance(event, str):
            return f"data: {event}\n\n".encode()
        name = f"event: {event['type']}\n" if "type" in event else ""
        return f"{name}data: {json.dumps(event)}\n\n".encode()

    return list(map(one, events))
