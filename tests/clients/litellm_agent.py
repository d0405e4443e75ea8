"""LiteLLM: completions by hand, streamed and not, two at the same time, a cancelled stream, a retry."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it asks the network for prices when it is imported

import errand
import litellm

OPTIONS: dict[str, Any] = {
    "model": f"openai/{errand.MODEL}",
    "api_key": errand.KEY,
    "extra_headers": errand.HEADERS,
}
TOOLS: Any = [{"type": "function", "function": function} for function in errand.functions()]


def converse() -> list[Any]:
    """Ask until no tool is wanted any more."""
    messages: list[Any] = [
        {"role": "system", "content": errand.SYSTEM},
        {"role": "user", "content": errand.QUESTION},
    ]
    while True:
        message = litellm.completion(messages=messages, tools=TOOLS, **OPTIONS).choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return messages
        for call in message.tool_calls:
            told = errand.TOOLS[call.function.name](**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": told})


async def streamed(messages: list[Any], **options: Any) -> str:
    """Return a streamed answer."""
    chunks = await litellm.acompletion(messages=messages, stream=True, tools=TOOLS, **OPTIONS, **options)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices])


async def leave() -> None:
    """Leave a stream after a few pieces."""
    messages = [{"role": "user", "content": errand.LONG_QUESTION}]
    chunks = await litellm.acompletion(messages=messages, stream=True, **OPTIONS)
    for _ in range(5):
        await anext(chunks)
    await chunks.aclose()


async def rest(messages: list[Any]) -> None:
    await streamed([*messages, {"role": "user", "content": "And what of tomorrow?"}])
    await asyncio.gather(
        *(streamed([messages[0], {"role": "user", "content": question}]) for question in errand.SIDE_QUESTIONS)
    )
    refused = [{"role": "user", "content": errand.REFUSED_QUESTION}]
    await litellm.acompletion(messages=refused, num_retries=2, **OPTIONS)
    await leave()


asyncio.run(rest(converse()))
