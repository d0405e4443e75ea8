"""What the model of the agent says offline: it is played by examples/scripted_model.py.

It knows nothing but the words of its conversation, and goes by them: its queries are words of the question, a document
helps if it has enough of them, the answer is made of the sentences that cover most of them, and a check asks for what is
not covered. So how often it looks again follows from what the search has found. The seed decides how the question is cut
into queries, and how much is said and thought.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from examples.chance import chance
from examples.corpus.library import terms
from rotoscope.replayer.simulator.model import Answer, ModelRequest

from .prompts import ANSWER, CHECK, FINISH, GRADE, PLAN

HERE = Path(__file__).parent
RELEVANT = 0.25
"""Share of the question's words that a document has to have."""
ENOUGH = 0.9
"""Share of the question's words that an answer has to cover."""
SENTENCES = 4
"""Of an answer, at most."""


def plays(request: ModelRequest) -> bool:
    """Return whether a conversation is one of this agent's: its instructions tell."""
    return request.messages[0].content in (PLAN, GRADE, ANSWER)


def answer(request: ModelRequest) -> Answer:
    """Return the next answer of the conversation."""
    system, opening, *later = (message.content for message in request.messages)
    question, _, given = opening.removeprefix("The question:\n").partition("\n\n")
    draw = chance(request.seed, "agentic_rag", opening, *later)
    words = list(dict.fromkeys(terms(question)))
    if system == PLAN:
        return plan(words, draw)
    if system == GRADE:
        return grade(words, given, draw)
    if later and later[-1] == CHECK:
        return check(words, later[-2], draw)
    if later and later[-1] == FINISH:
        return finish(words, later[0])
    return write(words, given, draw)


def plan(words: Sequence[str], draw: random.Random) -> Answer:
    """Cut the question into queries; those for a part of it may be forgotten."""
    count = draw.choice((2, 3, 4)) if len(words) > 4 else 1
    cuts = [round(len(words) * part / count) for part in range(count + 1)]
    queries = [" ".join(words[start:end]) for start, end in pairwise(cuts)]
    kept = draw.randrange(max(1, count // 2), count + 1)
    queries = [queries[rank] for rank in sorted(draw.sample(range(count), kept))]
    return Answer(json.dumps({"queries": queries}), reasoning=thought(PLANNING, draw, 0.9, 1.6))


def grade(words: Sequence[str], document: str, draw: random.Random) -> Answer:
    """A document helps if it has enough of the question's words."""
    has = [word for word in words if word in set(terms(document))]
    relevant = len(has) >= RELEVANT * len(words)
    because = f"it speaks of {', '.join(has)}" if has else "it is about something else"
    return Answer(json.dumps({"relevant": relevant, "because": because}), reasoning=thought(READING, draw, 0.4, 1.0))


def write(words: Sequence[str], given: str, draw: random.Random) -> Answer:
    """Answer with the sentences that cover most of the question's words, each with the name of its document."""
    left, said = list(words), list[str]()
    found = list(sentences(given))
    while found and len(said) < SENTENCES:
        name, best = max(found, key=lambda one: len(covered(left, one[1])))
        if not covered(left, best):
            break
        said.append(f"{best.rstrip('.')} [{name}].")
        left = [word for word in left if word not in covered(left, best)]
    text = " ".join(said) or "The documents do not say anything about it."
    return Answer(text, reasoning=thought(READING, draw, 0.9, 2.2))


def sentences(given: str) -> Iterator[tuple[str, str]]:
    """Yield the sentences of the documents, with the names of these."""
    for part in re.split(r"\n\n(?=\[[\w-]+\]\n)", given):
        if named := re.match(r"\[([\w-]+)\]\n[^\n]*\n", part):
            for sentence in re.split(r"(?<=[.!?])\s+", part[named.end() :]):
                if sentence.strip():
                    yield named[1], " ".join(sentence.split())


def covered(words: Sequence[str], text: str) -> set[str]:
    return set(words) & set(terms(text))


def check(words: Sequence[str], said: str, draw: random.Random) -> Answer:
    """Look again for what the answer does not cover."""
    missing = [word for word in words if word not in covered(words, said)]
    enough = len(missing) <= (1 - ENOUGH) * len(words)
    known = [word for word in words if word not in missing]
    queries = []
    if not enough:
        half = (len(missing) + 1) // 2
        parts = [missing[:half], missing[half:]]
        queries = [" ".join((*part, *draw.sample(known, min(1, len(known))))) for part in parts if part]
    return Answer(
        json.dumps({"supported": "[" in said, "enough": enough, "queries": queries}),
        reasoning=thought(CHECKING, draw, 0.9, 1.8),
    )


def finish(words: Sequence[str], said: str) -> Answer:
    """Repeat the answer, and say what it leaves open."""
    missing = [word for word in words if word not in covered(words, said)]
    more = f" Of this the documents say nothing: {', '.join(missing)}." if len(missing) > 2 else ""
    return Answer(said + more)


def thought(sentences: Sequence[str], draw: random.Random, how_often: float, length: float) -> str:
    """Draw some thinking, in which a few ideas come up again and again."""
    if draw.random() >= how_often:
        return ""
    return " ".join(draw.choices(sentences, k=round(draw.lognormvariate(length, 0.6))))


PLANNING = (
    "The question has two parts at least, and one document will hardly answer both.",
    "Common words will find everything, so they can be left out.",
    "A name in the question is the best thing to search for.",
    "If I put all words into one query, the rare ones decide alone.",
    "What would a document on this call it?",
    "Two queries that overlap would return the same documents.",
    "The unit that is asked for may stand in the text as well.",
    "A comparison needs both sides, each with a query of its own.",
    "What is missing then can still be looked for afterwards.",
)
READING = (
    "The first paragraph gives the subject, the number comes later.",
    "That is a cause, and what was asked is an effect.",
    "This sentence answers one part of the question directly.",
    "The document has the right words, though in another sense.",
    "Here is a date, but it belongs to something else.",
    "I should copy the number as it stands.",
    "Two documents agree on this, so one of them is enough to cite.",
    "The name in brackets belongs behind the sentence that it supports.",
    "Nothing in this paragraph is needed.",
    "The second part of the question is not answered by it.",
    "What the text leaves out I do not know either.",
    "Somebody who reads only this sentence has to understand it.",
)
CHECKING = (
    "Sentence by sentence: is it in the document that it names?",
    "The first one is there to the letter.",
    "The question asked for more than that.",
    "This part could stand under another name.",
    "If the search has not found it with these words, others may.",
    "No number was changed on the way.",
    "The reason is given, the amount is not.",
    "One more look costs little, and a gap would be seen.",
)
