"""The request and the answer that a call's spans tell of, as bytes on the wire, for a recorder to read.

They are chat completions, or completions where the prompt is plain text, or responses of the Responses API. Tools have
the form that they have there: it is what templates write out, though spans tell it in one form for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from rotoscope.sdk.otlp.calls import ModelCall
from rotoscope.sdk.otlp.content import Message, Said, text_of

_DONE = b"data: [DONE]\n\n"
_FAILED = orjson.dumps({"error": {"message": "", "type": "error"}})


@dataclass(frozen=True, slots=True)
class Wire:
    """A call on the wire."""

    path: str
    request: bytes = field(repr=False)
    content_type: str
    first: bytes = field(repr=False)
    """The piece of the answer that comes first; empty where it comes in one piece."""
    last: bytes = field(repr=False)


def chat(call: ModelCall, said: Said) -> Wire:
    """Return a call as a chat completion, or as a completion of plain text."""
    is_text = call.is_text and not any(message.get("tool_calls") for message in said.messages)
    body: dict[str, Any] = {"model": call.model, "n": call.choices}
    body |= {"prompt": text_of(said.messages)} if is_text else {"messages": list(said.messages)}
    if said.tools:
        body["tools"] = [_nested_tool(tool) for tool in said.tools]
    is_stream = call.first_ns is not None or call.is_broken
    if is_stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    path = "/v1/completions" if is_text else "/v1/chat/completions"
    outputs = list(_choices(call, said, is_text=is_text, is_stream=is_stream))
    usage = _usage(call)
    if call.failed:
        return Wire(path, _json(body), "application/json", b"", _FAILED)
    if not is_stream:
        answer = {"choices": [{**output, **end} for output, end in outputs]} | usage
        return Wire(path, _json(body), "application/json", b"", _json(answer))
    first = _event({"choices": [output for output, _ in outputs]})
    if call.is_broken:
        return Wire(path, _json(body), "text/event-stream", first + _prompt_usage(call), b"")
    last = _event({"choices": [end for _, end in outputs]}) + (_event({"choices": []} | usage) if usage else b"")
    is_whole = any("finish_reason" in end for _, end in outputs) or bool(usage)
    return Wire(path, _json(body), "text/event-stream", first, last + _DONE if is_whole else b"")


def _nested_tool(tool: Any) -> Any:
    """Return a tool as chat completions have it."""
    if not isinstance(tool, dict) or "function" in tool or tool.get("type", "function") != "function":
        return tool
    return {"type": "function", "function": {name: value for name, value in tool.items() if name != "type"}}


def _flat_tool(tool: Any) -> Any:
    """Return a tool as responses have it."""
    inner = tool.get("function") if isinstance(tool, dict) else None
    return {"type": "function", **inner} if isinstance(inner, dict) else tool


def _choices(
    call: ModelCall, said: Said, *, is_text: bool, is_stream: bool
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each output and how it ended."""
    for index in range(call.choices):
        answer = said.answers[index] if index < len(said.answers) else {"role": "assistant", "content": ""}
        reason = _reason(call, answer, index)
        end = {"index": index} | ({"finish_reason": reason} if reason else {})
        if is_text:
            yield {"index": index, "text": text_of([answer])}, end
        else:
            yield {"index": index, ("delta" if is_stream else "message"): answer}, end


def _reason(call: ModelCall, answer: Message, index: int) -> str:
    """Return why an output ended; of several reasons that are told of one it is that it asked for tools."""
    if call.choices > 1 and index < len(call.reasons):
        return call.reasons[index]
    if not call.reasons:
        return "tool_calls" if answer.get("tool_calls") else ""
    return "tool_calls" if "tool_calls" in call.reasons else call.reasons[0]


def _prompt_usage(call: ModelCall) -> bytes:
    """Return what was counted of a prompt alone: of an answer that came to no end, what is counted is its beginning."""
    usage = _usage(replace(call, usage=replace(call.usage, completion_tokens=None, reasoning_tokens=None)))
    return _event({"choices": []} | usage) if usage else b""


def _usage(call: ModelCall, prompt: str = "prompt_tokens", output: str = "completion_tokens") -> dict[str, Any]:
    """Return what was counted of a call, if anything, under the names that the interface has for it."""
    usage = call.usage
    if usage.prompt_tokens is None and usage.completion_tokens is None:
        return {}
    told: dict[str, Any] = {prompt: usage.prompt_tokens, output: usage.completion_tokens}
    if usage.cached_tokens is not None:
        told[f"{prompt}_details"] = {"cached_tokens": usage.cached_tokens}
    if usage.reasoning_tokens is not None:
        told[f"{output}_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return {"usage": told}


def response(call: ModelCall, said: Said, *, name: str, previous: str) -> Wire:
    """Return a call as a response called `name`, behind the one called `previous`, where they have such names."""
    leading = 0
    while leading < len(said.messages) and said.messages[leading].get("role") in ("system", "developer"):
        leading += 1
    body: dict[str, Any] = {"model": call.model, "input": _items(said.messages[leading:])}
    if leading:
        body["instructions"] = text_of(said.messages[:leading])
    if said.tools:
        body["tools"] = [_flat_tool(tool) for tool in said.tools]
    if previous:
        body["previous_response_id"] = previous
    if call.failed:
        return Wire("/v1/responses", _json(body), "application/json", b"", _FAILED)
    reason = _reason(call, said.answers[0] if said.answers else {}, 0)
    answer: dict[str, Any] = {"id": name, "object": "response", "output": _items(said.answers)}
    answer |= (
        {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
        if reason == "length"
        else {"status": "completed"}
    )
    answer |= _usage(call, "input_tokens", "output_tokens")
    if call.first_ns is None:
        return Wire("/v1/responses", _json(body), "application/json", b"", _json(answer))
    body["stream"] = True
    first = b"".join(
        _event({"type": "response.output_item.done", "output_index": index, "item": item})
        for index, item in enumerate(answer["output"])
    )
    last = _event({"type": f"response.{answer['status']}", "response": answer})
    return Wire("/v1/responses", _json(body), "text/event-stream", first, last)


def _items(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages of a chat as the items that they are in a response."""
    items: list[dict[str, Any]] = []
    for message in messages:
        content = message.get("content")
        if message.get("role") == "tool":
            items.append(
                {"type": "function_call_output", "call_id": message.get("tool_call_id") or "", "output": content}
            )
            continue
        if message.get("role") != "assistant":
            items.append({"type": "message", "role": message.get("role"), "content": content})
            continue
        if reasoning := message.get("reasoning_content"):
            items.append(
                {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": reasoning}]}
            )
        if content:
            text = content if isinstance(content, str) else text_of([message])
            items.append({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
        for call in message.get("tool_calls") or ():
            items.append({"type": "function_call", "call_id": call["id"], **call["function"]})
    return items


def embedding(model: str, prompt_tokens: int | None) -> Wire:
    """Return an embedding; one letter stands in the place of its text, which a trace only knows by what was counted."""
    body = {"model": model, "input": "."}
    usage = {} if prompt_tokens is None else {"usage": {"prompt_tokens": prompt_tokens}}
    return Wire("/v1/embeddings", _json(body), "application/json", b"", _json({"data": []} | usage))


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + _json(data) + b"\n\n"


def _json(value: dict[str, Any]) -> bytes:
    return orjson.dumps(value, default=str)
