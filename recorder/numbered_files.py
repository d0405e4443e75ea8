"""Where a recording goes: the next free number in a folder, claimed before the run and never written over.

Whoever writes a journal holds a lock on it, so that it can be told from one that a killed recording left.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from rotoscope.traces.errors import UnusableInput

TRACE_SUFFIX = ".trace.json"
JOURNAL_SUFFIX = ".journal.jsonl"
_NUMBERED = re.compile(r"^run-(\d+)\.")


@dataclass(frozen=True, slots=True)
class Place:
    """The two files of one recording: the journal while it runs, the trace afterwards."""

    journal: Path
    trace: Path

    @property
    def number(self) -> int:
        """Its number in the folder."""
        return int(self.trace.name.removeprefix("run-").removesuffix(TRACE_SUFFIX))

    def open_journal(self) -> BinaryIO:
        """Open the journal, unbuffered, and hold a lock on it until it is closed. Raises OSError."""
        file = self.journal.open("wb", buffering=0)
        with contextlib.suppress(
            OSError
        ):  # a file system without locks: recordings there are not to be recovered early
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file

    def is_of(self, journal: BinaryIO) -> bool:
        """Tell whether this is still the place of a journal that was opened here; somebody may have removed it."""
        try:
            return os.path.samestat(os.fstat(journal.fileno()), self.journal.stat())
        except OSError:
            return False

    def give_up(self) -> None:
        """Remove the journal."""
        with contextlib.suppress(OSError):
            self.journal.unlink(missing_ok=True)


class Numbers:
    """Claims one number after another in a folder; it is listed once only, as it may hold very many traces."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last = 0

    def claim(self) -> Place:
        """Claim the next free number. Raises UnusableInput when the folder cannot be written."""
        place = claim(self._folder, after=self._last)
        self._last = place.number
        return place


def claim(folder: Path, *, after: int = 0) -> Place:
    """Make the folder if need be and claim the next number in it by creating its journal.

    The next is the one behind all that are taken, or the first free one behind `after`. Two recordings that start at once
    get different numbers. Raises UnusableInput when the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number in itertools.count((after or _greatest(folder)) + 1):
            place = Place(folder / f"run-{number:04}{JOURNAL_SUFFIX}", folder / f"run-{number:04}{TRACE_SUFFIX}")
            if place.trace.exists():
                continue
            try:
                place.journal.touch(mode=0o600, exist_ok=False)
            except FileExistsError:
                continue
            return place
    except OSError as error:
        raise UnusableInput(f"{folder}: traces cannot be written here: {error.strerror}") from error
    raise AssertionError("numbers do not end")


def _greatest(folder: Path) -> int:
    return max((int(match[1]) for name in os.listdir(folder) if (match := _NUMBERED.match(name))), default=0)


def is_being_written(journal: Path) -> bool:
    """Tell whether a recording is writing a journal at this moment. Raises OSError."""
    with journal.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
    return False
