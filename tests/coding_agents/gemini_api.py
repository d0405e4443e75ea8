"""Gemini's generateContent for the scripted server: its body and its answer, whole or in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
from pydantic import Field

from rotoscope.replayer.simulator.blocks import Block, block_text, steps
from rotoscope.replayer.simulator.model import Message, ToolCall
from rotoscope.replayer.simulator.responses import Choice, Form, Reply, event
from rotoscope.replayer.simulator.wire import Body, GenerationBody

_FINISH_REASONS = {"length": "MAX_TOKENS"}


class _Call(Body):
    name: str
    args: dict[str, Any] = Field(default_factory=dict)
    id: str = ""

    def call(self) -> ToolCall:
        return ToolCall(self.name, orjson.dumps(self.args).decode(), self.id)


class _Result(Body):
    name: str
    response: dict[str, Any] = Field(default_factory=dict)
    id: str = ""


class _Part(Body):
    text: str = ""
    thought: bool = False
    functionCall: _Call | None = None
    functionResponse: _Result | None = None


class _Content(Body):
    role: str = "user"
    parts: list[_Part] = Field(default_factory=list)

    def messages(self) -> Iterator[Message]:
        """Yield results of tools, each as a message of its own, then what is said."""
        for part in self.parts:
            if (result := part.functionResponse) is not None:
                yield Message("tool", orjson.dumps(result.response).decode(), tool_call_id=result.id)
        text = "".join(part.text for part in self.parts if not part.thought)
        calls = tuple(part.functionCall.call() for part in self.parts if part.functionCall)
        if text or calls:
            yield Message("assistant" if self.role == "model" else self.role, text, calls)


class _Settings(Body):
    maxOutputTokens: int | None = None


class GeminiBody(GenerationBody):
    """The body of :generateContent and :streamGenerateContent."""

    contents: list[_Content] = Field(min_length=1)
    systemInstruction: _Content | None = None
    tools: list[dict[str, Any]] | None = None
    generationConfig: _Settings = Field(default_factory=_Settings)

    @property
    def output_tokens(self) -> int | None:
        """Return the most tokens to generate."""
        return self.generationConfig.maxOutputTokens

    def conversation(self) -> tuple[Message, ...]:
        """Return the conversation as the template takes it."""
        system = "".join(part.text for part in self.systemInstruction.parts) if self.systemInstruction else ""
        start = [Message("system", system)] if system else []
        return (*start, *(one for content in self.contents for one in content.messages()))

    def chat_tools(self) -> tuple[dict[str, Any], ...]:
        """Return the functions as a chat names them, whose template is used."""
        declared = (function for tool in self.tools or () for function in tool.get("functionDeclarations", ()))
        return tuple({"type": "function", "function": _function(function)} for function in declared)


def _function(declared: dict[str, Any]) -> dict[str, Any]:
    function = {key: declared[key] for key in ("name", "description") if key in declared}
    return function | {"parameters": declared.get("parametersJsonSchema") or declared.get("parameters") or {}}


def _whole(reply: Reply) -> dict[str, Any]:
    choice = reply.choices[0]
    return _body(
        reply, [_part(choice, block, block_text(choice.output, block)) for block in choice.blocks], is_end=True
    )


def _body(reply: Reply, parts: list[dict[str, Any]], *, is_end: bool = False) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
    if is_end:
        candidate["finishReason"] = _FINISH_REASONS.get(reply.choices[0].output.finish_reason, "STOP")
    return {
        "candidates": [candidate],
        "usageMetadata": _usage(reply),
        "modelVersion": reply.model,
        "responseId": reply.id,
    }


def _usage(reply: Reply) -> dict[str, Any]:
    usage = reply.usage()
    thoughts = min(reply.choices[0].output.reasoning_tokens, usage["completion_tokens"])
    return {
        "promptTokenCount": usage["prompt_tokens"],
        "cachedContentTokenCount": usage["prompt_tokens_details"]["cached_tokens"],
        "candidatesTokenCount": usage["completion_tokens"] - thoughts,
        "thoughtsTokenCount": thoughts,
        "totalTokenCount": usage["total_tokens"],
    }


def _part(choice: Choice, block: Block, text: str) -> dict[str, Any]:
    match block.kind:
        case "reasoning":
            return {"text": text, "thought": True}
        case "text":
            return {"text": text}
        case "tool":
            name = choice.output.text("tool_name", tool=block.tool)
            return {
                "functionCall": {"id": choice.tool_ids[block.tool], "name": name, "args": orjson.loads(text or "{}")}
            }


def _chunks(reply: Reply, choice: Choice, first: int, end: int) -> list[bytes]:
    """Return an event for each piece of text, and for each tool call when it is complete."""
    parts = [
        _part(choice, block, block_text(choice.output, block) if block.kind == "tool" else text)
        for step, block, text in steps(choice.output, choice.blocks, first, end)
        if step == ("close" if block.kind == "tool" else "piece")
    ]
    return [event(_body(reply, [part])) for part in parts]


def _ending(reply: Reply, *, include_usage: bool) -> bytes:
    return event(_body(reply, [], is_end=True))


GEMINI_FORM = Form(_whole, _chunks, _ending)
