"""The anthropic client: messages, streamed and not, with a moving cache mark, token counting, a cancelled stream."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import errand
from anthropic import AsyncAnthropic

client = AsyncAnthropic(
    base_url=os.environ.get("ANTHROPIC_BASE_URL") or errand.BASE_URL.removesuffix("/v1"),
    api_key=errand.KEY,
    default_headers=errand.HEADERS,
    default_query=errand.QUERY,
)
TOOLS: Any = [
    {"name": name, "description": tool.__doc__, "input_schema": errand.PARAMETERS}
    for name, tool in errand.TOOLS.items()
]
OPTIONS: Any = {"model": errand.MODEL, "max_tokens": 1_000, "system": errand.SYSTEM, "tools": TOOLS}


def marked(messages: list[Any]) -> list[Any]:
    """Return the messages with a cache mark on the last block, as agents move it along."""
    *before, last = messages
    blocks = last["content"] if isinstance(last["content"], list) else [{"type": "text", "text": last["content"]}]
    blocks = [*blocks[:-1], {**blocks[-1], "cache_control": {"type": "ephemeral"}}]
    return [*before, {**last, "content": blocks}]


async def converse() -> list[Any]:
    """Ask until no tool is wanted any more, streamed and not in turn."""
    messages: list[Any] = [{"role": "user", "content": errand.QUESTION}]
    await client.messages.count_tokens(model=errand.MODEL, system=errand.SYSTEM, tools=TOOLS, messages=messages)
    while True:
        if len(messages) % 4 == 1:
            answer = await client.messages.create(messages=marked(messages), **OPTIONS)
        else:
            async with client.messages.stream(messages=marked(messages), **OPTIONS) as stream:
                answer = await stream.get_final_message()
        messages.append(
            {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]}
        )
        if answer.stop_reason != "tool_use":
            return messages
        messages.append(
            {"role": "user", "content": [result(block) for block in answer.content if block.type == "tool_use"]}
        )


def result(block: Any) -> dict[str, Any]:
    told = errand.TOOLS[block.name](**block.input)
    return {"type": "tool_result", "tool_use_id": block.id, "content": told}


async def side(question: str) -> None:
    async with client.messages.stream(messages=[{"role": "user", "content": question}], **OPTIONS) as stream:
        await stream.get_final_message()


async def leave() -> None:
    """Leave a stream after a few pieces."""
    messages = [{"role": "user", "content": errand.LONG_QUESTION}]
    async with client.messages.stream(model=errand.MODEL, max_tokens=30_000, messages=messages) as stream:
        pieces = aiter(stream.text_stream)
        for _ in range(5):
            await anext(pieces)


async def main() -> None:
    messages = await converse()
    await client.messages.create(messages=[*messages, {"role": "user", "content": "And what of tomorrow?"}], **OPTIONS)
    await asyncio.gather(*(side(question) for question in errand.SIDE_QUESTIONS))
    refused = [{"role": "user", "content": errand.REFUSED_QUESTION}]
    await client.messages.create(model=errand.MODEL, max_tokens=1000, messages=refused)
    await leave()


asyncio.run(main())
