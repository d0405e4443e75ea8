"""The openai client: chat completions and responses, streamed and not, embeddings, a cancelled stream, a retry."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import errand
from openai import AsyncOpenAI

client = AsyncOpenAI(api_key=errand.KEY, default_headers=errand.HEADERS, default_query=errand.QUERY)
TOOLS: Any = [{"type": "function", "function": function} for function in errand.functions()]


async def converse() -> list[Any]:
    """Ask until no tool is wanted any more, then ask once more, streamed."""
    messages: list[Any] = [
        {"role": "system", "content": errand.SYSTEM},
        {"role": "user", "content": errand.QUESTION},
    ]
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
    messages.append({"role": "assistant", "content": await streamed(messages)})
    return messages


async def streamed(messages: list[Any], **options: Any) -> str:
    """Return a streamed answer."""
    chunks = await client.chat.completions.create(
        model=errand.MODEL, messages=messages, tools=TOOLS, stream=True, **options
    )
    return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks if chunk.choices])


async def respond() -> None:
    """Ask by responses until no tool is wanted any more: the server keeps the history, and only what is new is sent."""
    tools: Any = [{"type": "function", **function} for function in errand.functions()]
    sent: Any = errand.QUESTION
    before = None
    while sent:
        answer = await client.responses.create(
            model=errand.MODEL, instructions=errand.SYSTEM, tools=tools, input=sent, previous_response_id=before
        )
        before = answer.id
        sent = [
            {"type": "function_call_output", "call_id": item.call_id, "output": use(item.name, item.arguments)}
            for item in answer.output
            if item.type == "function_call"
        ]
    stream = await client.responses.create(
        model=errand.MODEL, input="And what of tomorrow?", previous_response_id=before, stream=True
    )
    async for _ in stream:
        pass


async def twin(name: str, *, after_s: float = 0.0) -> None:
    """Hold a conversation that another one equals to the letter; a header tells them apart."""
    await asyncio.sleep(after_s)
    headers = {"x-rotoscope-branch": f"{name} {errand.IN_HEADER}"}
    messages: list[Any] = [{"role": "user", "content": errand.TWIN_QUESTION}]
    for _ in range(2):
        answer = await client.chat.completions.create(model=errand.MODEL, messages=messages, extra_headers=headers)
        said = {"role": "assistant", "content": answer.choices[0].message.content}
        messages += [said, {"role": "user", "content": "Are you sure?"}]


def use(name: str, arguments: str) -> str:
    return errand.TOOLS[name](**json.loads(arguments))


async def leave() -> None:
    """Leave a stream after a few pieces."""
    chunks = await client.chat.completions.create(
        model=errand.MODEL, messages=[{"role": "user", "content": errand.LONG_QUESTION}], stream=True
    )
    async with chunks:
        for _ in range(5):
            await anext(chunks)


async def main() -> None:
    messages = await converse()
    await asyncio.gather(
        *(streamed([messages[0], {"role": "user", "content": question}]) for question in errand.SIDE_QUESTIONS)
    )
    await streamed([*messages, {"role": "user", "content": "Thank you."}], stream_options={"include_usage": True})
    await client.chat.completions.create(
        model=errand.MODEL, messages=[{"role": "user", "content": errand.REFUSED_QUESTION}]
    )
    await respond()
    await asyncio.gather(twin("left"), twin("right", after_s=errand.APART_S))
    await leave()
    await client.completions.create(model=errand.MODEL, prompt=f"The Leie ends in {errand.IN_USER}", max_tokens=8)
    await client.embeddings.create(model=errand.MODEL, input=[errand.QUESTION, errand.SYSTEM])


asyncio.run(main())
