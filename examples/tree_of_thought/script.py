"""What the model of the agent says offline: it is played by examples/scripted_model.py.

It knows for each problem a program that counts for any size, and does with it what a thinker does: it tries a small size,
counts, sometimes with a size that is off by one, counts again to check a value on its path, or only talks. What becomes of
a candidate follows from what the program printed: the thinker concludes from it, the judge compares it with what stands on
the path, and the answer is the value that was confirmed, or was found last. The seed decides which candidate does what,
and how much is said and thought.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from examples.chance import chance
from examples.tasks import load_tasks
from rotoscope.replayer.simulator.model import Answer, ModelRequest, ToolCall

HERE = Path(__file__).parent
THINK = (HERE / "think.md").read_text(encoding="utf-8")
JUDGE = (HERE / "judge.md").read_text(encoding="utf-8")
RESULT = re.compile(r"count\((\d+)\) = (-?\d+)")
CLAIM = re.compile(r"For the size that was asked it is (\d+)")
CONFIRMED = re.compile(r"confirms (\d+)")


@dataclass(frozen=True)
class Problem:
    """A problem with what the model knows about it."""

    question: str
    size: int
    program: str
    """Defines a function `count` of the size."""

    def run(self, *sizes: int) -> ToolCall:
        """Count for some sizes."""
        prints = "".join(f'print("count({size}) =", count({size}))\n' for size in sizes)
        return ToolCall("calculate", json.dumps({"program": f"{self.program}\n\n{prints}"}))


def plays(request: ModelRequest) -> bool:
    """Return whether a conversation is one of this agent's: its instructions tell."""
    return request.messages[0].content in (THINK, JUDGE)


def answer(request: ModelRequest) -> Answer:
    """Return the next answer of the conversation."""
    asked = request.messages[1].content
    problem = next((problem for problem in problems() if problem.question in asked), None)
    draw = chance(request.seed, "tree_of_thought", *(message.content for message in request.messages[1:]))
    if problem is None:
        return Answer("I do not know this problem.")
    path = asked.partition("The path so far:\n")[2].rpartition("\n\n")[0]
    if request.messages[0].content == JUDGE:
        return judge(asked, draw)
    if request.messages[-1].role == "tool":
        return conclude(problem, path, request.messages[-1].content, draw)
    if "\n\nWrite candidate " in asked:
        return propose(problem, path, draw)
    return finish(asked, draw)


@cache
def problems() -> tuple[Problem, ...]:
    return tuple(Problem(task["question"], int(task["size"]), task["program"]) for task in load_tasks(HERE))


def propose(problem: Problem, path: str, draw: random.Random) -> Answer:
    """Write a candidate: what is open on the path is likelier than what is known."""
    claimed = CLAIM.search(path) is not None
    ways = {"small": 0 if RESULT.search(path) else 4, "count": 1 if claimed else 4, "slip": 2, "talk": 3}
    ways["check"] = 6 if claimed else 0
    (way,) = draw.choices(list(ways), weights=list(ways.values()))
    small = sorted({max(3, problem.size // 4), max(4, problem.size // 2)})
    calls = {
        "small": (problem.run(*small),),
        "count": (problem.run(problem.size),),
        "slip": (problem.run(problem.size + draw.choice((-1, 1))),),
        "check": (problem.run(*small, problem.size),),
    }.get(way, ())
    return Answer(said(SAYS[way], draw), reasoning=thought(draw, 0.8, 2.9), tool_calls=calls)


def conclude(problem: Problem, path: str, output: str, draw: random.Random) -> Answer:
    """Conclude from what the program printed. Who counted with a size that is off by one does not see it."""
    results = {int(size): int(value) for size, value in RESULT.findall(output)}
    printed = ", ".join(f"count({size}) = {value}" for size, value in results.items())
    if not output.startswith("exit status 0") or not results:
        return Answer(
            "The program did not get to its end, so nothing follows from it.", reasoning=thought(draw, 0.5, 1.2)
        )
    known = CLAIM.findall(path)
    size, value = list(results.items())[-1]
    if abs(size - problem.size) > 1:
        what = f"The program prints {printed}. That is for smaller sizes; the way of counting looks right."
    elif not known:
        what = f"The program prints {printed}. For the size that was asked it is {value}."
    elif int(known[-1]) == value:
        what = f"The program prints {printed}, which confirms {value}. For the size that was asked it is {value}."
    else:
        what = f"The program prints {printed}, not {known[-1]}. For the size that was asked it is {value}."
    return Answer(what, reasoning=thought(draw, 0.5, 1.6))


def judge(asked: str, draw: random.Random) -> Answer:
    """Give a score to what a candidate found out."""
    candidate = asked.rpartition("\n\nThe candidate:\n")[2].partition("\n\nIts program:\n")[0]
    confirmed = bool(CONFIRMED.search(candidate))
    if confirmed:
        score, reason = draw.choice((9, 9.5, 10)), "The value was found in two ways which agree."
    elif CLAIM.search(candidate):
        score, reason = draw.choice((7.5, 8, 8)), "A value for the problem as it was asked, not checked yet."
    elif RESULT.search(candidate):
        score, reason = draw.choice((6, 6.5, 7)), "The problem in small, which says how to count."
    elif "It was not run." in asked:
        score, reason = draw.choice((3, 4, 5)), "A plan that may lead on, without a result."
    else:
        score, reason = draw.choice((1, 2, 3)), "It finds nothing out."
    return Answer(
        json.dumps({"score": score, "solved": confirmed, "reason": reason}), reasoning=thought(draw, 0.6, 1.8)
    )


def finish(asked: str, draw: random.Random) -> Answer:
    """Answer with the value on the path that was confirmed, or was found last."""
    values = CONFIRMED.findall(asked) or CLAIM.findall(asked)
    if not values:
        return Answer("The path holds no value for the problem as it was asked.\n\nANSWER: none")
    return Answer(
        f"{said(CLOSES, draw)}\n\nANSWER: {values[-1]}",
        reasoning=thought(draw, 0.7, 2.2),
    )


def said(sentences: tuple[str, ...], draw: random.Random) -> str:
    """Draw what is said: the first sentence tells what is done, any of the others and some working may follow."""
    first, *others = sentences
    working = draw.sample(WORKING, min(len(WORKING), round(draw.lognormvariate(2.4, 0.5))))
    return " ".join((first, *draw.sample(others, draw.randrange(1, len(others))), *working))


def thought(draw: random.Random, how_often: float, length: float) -> str:
    """Draw some thinking, in which a few ideas come up again and again."""
    if draw.random() >= how_often:
        return ""
    return " ".join(draw.choices(THINKING, k=round(draw.lognormvariate(length, 0.7))))


SAYS = {
    "small": (
        "I solve the problem in small first, for two sizes that can still be looked at.",
        "If the small values grow as one would expect, the way of counting is right.",
        "A formula may show up in them, which would be a second way to the answer.",
        "The borders matter most here, so I take care that both ends of the range belong to it.",
        "What is counted stays the same; only the size is another.",
    ),
    "count": (
        "I count all cases one by one, for the size that was asked.",
        "There are few enough of them that no idea is needed.",
        "Each case is tested by the condition as the problem states it, to the letter.",
        "Order matters only where the problem says so, and each case is counted once.",
        "The value that comes out has to be checked at the next depth.",
    ),
    "slip": (
        "I count with a loop over the whole range, its end as the loop needs it.",
        "That is the same count, written down as simply as possible.",
        "Nothing is left out, since the loop begins at the beginning.",
        "A second way can follow if there are doubts.",
        "The program says what it counts in what it prints.",
    ),
    "check": (
        "There is a value on the path that was found once; I count again and look at smaller sizes beside it.",
        "If the large value fits behind the small ones, it is confirmed.",
        "An end of the range that was taken in by mistake would show in the last value.",
        "I write the program anew, so that a slip of the first one is not repeated.",
        "Should the two differ, the size that was used decides which one counts.",
    ),
    "talk": (
        "The condition can be restated, which makes the count easier.",
        "Each case falls into one of a few classes, and the classes do not overlap.",
        "Symmetry relates most of them in pairs, and the few that are their own partner are counted apart.",
        "One could cut the range into parts of equal length, in each of which the same happens.",
        "That leaves a sum with few terms, which the next thought can compute.",
        "Nothing is computed here, since the program of another candidate will.",
    ),
}
"""What a candidate says, by what it does."""

WORKING = (
    "Write S for the set that is counted and T for the larger set in which it lies, whose size is known.",
    "An element of T belongs to S if and only if it passes one test, and the test looks at that element alone.",
    "Therefore the order in which the elements are visited cannot change the result.",
    "Take the smallest element first: it passes or it does not, and either way the rest is the same problem, one smaller.",
    "Call the number of ways for size n by the name a(n); then a(n) depends on a few of the values before it.",
    "The first values can be found by hand, and they have to agree with what any program prints.",
    "Two elements that differ only in the last place fall into the same class, so the classes can be counted instead.",
    "Each class has the same size, except for the first and the last one, which are cut off by the borders.",
    "At the lower border the smallest element is allowed, because the problem says so in as many words.",
    "At the upper border the element itself belongs to the range, which is where a loop is most often one too short.",
    "The condition has two parts, and both have to hold; to test the cheaper one first changes only the time.",
    "If one of the two parts is dropped, the count becomes an upper bound, which any answer has to respect.",
    "A lower bound follows from the cases in which the second part holds by itself.",
    "Between the two bounds there is little room, so that a large mistake would be noticed.",
    "Counting pairs in both orders would count each of them twice, except for those with equal members.",
    "Whether these are to be halved depends on the word ordered, which has to be looked for in the problem.",
    "The remainder on division by a small number repeats, so that it is enough to look at one full period.",
    "The length of the range is not a multiple of that period, and what is left over at its end is counted by itself.",
    "Nothing is counted twice here, since each element has exactly one largest part.",
    "It may happen that no element of a class passes; such a class adds nothing and needs no special treatment.",
    "All numbers stay far below the size at which a program would have to take care.",
    "The number of steps grows with the square of the size at worst, which is nothing for a size like this.",
    "To see that the test is right, apply it to one element that has to pass and to one that must not.",
    "With that the step is complete, and the next one can rely on it without looking at the elements again.",
)
"""What may stand in any thought, since every problem is a count."""

CLOSES = (
    "The path counts what was asked, over the whole range.",
    "Its last value is for the size that was asked, both ends of the range included.",
    "The smaller sizes that were tried fit in with it.",
    "Where two values differ, the later one was found with the right size.",
    "I add nothing to what was found out.",
)

THINKING = (
    "What exactly is counted here?",
    "Zero may or may not belong to it; the problem says which.",
    "Let me restate the condition in my own words and see whether a program can test it directly.",
    "The range ends at the number itself, so the loop has to go one further.",
    "If order mattered, the count would be larger by a factor that depends on how many are equal.",
    "A recursion on the size would work as well: what happens to the last element decides the case.",
    "The brute force is cheap enough, a few hundred thousand cases at most.",
    "I could count the complement, but then the total has to be right too.",
    "Small cases first: for one and two it can be done by hand.",
    "The values for small sizes should grow steadily, and a jump would point to a mistake.",
    "Does the empty set count? It has a sum of zero and a product of one.",
    "By symmetry half of the cases are mirror images of the other half.",
    "There may be a closed form with binomials, but it is easy to get wrong.",
    "The answer has to lie between 0 and 999, which rules out some readings of the problem.",
    "Modulo the small number everything repeats with a short period.",
    "I should not trust a value that only one way has given.",
    "The other candidates will probably count directly, so another way would be worth more.",
    "What stands on the path is known already and need not be said again.",
    "The program has to define everything itself, nothing is kept.",
    "Let me go through the first few cases and see whether the test accepts the right ones.",
    "That works for the first one, and for the second one as well.",
    "An off-by-one at either end would change the value only a little and be hard to notice.",
    "Two ways that agree are worth more than one long argument.",
    "So the step is clear, and what remains is to write it down.",
)
