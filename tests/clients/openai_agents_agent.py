"""The OpenAI Agents SDK: by responses, which is its default, and by chat completions; streamed, side by side, a retry."""

from __future__ import annotations

import asyncio
import os

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

import errand
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool
from openai import AsyncOpenAI

client = AsyncOpenAI(api_key=errand.KEY, default_headers=errand.HEADERS, default_query=errand.QUERY)
RESPONSES = OpenAIResponsesModel(model=errand.MODEL, openai_client=client)
CHAT = OpenAIChatCompletionsModel(model=errand.MODEL, openai_client=client)
TOOLS = [function_tool(function) for function in errand.TOOLS.values()]


def agent(model: object, name: str = "guide") -> Agent:
    return Agent(name=name, instructions=errand.SYSTEM, model=model, tools=TOOLS)


def plain(model: object) -> Agent:
    return Agent(name="clock", model=model)


async def streamed(one: Agent, question: str) -> None:
    result = Runner.run_streamed(one, question)
    async for _ in result.stream_events():
        pass


async def leave(model: object) -> None:
    """Leave a stream after a few pieces."""
    result = Runner.run_streamed(plain(model), errand.LONG_QUESTION)
    seen = 0
    async for event in result.stream_events():
        seen += event.type == "raw_response_event"
        if seen == 8:
            result.cancel()


async def play(model: object) -> None:
    one = agent(model)
    done = await Runner.run(one, errand.QUESTION)
    await Runner.run(one, [*done.to_input_list(), {"role": "user", "content": "And what of tomorrow?"}])
    sides = [agent(model, f"side{number}") for number in range(len(errand.SIDE_QUESTIONS))]
    await asyncio.gather(
        *(streamed(side, question) for side, question in zip(sides, errand.SIDE_QUESTIONS, strict=True))
    )
    await leave(model)


async def main() -> None:
    await play(RESPONSES)
    await play(CHAT)
    await Runner.run(plain(RESPONSES), errand.REFUSED_QUESTION)


asyncio.run(main())
