"""An agent that answers a question from documents that it looks for, checks the answer, and looks again if need be.

1. plan: the model writes queries.
2. retrieve: all queries are searched for at the same time; what was found is read and graded, all at the same time.
3. answer: the model answers from the documents that are relevant, the earlier ones first.
4. check: it checks whether the documents support the answer and whether it is enough, and writes further queries if not;
   then it goes on with 2.

The final answer names a document behind each sentence. What it cites must have been read, and what is known of the
question must be in it.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from openai.types.chat import ChatCompletionMessageParam
from pydantic import BaseModel

from examples import tasks
from examples.chat import Ask, add_options, agent, at_least_one, connected
from examples.json_answers import json_in
from rotoscope import parallel, trace_agent

from .prompts import ANSWER, CHECK, FINISH, GRADE, PLAN
from .tools import read, search

HERE = Path(__file__).parent
QUERY_LIMIT = 4


class Plan(BaseModel):
    """What is looked for first."""

    queries: list[str] = []


class Grade(BaseModel):
    """Whether a document helps; one that cannot be told from the model's answer is kept."""

    relevant: bool = True


class Check(BaseModel):
    """What the model thinks of its answer."""

    supported: bool = False
    enough: bool = False
    queries: list[str] = []


@dataclass
class Researcher:
    """One question, and what was found for it."""

    ask: Ask
    question: str
    rounds: int
    """Times that it looks for documents, at most."""
    seen: set[str] = field(default_factory=set)
    """Names of documents that were read."""
    tried: set[str] = field(default_factory=set)
    """Queries that were searched for."""
    documents: dict[str, str] = field(default_factory=dict)
    """Those that are relevant, by name."""

    @trace_agent(name="researcher")
    async def work(self) -> str:
        """Return the final answer; it is empty when nothing was found or the model says nothing."""
        queries = await self.plan()
        for number in range(1, self.rounds + 1):
            await self.retrieve(queries)
            print(f"round {number}: {len(queries)} queries, {len(self.documents)} relevant documents", flush=True)
            conversation = await self.answer()
            check = await self.check(conversation)
            queries = self.untried(check.queries)
            if (check.supported and check.enough) or not queries:
                break
        conversation.append({"role": "user", "content": FINISH})
        return (await self.ask(conversation)).text

    async def plan(self) -> list[str]:
        """Return what to look for; the question itself where the model has no plan."""
        said = await self.ask(opening(PLAN, f"The question:\n{self.question}"))
        plan = json_in(said.text, Plan) or Plan()
        return self.untried(plan.queries) or [self.question]

    def untried(self, queries: Sequence[str]) -> list[str]:
        """Return the queries that were not tried before."""
        fresh = dict.fromkeys(query.strip() for query in queries)
        return [query for query in fresh if query and query not in self.tried][:QUERY_LIMIT]

    async def retrieve(self, queries: Sequence[str]) -> None:
        """Search for all queries at once, then read and grade at once what is new."""
        self.tried.update(queries)
        async with parallel("search") as fan:

            async def one_query(query: str) -> list[str]:
                with fan.branch("searcher"):
                    return await asyncio.to_thread(search, query)

            found = await asyncio.gather(*map(one_query, queries))
        fresh = [name for name in dict.fromkeys(chain.from_iterable(found)) if name not in self.seen]
        self.seen.update(fresh)
        async with parallel("grade") as fan:

            async def one_document(name: str) -> tuple[str, bool]:
                with fan.branch("grader"):
                    text = await asyncio.to_thread(read, name)
                    return text, await self.is_relevant(name, text)

            graded = await asyncio.gather(*map(one_document, fresh))
        self.documents |= {name: text for name, (text, relevant) in zip(fresh, graded, strict=True) if relevant}

    async def is_relevant(self, name: str, text: str) -> bool:
        """Return whether a document helps with the question."""
        said = await self.ask(opening(GRADE, f"The question:\n{self.question}\n\nThe document {name}:\n{text}"))
        return (json_in(said.text, Grade) or Grade()).relevant

    async def answer(self) -> list[ChatCompletionMessageParam]:
        """Answer from the documents that there are; return the conversation, in which the check goes on."""
        texts = "\n\n".join(f"[{name}]\n{text}" for name, text in self.documents.items()) or "None was found."
        conversation = opening(ANSWER, f"The question:\n{self.question}\n\nThe documents:\n\n{texts}")
        conversation.append((await self.ask(conversation)).message())
        return conversation

    async def check(self, conversation: list[ChatCompletionMessageParam]) -> Check:
        """Let the model check its answer; a check that cannot be read ends the search."""
        conversation.append({"role": "user", "content": CHECK})
        said = await self.ask(conversation)
        conversation.append(said.message())
        return json_in(said.text, Check) or Check()


def opening(system: str, content: str) -> list[ChatCompletionMessageParam]:
    """Return the beginning of a conversation."""
    return [{"role": "system", "content": system}, {"role": "user", "content": content}]


def verdict(answer: str, documents: Mapping[str, str], known: str) -> str:
    """Say what is wrong with a final answer; nothing if it cites what was read and has in it what is known."""
    cited = set(re.findall(r"\[([\w-]+)\]", answer))
    if not answer.strip():
        return "the model says nothing"
    if not cited:
        return "nothing is cited"
    if invented := sorted(cited - set(documents)):
        return f"what is cited was not read: {', '.join(invented)}"
    if missing := [part for part in known.split("; ") if part.lower() not in answer.lower()]:
        return f"the answer lacks: {'; '.join(missing)}"
    return ""


async def run(options: argparse.Namespace) -> int:
    """Answer the question of the options; return 0 when the answer is right and cites what was read, else 1."""
    async with connected(options) as ask:
        researcher = Researcher(ask, options.task["question"], options.rounds)
        answer = await researcher.work()
    print(answer.strip() or "no answer")
    wrong = verdict(answer, researcher.documents, options.task["answer"])
    print(wrong or "the answer is right and cites what was read")
    return 1 if wrong else 0


@agent
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.agentic_rag",
        description="Answer a question from documents with a model behind OPENAI_BASE_URL (key: OPENAI_API_KEY).",
    )
    add_options(parser)
    tasks.add_option(parser, HERE)
    parser.add_argument(
        "--rounds",
        type=at_least_one,
        default=3,
        metavar="N",
        help="times that it looks for documents (default: %(default)s)",
    )
    return asyncio.run(run(parser.parse_args(arguments)))
