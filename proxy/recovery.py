"""The traces of recordings that were killed, from the journals that they left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rotoscope.recorder.building import Built, build_trace
from rotoscope.recorder.numbered_files import JOURNAL_SUFFIX, TRACE_SUFFIX, is_being_written
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.journal_files import read_journal
from rotoscope.traces.model import Trace
from rotoscope.traces.writer import save


class NothingRecorded(UnusableInput):
    """A journal is whole and has no call."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What became of a journal in a folder."""

    journal: Path
    trace: Trace | None = None
    """None where none was made."""
    path: Path | None = None
    """Where it is."""
    refused: int = 0
    """Requests that the server refused and that were not sent again."""
    reason: str = ""
    """Why none was made."""
    is_failure: bool = False
    """Whether there should be one."""


def recover(journal: Path, target: Path | None = None) -> Recovered:
    """Make the trace of a journal, beside it if no other file is named. Raises UnusableInput, TraceError."""
    target = target or trace_of(journal)
    if target.exists():
        raise UnusableInput(f"{target} is there already: remove it, or name another file with --output")
    built = _built(journal)
    if built.trace is None:
        raise NothingRecorded(f"{journal}: no call was recorded, so there is no trace to make")
    try:
        save(built.trace, target)
    except OSError as error:
        raise UnusableInput(f"{target}: cannot be written: {error.strerror}") from error
    return Recovered(journal, built.trace, target, built.refused)


def recover_all(folder: Path) -> Iterator[Recovered]:
    """Make the traces of all journals in a folder that have none; yield what became of each.

    Raises UnusableInput when the folder cannot be read.
    """
    try:
        journals = sorted(path for path in folder.iterdir() if path.name.endswith(JOURNAL_SUFFIX))
    except OSError as error:
        raise UnusableInput(f"{folder}: cannot be read: {error.strerror}") from error
    for journal in journals:
        yield _one_of_many(journal)


def trace_of(journal: Path) -> Path:
    """Return the file of the trace that belongs to a journal."""
    return journal.parent / (journal.name.removesuffix(JOURNAL_SUFFIX) + TRACE_SUFFIX)


def _one_of_many(journal: Path) -> Recovered:
    try:
        if trace_of(journal).exists():
            return Recovered(journal, reason="its trace is there already")
        if is_being_written(journal):
            return Recovered(journal, reason="it is being recorded")
        if b"\n" not in journal.read_bytes():  # killed before its header was written
            return Recovered(journal, reason="no call was recorded")
        return recover(journal)
    except NothingRecorded:
        return Recovered(journal, reason="no call was recorded")
    except OSError as error:
        return Recovered(journal, reason=f"it cannot be read: {error.strerror}", is_failure=True)
    except UnusableInput as error:
        return Recovered(journal, reason=str(error), is_failure=True)


def _built(journal: Path) -> Built:
    try:
        if is_being_written(journal):
            raise UnusableInput(f"{journal}: it is being recorded: its trace is made when the recording ends")
        return build_trace(read_journal(journal))
    except OSError as error:
        raise UnusableInput(f"{journal}: cannot be read: {error.strerror}") from error
