"""Words for the scripts of the research agents: what was found, and thoughts around it.

A script says what a model might say of the texts that the tools returned: it quotes them sentence by sentence, and puts
drawn phrases between. What is drawn decides nothing.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence

from examples.corpus.library import terms

NAME = re.compile(r"^\[([a-z0-9-]+)\] .*$", re.MULTILINE)
"""How the tools of examples/corpus name a document, at the beginning of a line."""

ASIDES = (
    "That is worth keeping.",
    "I note the figure and the condition that goes with it.",
    "This bears directly on what was asked.",
    "That is one side of it only.",
    "It says how, but not how much.",
    "I should see whether another document says the same.",
    "The year matters here, since practice has changed.",
    "This contradicts nothing so far.",
    "It is more of a side issue, but it explains the rest.",
    "So the limit is not where one would look for it first.",
    "Here a number would help, and there is one.",
    "This is a cause, the other was an effect.",
    "Whether that holds in general is not said.",
    "I take it as it stands.",
    "That narrows the question.",
    "If that is so, the comparison turns on it.",
    "One more condition that must not be lost.",
    "The word used here is a better query than mine.",
    "This is the older practice; the newer one comes after it.",
    "Good, that can be cited.",
)
OPENINGS = (
    "What do I have so far?",
    "Let me go through it in order.",
    "The question has several parts, and they are not equally well covered.",
    "First what is certain.",
    "I read this again with the question in mind.",
    "Before I go on, what does this tell?",
)
CLOSINGS = (
    "That decides what comes next.",
    "So much for this part.",
    "What is missing is clear enough now.",
    "I go on from there.",
    "The rest can wait.",
)


def found(text: str) -> dict[str, str]:
    """Return the documents that a text of tool results tells of, by name, with what it tells of each."""
    texts: dict[str, str] = {}
    _, *parts = NAME.split(text)
    for name, told in zip(parts[::2], parts[1::2], strict=True):
        texts[name] = f"{texts.get(name, '')}\n\n{told.strip()}".strip()
    return texts


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, in order, each once."""
    parts = re.split(r"(?<=[.?!])\s+(?=[A-Z0-9])", " ".join(text.split()))
    return list(dict.fromkeys(part for part in parts if len(part.split()) > 3))


def telling(texts: Mapping[str, str], topic: str, count: int) -> list[tuple[str, str]]:
    """Return the sentences that have most in common with a topic, with their documents, in the order of the texts."""
    wanted = set(terms(topic))
    said = [(name, sentence) for name, text in texts.items() for sentence in sentences(text)]
    ranked = sorted(said, key=lambda one: -len(wanted & set(terms(one[1]))))
    chosen = set(ranked[:count])
    return [one for one in said if one in chosen]


def thoughts(draw: random.Random, material: Iterable[str], count: int) -> str:
    """Think aloud about some of the sentences there are, about `count` of them."""
    known = list(material)
    picked = draw.sample(known, min(len(known), count))
    parts = [draw.choice(OPENINGS)]
    for sentence in picked:
        parts += [sentence, draw.choice(ASIDES)]
    parts += draw.sample(ASIDES, min(len(ASIDES), max(0, count - len(picked))))
    return " ".join([*parts, draw.choice(CLOSINGS)])


def bears_on(text: str, question: str) -> bool:
    """Return whether a text shares two words with a question, or one with a question of few words."""
    wanted = set(terms(question))
    return len(wanted & set(terms(text))) >= (2 if len(wanted) > 5 else 1)


def new_words(draw: random.Random, text: str, question: str, known: Sequence[str], *, count: int) -> list[str]:
    """Draw some long words of the sentences that bear on a question, as somebody does who looks for better queries."""
    useful = " ".join(sentence for sentence in sentences(text) if bears_on(sentence, question))
    words = sorted({word for word in terms(useful or text) if len(word) > 6 and not word.isdigit()} - set(known))
    return draw.sample(words, min(len(words), count))
