"""smolagents: a tool-calling agent, streamed and not, two at the same time, a code agent, a retry."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

import errand
from smolagents import OpenAIModel, ToolCallingAgent, tool


@tool
def weather(town: str) -> str:
    """Tell the weather of a town.

    Args:
        town: Name of a town.
    """
    return errand.weather(town)


@tool
def population(town: str) -> str:
    """Tell how many people live in a town.

    Args:
        town: Name of a town.
    """
    return errand.population(town)


model = OpenAIModel(
    errand.MODEL,
    api_key=errand.KEY,
    client_kwargs={"default_headers": errand.HEADERS, "default_query": errand.QUERY},
)


def agent(*, stream: bool) -> ToolCallingAgent:
    return ToolCallingAgent(
        tools=[weather, population], model=model, instructions=errand.SYSTEM, stream_outputs=stream, max_steps=6
    )


def ask(question: str) -> object:
    return agent(stream=False).run(question)


def main() -> None:
    one = agent(stream=False)
    one.run(errand.QUESTION)
    one.run("And what of tomorrow?", reset=False)
    list(agent(stream=True).run(errand.QUESTION, stream=True))
    with ThreadPoolExecutor() as pool:
        list(pool.map(ask, errand.SIDE_QUESTIONS))
    model.generate([{"role": "user", "content": errand.REFUSED_QUESTION}])
    with contextlib.closing(model.generate_stream([{"role": "user", "content": errand.LONG_QUESTION}])) as stream:
        for _ in range(5):
            next(stream)


main()
