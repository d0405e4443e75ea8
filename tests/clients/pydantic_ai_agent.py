"""Pydantic AI: an agent with two tools, two runs at the same time, streamed and not, a cancelled stream, a retry."""

from __future__ import annotations

import asyncio

import errand
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

client = AsyncOpenAI(api_key=errand.KEY, default_headers=errand.HEADERS, default_query=errand.QUERY)
model = OpenAIChatModel(errand.MODEL, provider=OpenAIProvider(openai_client=client))
agent = Agent(model, system_prompt=errand.SYSTEM, tools=list(errand.TOOLS.values()))
plain = Agent(model)


async def streamed(question: str, history: list[object] | None = None) -> str:
    """Return a streamed answer."""
    async with agent.run_stream(question, message_history=history) as result:
        return await result.get_output()


async def leave() -> None:
    """Leave a stream after a few pieces."""
    async with plain.run_stream(errand.LONG_QUESTION) as result:
        pieces = result.stream_text(delta=True, debounce_by=None)
        for _ in range(5):
            await anext(pieces)


async def main() -> None:
    done = await agent.run(errand.QUESTION)
    await streamed("And what of tomorrow?", done.all_messages())
    await asyncio.gather(*(streamed(question) for question in errand.SIDE_QUESTIONS))
    await plain.run(errand.REFUSED_QUESTION)
    await leave()


asyncio.run(main())
