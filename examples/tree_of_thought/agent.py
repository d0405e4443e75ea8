"""A solver that thinks in a tree: several thoughts at once, tried with a real tool, judged, and only the best go on.

At each depth, for the trails that are alive:

1. propose: each trail gets several candidates for its next thought, all written at the same time.
2. try and judge: the programs of some candidates are run and concluded from, and each candidate gets a score, all at the
   same time.
3. prune: the best candidates are the trails of the next depth.

The answer is given from the best trail that is left, and compared with the one that is known.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

from examples import tasks
from examples.chat import Ask, add_options, agent, at_least_one, connected
from examples.json_answers import json_in
from examples.toolbox import Toolbox
from rotoscope import parallel, trace_agent

from .tools import calculate
from .tree import Candidate, Shape, Trail, Verdict, conversation, scores, to_be_tried

HERE = Path(__file__).parent
THINK = (HERE / "think.md").read_text(encoding="utf-8")
JUDGE = (HERE / "judge.md").read_text(encoding="utf-8")


class Solver:
    """One problem and the model that is asked."""

    def __init__(self, ask: Ask, problem: str, shape: Shape) -> None:
        self.ask = ask
        self.problem = problem
        self.shape = shape
        self.toolbox = Toolbox(calculate)

    @trace_agent(name="solver")
    async def solve(self) -> str:
        """Grow the tree and return what is said of the best trail; it is empty when no thought came up."""
        trails = [Trail()]
        for depth in range(1, self.shape.depth + 1):
            candidates = await self.propose(trails)
            judged = await self.try_and_judge(candidates)
            print(f"depth {depth}: {len(judged)} candidates, scores {scores(judged)}", flush=True)
            trails = judged[: self.shape.kept] or trails
            if not judged or trails[0].solved:
                break
        return await self.conclude(trails[0]) if trails[0].thoughts else ""

    async def propose(self, trails: Sequence[Trail]) -> list[Candidate]:
        """Let several candidates be written for each trail, without those that say nothing."""
        async with parallel("propose") as fan:

            async def one(trail: Trail, rank: int) -> Candidate:
                with fan.branch("thinker"):
                    request = f"Write candidate {rank} of {self.shape.candidates} for the next thought."
                    messages = conversation(THINK, self.problem, trail, request)
                    return Candidate(trail, rank, messages, await self.ask(messages, self.toolbox.schemas))

            ranks = range(1, self.shape.candidates + 1)
            written = await asyncio.gather(*(one(trail, rank) for trail in trails for rank in ranks))
        return [candidate for candidate in written if candidate.answer.text.strip() or candidate.answer.calls]

    async def try_and_judge(self, candidates: Sequence[Candidate]) -> list[Trail]:
        """Run the programs of some candidates, and return all trails that they would make, best first."""
        tried = to_be_tried(candidates, self.shape.tried)
        async with parallel("judge") as fan:

            async def one(candidate: Candidate) -> Trail:
                with fan.branch("judge"):
                    if candidate in tried:
                        await self.attempt(candidate)
                    return await self.judge(candidate)

            judged = await asyncio.gather(*map(one, candidates))
        return sorted(judged, key=lambda trail: -trail.score)

    async def attempt(self, candidate: Candidate) -> None:
        """Run what a candidate wants to run, and let it conclude."""
        candidate.messages.append(candidate.answer.message())
        for call in candidate.answer.calls.values():
            result = await self.toolbox.call(call)
            candidate.messages.append(result)
            candidate.results.append(str(result["content"]))
        candidate.conclusion = (await self.ask(candidate.messages, self.toolbox.schemas)).text

    async def judge(self, candidate: Candidate) -> Trail:
        """Return the trail that a candidate makes, with its score; a verdict that cannot be read is a score of 0."""
        asked = "\n".join(call.arguments for call in candidate.answer.calls.values())
        parts = [("The candidate", candidate.thought)]
        if asked:
            printed = "\n".join(candidate.results)
            parts += [("Its program", asked), ("What the program printed", printed or "It was not run.")]
        request = "\n\n".join(f"{title}:\n{text}" for title, text in parts)
        answer = await self.ask(conversation(JUDGE, self.problem, candidate.trail, request))
        verdict = json_in(answer.text, Verdict) or Verdict(score=0)
        thoughts = (*candidate.trail.thoughts, candidate.thought or "A program without a word.")
        return Trail(thoughts, verdict.score, verdict.solved)

    async def conclude(self, trail: Trail) -> str:
        """Return what the model answers when the trail is all there is."""
        return (await self.ask(conversation(THINK, self.problem, trail, "The tree is done. Give the answer."))).text


def number_in(text: str) -> int | None:
    """Return the last number that is called the answer."""
    numbers = re.findall(r"ANSWER:\s*(\d{1,9})", text)
    return int(numbers[-1]) if numbers else None


async def run(options: argparse.Namespace) -> int:
    """Solve the task of the options; return 0 when the answer is right, else 1."""
    shape = Shape(options.depth, options.candidates, options.tried, options.kept)
    async with connected(options) as ask:
        said = await Solver(ask, options.task["question"], shape).solve()
    answer, right = number_in(said), int(options.task["answer"])
    if answer is None:
        print("the model gives no answer" if said.strip() else "the model says nothing")
        return 1
    print(f"the answer is {answer}: {'right' if answer == right else f'wrong, it is {right}'}")
    return 0 if answer == right else 1


@agent
def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.tree_of_thought",
        description="Solve a puzzle with a model behind OPENAI_BASE_URL (key: OPENAI_API_KEY).",
    )
    add_options(parser)
    tasks.add_option(parser, HERE)
    for name, what in (
        ("depth", "thoughts of a trail"),
        ("candidates", "thoughts that are written for each trail at each depth"),
        ("tried", "programs that are run at each depth"),
        ("kept", "trails that go on from each depth"),
    ):
        help = f"{what}, at most (default: %(default)s)"
        parser.add_argument(f"--{name}", type=at_least_one, default=getattr(Shape, name), metavar="N", help=help)
    return asyncio.run(run(parser.parse_args(arguments)))
