"""The private side file: what numbers and files of traces stand for, for the person who records and for nobody else.

JSON Lines, one for each trace: `trace` (its file), `trace_id`, `run` (name or session of the run, null where it had none),
`models` by number of the cache domain, `branches` by region and index, `tools` by pseudonym.
"""

from __future__ import annotations

import logging
import os
import stat
from dataclasses import dataclass
from pathlib import Path

import orjson

from rotoscope.recorder.recorded_run import Finished, RecordedRun
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.writer import write_all

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NamesFile:
    """Appends to a file that is its owner's alone."""

    path: Path

    def add(self, finished: Finished) -> None:
        """Write down the names of a run whose trace was written. Never raises."""
        run = finished.run
        if not (isinstance(run, RecordedRun) and run.names and finished.trace and finished.path):
            return
        line = {
            "trace": finished.path.name,
            "trace_id": finished.trace.trace_id,
            "run": _text(run.called) or None,
            "models": {str(number): _text(name) for number, name in run.names.models.items()},
            "branches": {branch: [_text(name) for name in names] for branch, names in run.names.branches.items()},
            "tools": {f"tool{number:02}": _text(name) for number, name in run.names.tools.items()},
        }
        try:
            with os.fdopen(_open(self.path), "ab", buffering=0) as file:
                write_all(file, orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
        except OSError as error:
            _log.warning("names of a run could not be written to the file for them (%s)", error.strerror)


def names_file(path: Path, folder: Path) -> NamesFile:
    """Make the file, or take one that is there and private; `folder` is where traces go. Raises UnusableInput."""
    if path.resolve().is_relative_to(folder.resolve()):
        raise UnusableInput(f"{path}: names do not belong beside the traces, which are passed on: name another place")
    try:
        file = _open(path)
        try:
            status = os.fstat(file)
        finally:
            os.close(file)
    except OSError as error:
        raise UnusableInput(f"{path}: names cannot be written here: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        raise UnusableInput(f"{path}: names are kept in a file that is yours alone: chmod 600, or name another one")
    return NamesFile(path)


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)


def _text(name: str) -> str:
    """Return a name as JSON can hold it."""
    return name.encode("utf-8", "backslashreplace").decode()
