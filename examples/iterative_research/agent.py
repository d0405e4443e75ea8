"""Iterative research: each round's prompt is made of the report so far, the last tool call and what it returned.

Nothing else is carried over, so that the prompt stays short however many rounds there are. The model writes the report
anew in each round, and ends by calling no tool.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from examples import chat, tasks
from examples.chat import Ask, ToolCall, conversation
from examples.corpus.tools import read, search
from examples.toolbox import Toolbox
from rotoscope import trace_agent

HERE = Path(__file__).parent
REPORT_LIMIT = 12_000
"""Characters of the report that are carried over, as the system prompt says."""
OBSERVATION_LIMIT = 8_000


@dataclass
class Memory:
    """All that is known between two rounds."""

    question: str
    report: str = ""
    action: str = ""
    """The last call, empty before the first one."""
    observation: str = ""
    looked_up: bool = False
    """Whether any call returned something."""

    def prompt(self, number: int, rounds: int) -> str:
        """Return what the model sees in a round."""
        return "\n\n".join(
            [
                f"Round {number} of {rounds}" + ("; this is the last one." if number == rounds else "."),
                f"# Question\n\n{self.question}",
                f"# Report so far\n\n{self.report or 'There is none yet.'}",
                f"# Last call\n\n{self.action or 'There was none yet.'}",
                f"# What it returned\n\n{self.observation or 'Nothing.'}",
            ]
        )


@trace_agent
async def iterative_research(ask: Ask, question: str, *, rounds: int) -> Memory:
    """Research a question in at most so many rounds; return what is known in the end."""
    tools = Toolbox(search, read)
    memory = Memory(question)
    for number in range(1, rounds + 1):
        messages = conversation(HERE / "system.md", memory.prompt(number, rounds))
        answer = await ask(messages, tools.schemas if number < rounds else ())
        memory.report = answer.text.strip()[:REPORT_LIMIT] or memory.report
        call = next(iter(answer.calls.values()), None)
        told(number, memory, call)
        if call is None or number == rounds:
            break
        memory.action = f"{call.name} {call.arguments}"[:OBSERVATION_LIMIT]
        memory.observation = str((await tools.call(call))["content"])[:OBSERVATION_LIMIT]
        memory.looked_up |= not memory.observation.startswith("error:")
    return memory


def told(number: int, memory: Memory, call: ToolCall | None) -> None:
    """Show a round in a line."""
    did = f"{call.name} {call.arguments}" if call else "no call"
    print(f"round {number}: {len(memory.report.split())} words; {did[:90]}", flush=True)


async def run(options: argparse.Namespace) -> int:
    async with chat.connected(options) as ask:
        memory = await iterative_research(ask, options.task["question"], rounds=options.rounds)
    print(f"\n{memory.report}")
    if not memory.report or not memory.looked_up:
        missing = "wrote no report" if memory.looked_up else "looked nothing up"
        print(f"that is no result: the model {missing}", file=sys.stderr)
        return 1
    return 0


@chat.agent
def main(arguments: Sequence[str] | None = None) -> int:
    """Research a task and print the report; return 0 when there is one for which something was looked up, else 1."""
    return asyncio.run(run(parse_options(arguments)))


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.iterative_research",
        description="Research a question round by round with a model behind OPENAI_BASE_URL (key: OPENAI_API_KEY).",
    )
    tasks.add_option(parser, HERE)
    chat.add_options(parser)
    parser.add_argument("--rounds", type=chat.at_least_one, default=16, help="most rounds (default: %(default)s)")
    return parser.parse_args(arguments)
