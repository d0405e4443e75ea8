"""The documents that come with the research agents, and a search over them."""

from .library import Document, Library, Passage

__all__ = ["Document", "Library", "Passage"]
