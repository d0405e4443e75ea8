"""A search over documents: passages ranked by BM25 (Robertson and Zaragoza, 2009), the whole text by name."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

DOCUMENTS = Path(__file__).parent / "documents"
K1 = 1.5
"""How soon more occurrences of a word stop counting."""
B = 0.75
"""How much a long passage has to make up for its length."""
STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        "a an and are as at be been by can do does each for from had has have how in into is it its many more most much must "
        "not of on one or other some than that the their them there they this to up was were what when where which who why "
        "will with",
    )
)


@dataclass(frozen=True)
class Document:
    """A text with a name, which is that of its file, and a title; paragraphs are separated by empty lines."""

    name: str
    title: str
    text: str

    @property
    def paragraphs(self) -> list[str]:
        return self.text.split("\n\n")


@dataclass(frozen=True)
class Passage:
    """A paragraph of a document, and how well it matches."""

    document: Document
    text: str
    score: float = 0.0


@dataclass(frozen=True)
class Library:
    """Documents that can be searched and read."""

    documents: Sequence[Document]

    @classmethod
    def load(cls, folder: Path = DOCUMENTS) -> Self:
        """Read all documents of a folder: a title as first line, and paragraphs."""
        documents = []
        for path in sorted(folder.glob("*.md")):
            title, _, text = path.read_text(encoding="utf-8").partition("\n")
            documents.append(Document(path.stem, title.removeprefix("# "), text.strip()))
        return cls(documents)

    def document(self, name: str) -> Document:
        """Return the document of a name, or raise ValueError."""
        for document in self.documents:
            if document.name == name:
                return document
        raise ValueError(f"there is no document {name!r}; search finds the names of those there are")

    def search(self, query: str, *, limit: int = 5) -> list[Passage]:
        """Return the passages that match best, best first; those that share no word with the query are left out."""
        words = terms(query)
        found = [
            Passage(passage.document, passage.text, score)
            for passage, counts in zip(self._passages, self._counts, strict=True)
            if (score := self._score(words, counts)) > 0
        ]
        return sorted(found, key=lambda passage: -passage.score)[:limit]

    def _score(self, words: Sequence[str], counts: Counter[str]) -> float:
        norm = K1 * (1 - B + B * counts.total() / self._mean_length)
        return sum(self._weights.get(word, 0.0) * counts[word] * (K1 + 1) / (counts[word] + norm) for word in words)

    @cached_property
    def _passages(self) -> list[Passage]:
        return [Passage(document, text) for document in self.documents for text in document.paragraphs]

    @cached_property
    def _counts(self) -> list[Counter[str]]:
        return [Counter(terms(passage.document.title + " " + passage.text)) for passage in self._passages]

    @cached_property
    def _mean_length(self) -> float:
        return sum(counts.total() for counts in self._counts) / max(1, len(self._counts))

    @cached_property
    def _weights(self) -> dict[str, float]:
        """Return how much each word says: rare ones more than common ones."""
        passages_with = Counter(word for counts in self._counts for word in counts)
        total = len(self._counts)
        return {word: math.log(1 + (total - n + 0.5) / (n + 0.5)) for word, n in passages_with.items()}


def terms(text: str) -> list[str]:
    """Return the words of a text that say something, lower case and in the singular, as far as the ending tells."""
    return [singular(word) for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in STOP_WORDS]


def singular(word: str) -> str:
    if len(word) < 4 or not word.endswith("s") or word.endswith("ss"):
        return word
    return f"{word[:-3]}y" if word.endswith("ies") else word[:-1]
