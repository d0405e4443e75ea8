"""CrewAI: a crew of two tasks, then two tasks at the same time; a retry; a stream."""

from __future__ import annotations

import os

os.environ |= {"OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false", "CREWAI_DISABLE_TELEMETRY": "true"}

import errand
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool


def model(*, stream: bool) -> LLM:
    return LLM(
        model=f"openai/{errand.MODEL}",
        base_url=errand.BASE_URL,  # without it a model that CrewAI does not know by name is refused
        api_key=errand.KEY,
        stream=stream,
        default_headers=errand.HEADERS,
        default_query=errand.QUERY,
    )


TOOLS = [tool(function) for function in errand.TOOLS.values()]


def guide(*, stream: bool) -> Agent:
    return Agent(
        role="guide",
        goal="answer questions about towns",
        backstory=errand.SYSTEM,
        llm=model(stream=stream),
        tools=TOOLS,
        max_iter=6,
    )


def task(question: str, agent: Agent, *, alongside: bool = False) -> Task:
    return Task(description=question, expected_output="one sentence", agent=agent, async_execution=alongside)


def main() -> None:
    one = guide(stream=False)
    Crew(agents=[one], tasks=[task(errand.QUESTION, one), task("And what of tomorrow?", one)]).kickoff()
    sides = [guide(stream=True) for _ in errand.SIDE_QUESTIONS]
    tasks = [task(question, side, alongside=True) for question, side in zip(errand.SIDE_QUESTIONS, sides, strict=True)]
    Crew(agents=[*sides, one], tasks=[*tasks, task("Sum it up.", one)]).kickoff()
    model(stream=False).call(errand.REFUSED_QUESTION)


main()
