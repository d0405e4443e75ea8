"""What the model of the agent says offline: it is played by examples/scripted_model.py.

Each round is decided from its prompt alone, as the agent's model has to: what was read and what is left to look at stands
in the last lines of the report. The seed decides how many rounds there are, what is kept of a text, and the words.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from random import Random

from examples.chance import chance
from examples.corpus.library import terms
from examples.prose import bears_on, found, new_words, sentences, telling, thoughts
from rotoscope.replayer.simulator.model import Answer, ModelRequest, ToolCall

SYSTEM = (Path(__file__).parent / "system.md").read_text()
UNCERTAIN = (
    "What is uncertain: the documents give round figures, and they do not compare all cases under the same conditions. "
    "Where only one of them speaks of a matter, nothing confirms it."
)
MOST_SENTENCES = 36
"""About as many as the report may hold."""
PARTS = re.compile(
    r"Round (?P<number>\d+) .*?# Question\n\n(?P<question>.*?)\n\n# Report so far\n\n(?P<report>.*?)\n\n"
    r"# Last call\n\n(?P<action>.*?)\n\n# What it returned\n\n(?P<observation>.*)",
    re.DOTALL,
)
CITED = re.compile(r"(?:^|(?<=\] ))([^\[\]\n]+) \[([a-z0-9-]+)\]", re.MULTILINE)


@dataclass
class Knowledge:
    """What the report says, and what is added to it."""

    question: str
    cited: list[tuple[str, str]]
    """Documents and sentences."""
    read: list[str]
    ahead: list[str]
    searched: list[str]

    def report(self, draw: Random) -> str:
        """Write the report anew: by document, in another order each time."""
        names = list(dict(self.cited))
        draw.shuffle(names)
        paragraphs = [" ".join(f"{said} [{name}]" for of, said in self.cited if of == name) for name in names]
        return "\n\n".join([f"# {self.question}", *(paragraphs or ["Nothing is known yet."])])

    def lines(self) -> str:
        """Return the lines at the end of the report."""
        return (
            f"Read: {', '.join(self.read) or 'none'}\n"
            f"To look at: {', '.join(self.ahead) or 'none'}\n"
            f"Searched: {' | '.join(self.searched) or 'none'}"
        )


def plays(request: ModelRequest) -> bool:
    """Return whether a conversation is one of this agent's: its system prompt tells."""
    return request.messages[0].content == SYSTEM


def answer(request: ModelRequest) -> Answer:
    """Return the answer of a round."""
    given = PARTS.match(request.messages[1].content)
    if given is None:
        return Answer(text="This is no round of mine.")
    number, question = int(given["number"]), given["question"]
    draw = chance(request.seed, "iterative_research", number, question)
    enough = chance(request.seed, "iterative_research", "depth", question).choice((8, 9, 10, 11, 12, 13, 14))
    known = learn(given["question"], given["report"], given["action"], given["observation"], draw)
    reasoning = thoughts(draw, [said for _, said in known.cited], draw.randint(4, 24))
    step = None if number >= enough or not request.tools else next_call(known, given["observation"], number, draw)
    if step is None:
        return Answer(text=handed_over(known, draw), reasoning=reasoning)
    return Answer(text=f"{known.report(draw)}\n\n{known.lines()}", reasoning=reasoning, tool_calls=(step,))


def learn(question: str, report: str, action: str, observation: str, draw: Random) -> Knowledge:
    """Take what the report holds, and what bears on the question of what the last call returned."""
    texts = found(observation)
    name, _, arguments = action.partition(" ")
    done = json.loads(arguments) if name in ("search", "read") else {}
    old = [(name, said) for said, name in CITED.findall(report)]
    cited = list(dict.fromkeys([*old, *telling(texts, question, draw.randint(6, 14))]))
    wanted = set(terms(question))
    kept = set(sorted(cited, key=lambda one: -len(wanted & set(terms(one[1]))))[:MOST_SENTENCES])
    read = [*line(report, "Read", ", "), *([done["document"]] if "document" in done else [])]
    shown = [name for name, text in texts.items() if bears_on(text, question)]
    ahead = [name for name in dict.fromkeys([*line(report, "To look at", ", "), *shown]) if name not in read]
    searched = [*line(report, "Searched", " | "), *([done["query"]] if "query" in done else [])]
    return Knowledge(question, [one for one in cited if one in kept], read, ahead, searched)


def line(report: str, heading: str, separator: str) -> list[str]:
    """Return what one of the last lines of the report lists."""
    match = re.search(rf"^{heading}: (.+)$", report, re.MULTILINE)
    return match[1].split(separator) if match and match[1] != "none" else []


def next_call(known: Knowledge, observation: str, number: int, draw: Random) -> ToolCall:
    """Search at first, then read what was found and search in turns, with words that were just read."""
    if not known.searched:
        return call("search", query=known.question)
    if known.ahead and number % 3:
        return call("read", document=known.ahead[0])
    words = new_words(draw, observation, known.question, terms(" ".join(known.searched)), count=3)
    return call("search", query=" ".join([*words, *draw.sample(terms(known.question), 3)]))


def handed_over(known: Knowledge, draw: Random) -> str:
    """Write the report a last time, with an answer before it and what is uncertain behind it."""
    said = [sentence for _, text in known.cited for sentence in sentences(text)]
    title, *paragraphs = known.report(draw).split("\n\n")
    return "\n\n".join(
        [
            title,
            f"In short: {' '.join(draw.sample(said, min(len(said), 4)))}",
            *paragraphs,
            UNCERTAIN,
            f"Documents: {', '.join(sorted(dict(known.cited))) or 'none'}",
        ]
    )


def call(name: str, **arguments: str) -> ToolCall:
    return ToolCall(name, json.dumps(arguments))
