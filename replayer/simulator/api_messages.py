"""Anthropic's `/v1/messages` on the simulator: its body and its answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import orjson
from pydantic import Field

from rotoscope.replayer.simulator.blocks import Block, block_text, steps
from rotoscope.replayer.simulator.model import Message, ToolCall
from rotoscope.replayer.simulator.responses import Choice, Form, Reply, named_event
from rotoscope.replayer.simulator.wire import Body, ContentPart, GenerationBody, ImagePart, Refusal, TextPart, joined

_STOP_REASONS = {"length": "max_tokens", "tool_calls": "tool_use"}


class _Block(Body):
    """One block of a message; thinking is dropped, as the template drops it."""

    type: Literal["text", "tool_use", "tool_result", "thinking", "redacted_thinking"]
    text: str = ""
    id: str = ""
    name: str = ""
    input: dict[str, Any] = Field(default_factory=dict)
    tool_use_id: str = ""
    content: str | list[ContentPart] | None = None


class _Message(Body):
    role: Literal["user", "assistant", "system"]
    content: str | list[_Block | ImagePart]

    def messages(self) -> Iterator[Message]:
        """Yield results of tools first, each as a message of its own, then what is said."""
        if isinstance(self.content, str):
            yield Message(self.role, self.content)
            return
        for block in self.content:
            if isinstance(block, _Block) and block.type == "tool_result":
                yield Message("tool", joined(block.content), tool_call_id=block.tool_use_id)
        text = "".join(block.text for block in self.content)
        calls = tuple(
            _tool_call(block) for block in self.content if isinstance(block, _Block) and block.type == "tool_use"
        )
        if text or calls:
            yield Message(self.role, text, calls)


def _tool_call(block: _Block) -> ToolCall:
    return ToolCall(block.name, orjson.dumps(block.input).decode(), block.id)


class MessagesBody(GenerationBody):
    """The body of /v1/messages."""

    messages: list[_Message] = Field(min_length=1)
    system: str | list[TextPart] | None = None
    max_tokens: int = Field(ge=1)
    stop_sequences: list[str] | None = None
    tools: list[dict[str, Any]] | None = None

    @property
    def stops(self) -> tuple[str, ...]:
        """Return the stop strings."""
        return tuple(self.stop_sequences or ())

    def conversation(self) -> tuple[Message, ...]:
        """Return the conversation as the template takes it."""
        system = joined(self.system)
        start = [Message("system", system)] if system else []
        return (*start, *(one for message in self.messages for one in message.messages()))

    def chat_tools(self) -> tuple[dict[str, Any], ...]:
        """Return the tools as a chat names them, whose template is used."""
        return tuple({"type": "function", "function": _function(tool)} for tool in self.tools or ())


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    function = {key: tool[key] for key in ("name", "description") if key in tool}
    return function | {"parameters": tool.get("input_schema", {})}


def refusal_body(refusal: Refusal) -> dict[str, Any]:
    """Return a refusal in the form that Anthropic's clients know."""
    error = refusal.body["error"]
    kinds = {404: "not_found_error", 500: "api_error"}
    return {
        "type": "error",
        "error": {"type": kinds.get(refusal.status, "invalid_request_error"), "message": error["message"]},
    }


def _whole(reply: Reply) -> dict[str, Any]:
    choice = reply.choices[0]
    blocks = [_content(choice, block, block_text(choice.output, block)) for block in choice.blocks]
    reason = _STOP_REASONS.get(choice.output.finish_reason, "end_turn")
    return _message(reply, blocks, stop_reason=reason, output_tokens=choice.generation.generated)


def _message(
    reply: Reply, content: list[dict[str, Any]], *, stop_reason: str | None, output_tokens: int
) -> dict[str, Any]:
    cached = reply.choices[0].generation.cached_tokens
    return {
        "id": f"msg_{reply.id}",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {
            "input_tokens": reply.prompt_tokens - cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": cached,
            "output_tokens": output_tokens,
        },
    }


def _content(choice: Choice, block: Block, text: str) -> dict[str, Any]:
    """Return a block with its text, or as it begins where that is empty."""
    match block.kind:
        case "reasoning":
            return {"type": "thinking", "thinking": text, "signature": ""}
        case "text":
            return {"type": "text", "text": text}
        case "tool":
            name = choice.output.text("tool_name", tool=block.tool)
            return {"type": "tool_use", "id": choice.tool_ids[block.tool], "name": name, "input": _arguments(text)}


def _arguments(text: str) -> Any:
    try:
        return orjson.loads(text or "{}")
    except orjson.JSONDecodeError:  # cut by the limit of the request
        return {}


def _chunks(reply: Reply, choice: Choice, first: int, end: int) -> list[bytes]:
    events: list[bytes] = []
    if first == 0:
        message = _message(reply, [], stop_reason=None, output_tokens=1)
        events.append(named_event({"type": "message_start", "message": message}))
    for step, block, text in steps(choice.output, choice.blocks, first, end):
        events.append(named_event(_block_event(choice, step, block, text)))
    return events


def _block_event(choice: Choice, step: str, block: Block, text: str) -> dict[str, Any]:
    if step == "open":
        content = _content(choice, block, "")
        return {"type": "content_block_start", "index": block.index, "content_block": content}
    if step == "close":
        return {"type": "content_block_stop", "index": block.index}
    kind, key = _DELTAS[block.kind]
    return {"type": "content_block_delta", "index": block.index, "delta": {"type": kind, key: text}}


_DELTAS = {
    "reasoning": ("thinking_delta", "thinking"),
    "text": ("text_delta", "text"),
    "tool": ("input_json_delta", "partial_json"),
}


def _ending(reply: Reply, *, include_usage: bool) -> bytes:
    whole = _whole(reply)
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    usage = {"output_tokens": whole["usage"]["output_tokens"]}
    end = named_event({"type": "message_delta", "delta": delta, "usage": usage})
    return end + named_event({"type": "message_stop"})


MESSAGES_FORM = Form(_whole, _chunks, _ending)
