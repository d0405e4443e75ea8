"""What is said to people during a run, each thing once; all but a server's own words is kept for the summary."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from rotoscope.replayer.failures import FailureKind

Say: TypeAlias = Callable[[str], None]
"""Takes a line for people."""
_NOTE = "note: "


def notes_once(say: Say) -> Say:
    """Return what says each note once and everything else each time, for several runs in a row."""
    said: set[str] = set()

    def once(text: str) -> None:
        if text.startswith(_NOTE) and text in said:
            return
        said.add(text)
        say(text)

    return once


class Notes:
    """Say each note once and keep it."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._notes: dict[str, None] = {}
        self._heard: set[FailureKind] = set()

    def add(self, text: str) -> None:
        """Say and keep a note, unless it was before."""
        if text not in self._notes:
            self._notes[text] = None
            self._say(f"{_NOTE}{text}")

    def hear(self, kind: FailureKind, message: str) -> None:
        """Say the first failure of a kind with the server's message, which may echo a prompt and is not kept."""
        if kind not in self._heard:
            self._heard.add(kind)
            self._say(f"request failed: {kind.value}{': ' if message else ''}{message}")

    @property
    def kept(self) -> tuple[str, ...]:
        return tuple(self._notes)
