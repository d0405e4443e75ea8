"""The dialects that are recorded, by path."""

from __future__ import annotations

from rotoscope.recorder.dialects import chat, completions, gemini, messages, responses
from rotoscope.recorder.dialects.answer import Dialect

DIALECTS: tuple[Dialect, ...] = (chat.DIALECT, messages.DIALECT, responses.DIALECT, gemini.DIALECT, completions.DIALECT)


def dialect_of(path: str) -> Dialect | None:
    """Return the dialect of a path without query and last slash; None when it is none of a call."""
    return next((dialect for dialect in DIALECTS if dialect.matches(path)), None)
