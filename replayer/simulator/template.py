"""The simulator's chat template, after ChatML: `<|im_start|>role<|im_sep|>content<|im_end|>`, message after message.

Tools stand in the system message, one JSON object a line. A tool call is
`<|tool_call|>name<|tool_arguments|>arguments<|tool_call_end|>` with its arguments to the byte. Reasoning is never
rendered from history. Every border is a control token, so an answer sent back by the client has exactly the tokens
that were generated, and a conversation that grows keeps the tokens it had. An image is `images.IMAGE_TOKENS` tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from rotoscope.replayer.simulator.images import with_images
from rotoscope.replayer.simulator.model import Message, ToolCall
from rotoscope.replayer.simulator.tokenizer import END, SEPARATOR, START, TOOL_ARGUMENTS, TOOL_CALL, TOOL_CALL_END

GENERATION_PROMPT = f"{START}assistant{SEPARATOR}"

_SYSTEM_ROLES = ("system", "developer")


def render(
    messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = (), *, add_generation_prompt: bool = True
) -> str:
    """Return the prompt text of a conversation, control tokens spelled out."""
    parts = [_render_message(message) for message in _with_tools(messages, tools)]
    if add_generation_prompt:
        parts.append(GENERATION_PROMPT)
    return "".join(parts)


def _with_tools(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> list[Message]:
    if not tools:
        return list(messages)
    listing = "\n".join(["# Tools", *(orjson.dumps(tool).decode() for tool in tools)])
    if messages and messages[0].role in _SYSTEM_ROLES:
        return [Message("system", f"{messages[0].content}\n\n{listing}"), *messages[1:]]
    return [Message("system", listing), *messages]


def _render_message(message: Message) -> str:
    role = "system" if message.role in _SYSTEM_ROLES else message.role
    calls = "".join(map(_render_tool_call, message.tool_calls))
    return f"{START}{role}{SEPARATOR}{with_images(message.content)}{calls}{END}"


def _render_tool_call(call: ToolCall) -> str:
    return f"{TOOL_CALL}{call.name}{TOOL_ARGUMENTS}{call.arguments}{TOOL_CALL_END}"
