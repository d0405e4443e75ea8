"""The openai client through Langfuse's wrapper, below observations of an agent, its sub-agents and its tools."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import errand
from langfuse import observe, propagate_attributes
from langfuse.openai import AsyncOpenAI

client = AsyncOpenAI(api_key=errand.KEY, default_headers=errand.HEADERS, default_query=errand.QUERY)
TOOLS: Any = [{"type": "function", "function": function} for function in errand.functions()]


@observe(as_type="tool")
def use(name: str, arguments: str) -> str:
    return errand.TOOLS[name](**json.loads(arguments))


@observe(as_type="agent")
async def converse(question: str) -> None:
    """Ask until no tool is wanted any more, then ask once more, streamed."""
    messages: list[Any] = [{"role": "system", "content": errand.SYSTEM}, {"role": "user", "content": question}]
    while True:
        answer = await client.chat.completions.create(model=errand.MODEL, messages=messages, tools=TOOLS)
        message = answer.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            told = use(call.function.name, call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": told})
    messages.append({"role": "user", "content": "And what of tomorrow?"})
    chunks = await client.chat.completions.create(
        model=errand.MODEL, messages=messages, tools=TOOLS, stream=True, stream_options={"include_usage": True}
    )
    async for _ in chunks:
        pass


@observe()
async def main() -> None:
    with propagate_attributes(session_id=f"a session of {errand.IN_USER}"):
        await converse(errand.QUESTION)
        await asyncio.gather(*(converse(question) for question in errand.SIDE_QUESTIONS))
        await client.responses.create(model=errand.MODEL, input=errand.TWIN_QUESTION)
        await client.embeddings.create(model=errand.MODEL, input=[errand.QUESTION])


asyncio.run(main())
