"""The OpenAI Agents SDK with its own tracing, which an instrumentation brings to spans: agents side by side, with tools."""

from __future__ import annotations

import asyncio

import errand
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, trace
from openai import AsyncOpenAI

client = AsyncOpenAI(api_key=errand.KEY, default_headers=errand.HEADERS, default_query=errand.QUERY)
RESPONSES = OpenAIResponsesModel(model=errand.MODEL, openai_client=client)
CHAT = OpenAIChatCompletionsModel(model=errand.MODEL, openai_client=client)
TOOLS = [function_tool(function) for function in errand.TOOLS.values()]


def agent(model: object, name: str) -> Agent:
    return Agent(name=name, instructions=errand.SYSTEM, model=model, tools=TOOLS)


async def main() -> None:
    with trace("an errand"):
        done = await Runner.run(agent(RESPONSES, "guide"), errand.QUESTION)
        await Runner.run(
            agent(RESPONSES, "guide"), [*done.to_input_list(), {"role": "user", "content": "And what of tomorrow?"}]
        )
        sides = [agent(CHAT, f"side{number}") for number in range(len(errand.SIDE_QUESTIONS))]
        await asyncio.gather(
            *(Runner.run(side, question) for side, question in zip(sides, errand.SIDE_QUESTIONS, strict=True))
        )


asyncio.run(main())
