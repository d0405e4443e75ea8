"""The tools: a search in the library that comes with the examples, and reading what it found."""

from __future__ import annotations

from functools import cache

from examples.corpus import Library
from rotoscope import trace_tool

FOUND_LIMIT = 3
"""Documents that a search returns, at most."""


@trace_tool
def search(query: str) -> list[str]:
    """Return the names of the documents whose passages match best, best first."""
    passages = library().search(query, limit=3 * FOUND_LIMIT)
    return list(dict.fromkeys(passage.document.name for passage in passages))[:FOUND_LIMIT]


@trace_tool
def read(name: str) -> str:
    """Return the whole text of a document, its title first."""
    document = library().document(name)
    return f"{document.title}\n\n{document.text}"


@cache
def library() -> Library:
    """Return the library, which is loaded once."""
    return Library.load()
