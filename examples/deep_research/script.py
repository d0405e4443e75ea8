"""What the models of the agent say offline: they are played by examples/scripted_model.py.

Each system prompt is a role. What a role does follows from its conversation: the supervisor delegates the directions of
the brief and then what was left open, a researcher searches, reads what was found and searches on with words that it has
read. The seed decides how many directions there are, how far a researcher goes, and the words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from examples.chance import chance
from examples.corpus.library import terms
from examples.prose import bears_on, found, new_words, sentences, telling, thoughts
from rotoscope.replayer.simulator.model import Answer, Message, ModelRequest, ToolCall

HERE = Path(__file__).parent
ROLES = {
    (HERE / f"{role}.md").read_text(): role for role in ("brief", "supervisor", "researcher", "compress", "report")
}

ANGLES = (
    "How it works, and what it rests on",
    "What limits it, and what goes wrong with it",
    "Who introduced it and when, and what was used before",
    "What it costs, what is lost, and how long it lasts",
    "Where it is used today, and what is used in its place",
    "What has to be watched or measured while it is in use",
)
NOTE = re.compile(r'^(?:search|read) \{".*"\}$', re.MULTILINE)
"""What stands above the result of a call in the notes of a researcher."""
ROUND_FIGURES = (
    "The sources are short and give round figures. They do not compare all cases under the same conditions, so that "
    "differences of a tenth should not decide anything."
)
NOT_SAID = "Whether that holds under other conditions is not said."
REGARD = ", with regard to the question: "
EXPECT = (
    "I begin with the words of the topic.",
    "A wide search first.",
    "This should show which documents bear on it.",
    "The passages are promising; I want what stands around them.",
    "I read on where the passage breaks off.",
    "The documents use other words than the topic does; I try those.",
    "One more search, with what I have just learned.",
    "",
)


def plays(request: ModelRequest) -> bool:
    """Return whether a conversation is one of this agent's: its system prompt tells."""
    return request.messages[0].content in ROLES


def answer(request: ModelRequest) -> Answer:
    """Return the next answer of the conversation."""
    role = ROLES[request.messages[0].content]
    task = request.messages[1].content
    return PARTS[role](request, chance(request.seed, "deep_research", role, task, len(request.messages)))


def brief(request: ModelRequest, draw: Random) -> Answer:
    """Restate the question and propose three to five directions."""
    question = request.messages[1].content.strip()
    angles = draw.sample(ANGLES, draw.choice((3, 3, 4, 4, 5)))
    directions = "\n".join(f"{number}. {angle}{REGARD}{question}" for number, angle in enumerate(angles, start=1))
    text = (
        f"The customer asks: {question} What the answer will be used for is not said and is left open. No place and no "
        "time is named beyond what the question says, so that findings from anywhere count, with the conditions under "
        f"which they hold.\n\nDirections\n\n{directions}\n\nA good answer says for each part of the question what is "
        "known, with figures and their conditions, and where the sources are silent."
    )
    reasoning = " ".join(
        f"{angle}: that can be searched for alone, and it is {draw.choice(('needed', 'asked for', 'part of it'))}."
        for angle in draw.sample(ANGLES, len(ANGLES))
    )
    return Answer(text=text, reasoning=reasoning)


def supervisor(request: ModelRequest, draw: Random) -> Answer:
    """Delegate the directions of the brief, then what was left open, then finish."""
    directions = re.findall(r"^\d\. (.+)$", request.messages[1].content, re.MULTILINE)
    results = [message.content for message in request.messages if message.role == "tool"]
    if not results:
        said = "The directions of the brief can be worked on at the same time; each stands on its own."
        return says(said, thoughts(draw, directions, 2), call("delegate", topics=directions))
    question = directions[0].partition(REGARD)[2] if directions else ""
    missing = left_open(results[-1])
    wanted = draw.sample(missing, min(len(missing), draw.choice((0, 1, 2, 2, 3)))) if len(results) == 1 else []
    material = sentences(results[-1])
    if wanted:
        said = (
            f"Most of it is covered. The researchers have not read {', '.join(wanted)}, which may fill what is missing."
        )
        topics = [f"What is told of {name.replace('-', ' ')}{REGARD}{question}" for name in wanted]
        return says(said, thoughts(draw, material, draw.randint(4, 12)), call("delegate", topics=topics))
    reason = "Each direction has findings with sources, and a further round would repeat them."
    return says("", thoughts(draw, material, draw.randint(4, 12)), call("finish", reason=reason))


def left_open(findings: str) -> list[str]:
    """Return the documents that researchers have left open and that none of them has read."""
    read = set(names(findings, "Sources"))
    return [name for name in dict.fromkeys(names(findings, "Left open")) if name not in read]


def names(findings: str, heading: str) -> list[str]:
    lines = re.findall(rf"^{heading}: (.+)\.$", findings, re.MULTILINE)
    return [name for line in lines for name in line.split(", ") if name != "none"]


@dataclass
class Sight:
    """What a researcher has seen."""

    queries: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    """What is known of each document, in the order in which they turned up."""
    read: list[str] = field(default_factory=list)
    answers: int = 0


def look(messages: tuple[Message, ...]) -> Sight:
    """Return what a researcher's conversation has shown."""
    sight = Sight()
    calls = {one.id: one for message in messages for one in message.tool_calls}
    for message in messages:
        sight.answers += message.role == "assistant"
        if message.role != "tool" or message.tool_call_id not in calls:
            continue
        arguments = json.loads(calls[message.tool_call_id].arguments)
        sight.queries += [arguments["query"]] if "query" in arguments else []
        sight.read += [arguments["document"]] if "document" in arguments else []
        for name, text in found(message.content).items():
            sight.texts[name] = text if name in sight.read else sight.texts.get(name) or text
    return sight


def researcher(request: ModelRequest, draw: Random) -> Answer:
    """Search, read what was found, search with words that were read, and stop after three to six answers."""
    topic, sight = request.messages[1].content, look(request.messages)
    enough = chance(request.seed, "deep_research", "depth", topic).choice((3, 4, 4, 5, 5, 6))
    material = [sentence for text in sight.texts.values() for sentence in sentences(text)]
    reasoning = thoughts(draw, material, draw.randint(3, 14)) if draw.random() < 0.8 else ""
    unread = [name for name, text in sight.texts.items() if name not in sight.read and bears_on(text, topic)]
    if not sight.queries:
        queries = [topic.partition(REGARD)[2] or topic, topic][: draw.choice((1, 2))]
        return says(draw.choice(EXPECT[:3]), reasoning, *(call("search", query=query) for query in queries))
    if sight.answers >= enough - 1 or not sight.texts:
        return says(
            f"I have read {', '.join(sight.read) or 'nothing'}; further searches would bring little.", reasoning
        )
    if unread and (sight.answers % 2 or not sight.read):
        chosen = unread[: draw.choice((1, 1, 2))]
        return says(draw.choice(EXPECT[3:5]), reasoning, *(call("read", document=name) for name in chosen))
    seen = sight.texts[sight.read[-1]] if sight.read else " ".join(sight.texts.values())
    words = new_words(draw, seen, topic, terms(" ".join(sight.queries)), count=3)
    query = " ".join([*words, *draw.sample(terms(topic), 3)])
    return says(draw.choice(EXPECT[5:7]), reasoning, call("search", query=query))


def compress(request: ModelRequest, draw: Random) -> Answer:
    """Keep the sentences that bear on the topic, with their documents; say what was read and what was not."""
    notes = request.messages[1].content
    topic = notes.partition("\n")[0].removeprefix("Topic: ")
    texts = found(NOTE.sub("", notes))
    kept = telling(texts, topic, draw.randint(8, 20))
    read = dict.fromkeys(re.findall(r'^read \{"document": "([a-z0-9-]+)"\}$', notes, re.MULTILINE))
    others = [name for name in texts if name not in read]
    findings = "\n\n".join(
        " ".join(f"{sentence} [{name}]" for of, sentence in kept if of == name) for name in dict.fromkeys(dict(kept))
    )
    text = (
        f"Topic: {topic}\n\nFindings:\n\n{findings or 'The collection is silent on this.'}\n\n"
        f"Sources: {', '.join(read) or 'none'}.\n\nLeft open: {', '.join(others) or 'none'}."
    )
    return Answer(text=text, reasoning=thoughts(draw, [sentence for _, sentence in kept], draw.randint(0, 6)))


def report(request: ModelRequest, draw: Random) -> Answer:
    """Write a section for each finding, with an answer before them and what is uncertain behind them."""
    given = request.messages[1].content
    question = given.partition("\n")[0].removeprefix("Question: ")
    parts = re.findall(r"^Topic: (.+?)\n\nFindings:\n\n(.+?)\n\nSources: (.+?)\.$", given, re.MULTILINE | re.DOTALL)
    cited = [sentence for _, findings, _ in parts for sentence in sentences(findings)]
    sections = [section(topic.partition(REGARD)[0], findings, draw) for topic, findings, _ in parts]
    sources = sorted(set(names(given, "Sources")))
    text = "\n\n".join(
        [
            f"# {question}",
            f"In short: {' '.join(draw.sample(cited, min(len(cited), 5)))}",
            *sections,
            "## What is uncertain",
            f"{ROUND_FIGURES} {' '.join(draw.sample(cited, min(len(cited), 2)))} {NOT_SAID}",
            "## Sources",
            ", ".join(f"[{name}]" for name in sources) or "none",
        ]
    )
    return Answer(text=text, reasoning=thoughts(draw, cited, draw.randint(10, 30)))


def section(topic: str, findings: str, draw: Random) -> str:
    """Write one section of the report."""
    linked = (
        "From this follows for the question that the conditions decide more than the method does.",
        "Taken together, these statements point in one direction.",
        "The figures belong together and should be read together.",
        "What this means in practice depends on size and place.",
    )
    return f"## {topic}\n\n{findings}\n\n{draw.choice(linked)}"


def says(text: str, reasoning: str, *calls: ToolCall) -> Answer:
    return Answer(text=text, reasoning=reasoning, tool_calls=calls)


def call(name: str, **arguments: object) -> ToolCall:
    return ToolCall(name, json.dumps(arguments))


PARTS: dict[str, Callable[[ModelRequest, Random], Answer]] = {
    "brief": brief,
    "supervisor": supervisor,
    "researcher": researcher,
    "compress": compress,
    "report": report,
}
