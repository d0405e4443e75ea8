"""Deep research: a supervisor turns a question into a brief, sends out researchers, and a report is written of it all.

Each researcher has a conversation of its own with the model, searches and reads in it, and returns its findings in a few
paragraphs; the supervisor sees those and nothing else. Researchers of one delegation work at the same time.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from examples import chat, tasks
from examples.chat import Ask, conversation
from examples.corpus.tools import read, search
from examples.toolbox import Toolbox
from rotoscope import parallel, trace_agent

HERE = Path(__file__).parent
RESEARCHER_STEPS = 6
"""Answers that a researcher may call tools in."""
SUPERVISOR_STEPS = 6
MOST_TOPICS = 5
"""Researchers at the same time."""
MOST_RESEARCHERS = 20
"""In all, whatever the model delegates."""
GO_ON = "Call `delegate` to have something researched, or `finish` when nothing is missing."


@trace_agent
async def deep_research(ask: Ask, question: str) -> str:
    """Answer a question by a report; it is empty when nothing was found or the model wrote none."""
    brief = await write(ask, "brief", question)
    supervisor = Supervisor(ask)
    await supervisor.lead(brief)
    if not supervisor.findings:
        return ""
    return await write(ask, "report", "\n\n".join([f"Question: {question}", brief, *supervisor.findings]))


@dataclass
class Supervisor:
    """What leads the research; its public methods but `lead` are the model's tools."""

    ask: Ask
    findings: list[str] = field(default_factory=list)
    researchers: int = 0
    """How many were sent out."""
    finished: bool = False

    async def lead(self, brief: str) -> None:
        """Let the model delegate until it says that nothing is missing, or its steps are used up."""
        tools = Toolbox(self.delegate, self.finish)
        messages = conversation(HERE / "supervisor.md", brief)
        for _ in range(SUPERVISOR_STEPS):
            answer = await self.ask(messages, tools.schemas)
            messages.append(answer.message())
            told("supervisor", answer)
            messages += [await tools.call(call) for call in answer.calls.values()]
            if self.finished:
                return
            if not answer.calls:
                messages.append({"role": "user", "content": GO_ON})

    async def delegate(
        self,
        topics: Annotated[list[str], f"What to find out, one topic for each researcher, at most {MOST_TOPICS}."],
    ) -> str:
        """Send out one researcher for each topic, all at the same time, and return what they found.

        A researcher knows nothing but the topic, so each topic names its subject, what is to be found out about it, and
        the conditions that hold. The findings come in the order of the topics, with sources and with what was left open.
        """
        topics = [topic for topic in topics if topic.strip()]
        if not 1 <= len(topics) <= MOST_TOPICS:
            raise ValueError(f"there have to be between 1 and {MOST_TOPICS} topics, not {len(topics)}")
        if self.researchers + len(topics) > MOST_RESEARCHERS:
            raise ValueError("there are findings enough: call `finish`")
        self.researchers += len(topics)
        with parallel("research") as fan:

            async def one(topic: str) -> str:
                with fan.branch("researcher"):
                    return await research(self.ask, topic)

            found = await asyncio.gather(*map(one, topics))
        self.findings += filter(None, found)
        return "\n\n".join(
            findings or f"Topic: {topic}\n\nNothing." for topic, findings in zip(topics, found, strict=True)
        )

    def finish(self, reason: Annotated[str, "Why nothing is missing, in a sentence."]) -> str:
        """Say that the research is done; the report is written next."""
        self.finished = True
        return reason


@trace_agent(name="researcher")
async def research(ask: Ask, topic: str) -> str:
    """Search and read for one topic, as often as the model wants to; return the findings, empty if nothing was tried."""
    tools = Toolbox(search, read)
    messages = conversation(HERE / "researcher.md", topic)
    notes: list[str] = []
    for _ in range(RESEARCHER_STEPS):
        answer = await ask(messages, tools.schemas)
        messages.append(answer.message())
        told("researcher", answer)
        if not answer.calls:
            break
        for call in answer.calls.values():
            message = await tools.call(call)
            messages.append(message)
            notes.append(f"{call.name} {call.arguments}\n{message['content']}")
    return await write(ask, "compress", "\n\n".join([f"Topic: {topic}", *notes])) if notes else ""


async def write(ask: Ask, prompt: str, text: str) -> str:
    """Let the model write a text, with a prompt of its own and no tools."""
    answer = await ask(conversation(HERE / f"{prompt}.md", text))
    told(prompt, answer)
    return answer.text.strip()


def told(who: str, answer: chat.Answer) -> None:
    """Show what the model did, in a line."""
    calls = "; ".join(f"{call.name} {call.arguments}" for call in answer.calls.values())
    line = calls or f"{len(answer.text.split())} words"
    print(f"{who}: {line[:110]}", flush=True)


async def run(options: argparse.Namespace) -> int:
    async with chat.connected(options) as ask:
        report = await deep_research(ask, options.task["question"])
    if not report:
        print("there is no report: the model had nothing researched, or wrote nothing", file=sys.stderr)
        return 1
    print(f"\n{report}")
    return 0


@chat.agent
def main(arguments: Sequence[str] | None = None) -> int:
    """Research a task and print the report; return 0 when there is one, else 1."""
    return asyncio.run(run(parse_options(arguments)))


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.deep_research",
        description="Research a question with a model behind OPENAI_BASE_URL (key: OPENAI_API_KEY).",
    )
    tasks.add_option(parser, HERE)
    chat.add_options(parser)
    return parser.parse_args(arguments)
