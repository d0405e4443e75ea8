"""AutoGen: an assistant that reflects on its tools, streamed and not, two at the same time, a cancelled stream."""

from __future__ import annotations

import asyncio

import errand
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ModelInfo, UserMessage
from autogen_ext.models.openai import OpenAIChatCompletionClient

client = OpenAIChatCompletionClient(
    model=errand.MODEL,
    api_key=errand.KEY,
    default_headers=errand.HEADERS,
    model_info=ModelInfo(
        vision=False, function_calling=True, json_output=True, structured_output=True, family="unknown"
    ),
)


def agent(name: str, *, stream: bool, **options: object) -> AssistantAgent:
    return AssistantAgent(
        name,
        client,
        tools=list(errand.TOOLS.values()),
        system_message=errand.SYSTEM,
        model_client_stream=stream,
        **options,
    )


async def leave() -> None:
    """Leave a stream after a few pieces."""
    stream = client.create_stream([UserMessage(content=errand.LONG_QUESTION, source="user")])
    for _ in range(5):
        await anext(stream)
    await stream.aclose()


async def main() -> None:
    one = agent("guide", stream=False, reflect_on_tool_use=True)
    await one.run(task=errand.QUESTION)
    await one.run(task="And what of tomorrow?")
    two = agent("walker", stream=True, max_tool_iterations=4, reflect_on_tool_use=False)
    async for _ in two.run_stream(task=errand.QUESTION):
        pass
    sides = [agent(f"side{number}", stream=False) for number in range(len(errand.SIDE_QUESTIONS))]
    await asyncio.gather(
        *(side.run(task=question) for side, question in zip(sides, errand.SIDE_QUESTIONS, strict=True))
    )
    await client.create([UserMessage(content=errand.REFUSED_QUESTION, source="user")])
    await leave()
    await client.close()


asyncio.run(main())
