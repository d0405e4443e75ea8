"""What a model can do with the documents: search them, and read one."""

from __future__ import annotations

from typing import Annotated

from rotoscope import trace_tool

from .library import Library

LIBRARY = Library.load()
PASSAGES = 5


@trace_tool
def search(
    query: Annotated[str, "What to look for, in a few telling words or as a question."],
) -> str:
    """Search the collection of documents and return the passages that match best, best first.

    Each passage stands below the name of its document, in square brackets, and the document's title. Passages are found
    by the words that they share with the query, rare words counting most, so use the words that a text on the matter
    would use, leave out what is in every text, and try other words when nothing fits. A passage is a paragraph: read the
    document when you need what stands around it.
    """
    found = LIBRARY.search(query, limit=PASSAGES)
    if not found:
        return "nothing was found; try other words"
    return "\n\n".join(f"[{one.document.name}] {one.document.title}\n{one.text}" for one in found)


@trace_tool
def read(
    document: Annotated[str, "The name of the document, as it stands in square brackets before a passage."],
) -> str:
    """Return the whole text of a document of the collection.

    Use it for a document whose passages promise more than they say. Documents are short, a page or so, and reading one
    twice tells nothing new. Several documents can be read in one answer by calling the tool several times.
    """
    found = LIBRARY.document(document)
    return f"[{found.name}] {found.title}\n\n{found.text}"
