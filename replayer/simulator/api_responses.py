"""OpenAI's `/v1/responses` on the simulator: its body and its answer; nothing is stored between requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, model_validator

from rotoscope.replayer.simulator.blocks import Block, block_text, steps
from rotoscope.replayer.simulator.model import Message, ToolCall
from rotoscope.replayer.simulator.responses import FINGERPRINT, Choice, Form, Reply, named_event
from rotoscope.replayer.simulator.wire import Body, ContentPart, GenerationBody, Refusal, joined


class _Item(Body):
    """One item of the input: a message, a tool call, its result, or reasoning, which the template drops."""

    type: Literal["message", "function_call", "function_call_output", "reasoning"] = "message"
    role: Literal["system", "developer", "user", "assistant"] = "user"
    content: str | list[ContentPart] | None = None
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: str | list[ContentPart] = ""

    @model_validator(mode="before")
    @classmethod
    def _forget_thinking(cls, item: Any) -> Any:
        """Take any reasoning: clients send it back with whatever parts it came in, and nothing of it is read."""
        return {"type": "reasoning"} if isinstance(item, dict) and item.get("type") == "reasoning" else item

    def message(self) -> Message | None:
        match self.type:
            case "message":
                return Message(self.role, joined(self.content))
            case "function_call":
                return Message("assistant", tool_calls=(ToolCall(self.name, self.arguments, self.call_id),))
            case "function_call_output":
                return Message("tool", joined(self.output), tool_call_id=self.call_id)
            case "reasoning":
                return None


class ResponsesBody(GenerationBody):
    """The body of /v1/responses."""

    input: str | list[_Item] = Field(min_length=1)
    instructions: str | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    tools: list[dict[str, Any]] | None = None
    previous_response_id: str | None = None

    @property
    def output_tokens(self) -> int | None:
        """Return the most tokens to generate."""
        return self.max_output_tokens

    def messages(self) -> tuple[Message, ...]:
        """Return the conversation; consecutive tool calls belong to one answer."""
        if self.previous_response_id is not None:
            raise Refusal("previous_response_id: nothing is stored here, send the whole input", param="input")
        items = [_Item(content=self.input)] if isinstance(self.input, str) else self.input
        messages = [message for item in items if (message := item.message())]
        start = [Message("system", self.instructions)] if self.instructions else []
        return tuple(_gathered([*start, *messages]))

    def chat_tools(self) -> tuple[dict[str, Any], ...]:
        """Return the tools as a chat names them, whose template is used."""
        return tuple({"type": "function", "function": _without_type(tool)} for tool in self.tools or ())


def _without_type(tool: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in tool.items() if key != "type"}


def _gathered(messages: list[Message]) -> Iterator[Message]:
    """Put tool calls into the answer that they follow."""
    last: Message | None = None
    for message in messages:
        if last and last.role == message.role == "assistant" and message.tool_calls and not message.content:
            last = Message("assistant", last.content, last.tool_calls + message.tool_calls)
            continue
        if last:
            yield last
        last = message
    if last:
        yield last


def _whole(reply: Reply) -> dict[str, Any]:
    choice = reply.choices[0]
    items = [_item(reply, block, done=True) for block in choice.blocks]
    return _response(reply, "incomplete" if choice.output.finish_reason == "length" else "completed", items)


def _response(reply: Reply, status: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    is_over = status != "in_progress"
    return {
        "id": f"resp_{reply.id}",
        "object": "response",
        "created_at": reply.created,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "model": reply.model,
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "store": False,
        "system_fingerprint": FINGERPRINT,
        "usage": _usage(reply) if is_over else None,
    }


def _usage(reply: Reply) -> dict[str, Any]:
    usage = reply.usage()
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": usage["prompt_tokens_details"],
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": usage["completion_tokens_details"],
        "total_tokens": usage["total_tokens"],
    }


def _item(reply: Reply, block: Block, *, done: bool) -> dict[str, Any]:
    choice = reply.choices[0]
    text = block_text(choice.output, block) if done else ""
    status = "completed" if done else "in_progress"
    match block.kind:
        case "reasoning":
            content = [{"type": "reasoning_text", "text": text}] if done else []
            return {"id": _item_id(reply, block), "type": "reasoning", "summary": [], "content": content}
        case "text":
            parts = [_text_part(text)] if done else []
            role = {"role": "assistant", "status": status, "content": parts}
            return {"id": _item_id(reply, block), "type": "message", **role}
        case "tool":
            name = choice.output.text("tool_name", tool=block.tool)
            call = {"call_id": choice.tool_ids[block.tool], "name": name, "arguments": text}
            return {"id": _item_id(reply, block), "type": "function_call", "status": status, **call}


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": []}


def _item_id(reply: Reply, block: Block) -> str:
    return f"item_{reply.id}_{block.index}"


def _chunks(reply: Reply, choice: Choice, first: int, end: int) -> list[bytes]:
    events: list[bytes] = []
    if first == 0:
        begun = _response(reply, "in_progress", [])
        events = [_event(reply, kind, response=begun) for kind in ("response.created", "response.in_progress")]
    for step, block, text in steps(choice.output, choice.blocks, first, end):
        if step == "open":
            events += _opening(reply, block)
        elif step == "piece":
            events.append(_event(reply, f"response.{_DELTAS[block.kind]}.delta", **_place(reply, block), delta=text))
        else:
            events += _closing(reply, block)
    return events


_DELTAS = {"reasoning": "reasoning_text", "text": "output_text", "tool": "function_call_arguments"}


def _opening(reply: Reply, block: Block) -> Iterator[bytes]:
    item = _item(reply, block, done=False)
    yield _event(reply, "response.output_item.added", output_index=block.index, item=item)
    if block.kind == "text":
        yield _event(reply, "response.content_part.added", **_place(reply, block), part=_text_part(""))


def _closing(reply: Reply, block: Block) -> Iterator[bytes]:
    text = block_text(reply.choices[0].output, block)
    key = "arguments" if block.kind == "tool" else "text"
    yield _event(reply, f"response.{_DELTAS[block.kind]}.done", **_place(reply, block), **{key: text})
    if block.kind == "text":
        yield _event(reply, "response.content_part.done", **_place(reply, block), part=_text_part(text))
    item = _item(reply, block, done=True)
    yield _event(reply, "response.output_item.done", output_index=block.index, item=item)


def _place(reply: Reply, block: Block) -> dict[str, Any]:
    place = {"item_id": _item_id(reply, block), "output_index": block.index}
    return place if block.kind == "tool" else place | {"content_index": 0}


def _ending(reply: Reply, *, include_usage: bool) -> bytes:
    whole = _whole(reply)
    return _event(reply, f"response.{whole['status']}", response=whole)


def _event(reply: Reply, kind: str, **fields: Any) -> bytes:
    return named_event({"type": kind, "sequence_number": next(reply.numbers), **fields})


RESPONSES_FORM = Form(_whole, _chunks, _ending)
