"""Where a recording goes: the next free number in a folder, claimed before the run and never written over."""

from __future__ import annotations

import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path

from rotoscope.traces.errors import UnusableInput

TRACE_SUFFIX = ".trace.json"
JOURNAL_SUFFIX = ".journal.jsonl"
_NUMBERED = re.compile(r"^run-(\d+)\.")


@dataclass(frozen=True, slots=True)
class Place:
    """The two files of one recording: the journal while it runs, the trace afterwards."""

    journal: Path
    trace: Path

    def give_up(self) -> None:
        """Remove the journal."""
        self.journal.unlink(missing_ok=True)


def claim(folder: Path) -> Place:
    """Make the folder if need be and claim the next number in it by creating its journal.

    Two recordings that start at once get different numbers. Raises UnusableInput when the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = [int(match[1]) for name in os.listdir(folder) if (match := _NUMBERED.match(name))]
        for number in itertools.count(max(taken, default=0) + 1):
            name = f"run-{number:04}"
            try:
                (folder / (name + JOURNAL_SUFFIX)).touch(mode=0o600, exist_ok=False)
            except FileExistsError:
                continue
            return Place(folder / (name + JOURNAL_SUFFIX), folder / (name + TRACE_SUFFIX))
    except OSError as error:
        raise UnusableInput(f"{folder}: traces cannot be written here: {error.strerror}") from error
    raise AssertionError("numbers do not end")
