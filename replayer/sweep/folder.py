"""The folder of a sweep: the plan, a folder of results a point, and what was set aside.

sweep.json              the plan, written before the first point runs
sweep.csv, .parquet     a row for each point that has ended
points/POINT/           the results of a replay, as `rotoscope replay` writes them
set-aside/POINT.N/      results of points that were interrupted; nothing is deleted
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from rotoscope.replayer.reading import read_summary
from rotoscope.replayer.results import SUMMARY_FILE, check_folder
from rotoscope.replayer.summary import Summary
from rotoscope.traces.errors import RunFailed, UnusableInput
from rotoscope.traces.writer import write_whole

POINTS = "points"
SET_ASIDE = "set-aside"


class SweepFolder:
    """A folder that one plan owns."""

    def __init__(self, path: Path) -> None:
        """Only `opened` makes sure that it is this plan's."""
        self.path = path

    @classmethod
    def opened(cls, path: Path, *, file: str, format_name: str, version: int, plan: dict[str, Any]) -> SweepFolder:
        """Open the folder of a plan, which is written to `file` if it is new.

        Raises UnusableInput where it belongs to another plan, naming what differs, or holds anything else, and RunFailed where
        somebody is at work there.
        """
        check_folder(path)
        folder = cls(path)
        content = {"format": {"name": format_name, "version": version}, **plan}
        with _errors(path):
            path.mkdir(parents=True, exist_ok=True)
        with folder.owned(), _errors(path):  # of two that come together one writes its plan
            if (path / file).exists():
                folder._check_same(path / file, content)
            elif any(path.iterdir()):
                raise UnusableInput(f"{str(path)!r} holds something else: name another folder with -o")
            else:
                write_whole(path / file, orjson.dumps(content, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_INDENT_2))
            (path / POINTS).mkdir(exist_ok=True)
        return folder

    @contextmanager
    def owned(self) -> Iterator[None]:
        """Keep others of our kind out of the folder: what one has in flight would look broken off to them."""
        handle = os.open(self.path, os.O_RDONLY)
        try:
            _lock(handle, self.path)
            yield
        finally:
            os.close(handle)

    def place(self, name: str) -> Path:
        """Return where the results of a point are."""
        return self.path / POINTS / name

    def ended(self, name: str) -> Summary | None:
        """Return the summary of a point that has ended; None where it has to run.

        It runs again where it was interrupted, where no session was completed, and where its summary is damaged.
        """
        place = self.place(name)
        if not (place / SUMMARY_FILE).exists():
            return None
        try:
            summary = read_summary(place)
        except UnusableInput:
            return None
        return None if summary.interrupted or not summary.sessions.ok else summary

    def set_aside(self, name: str) -> Path | None:
        """Move what there is of a point out of the way; return where it is then, None where there is nothing."""
        place, parent = self.place(name), self.path / SET_ASIDE
        if not place.exists():
            return None
        with _errors(self.path):
            if not any(place.iterdir()):
                place.rmdir()
                return None
            parent.mkdir(exist_ok=True)
            number = next(n for n in range(1, 1 << 30) if not (parent / f"{name}.{n}").exists())
            return place.rename(parent / f"{name}.{number}")

    def withdraw(self, file: str) -> None:
        """Take the plan back where nothing was begun by it, so that another one may have the folder."""
        with _errors(self.path):
            if not any((self.path / POINTS).iterdir()) and not (self.path / SET_ASIDE).exists():
                (self.path / file).unlink()
                (self.path / POINTS).rmdir()

    def write(self, file: str, data: bytes) -> None:
        """Write a file, whole or not at all."""
        with _errors(self.path):
            write_whole(self.path / file, data)

    def _check_same(self, file: Path, wanted: dict[str, Any]) -> None:
        try:
            there = orjson.loads(file.read_bytes())
        except orjson.JSONDecodeError:
            there = None
        if not isinstance(there, dict):
            raise UnusableInput(f"{file} is damaged: name another folder with -o")
        different = sorted(_differences(there, orjson.loads(orjson.dumps(wanted))))
        if different:
            raise UnusableInput(
                f"{str(self.path)!r} is of another plan, which differs in {', '.join(different)}: "
                "call it as before, or name another folder with -o"
            )


def _differences(there: dict[str, Any], wanted: dict[str, Any]) -> Iterator[str]:
    for name in {*there, *wanted}:
        one, other = there.get(name), wanted.get(name)
        if name == "options" and isinstance(one, dict) and isinstance(other, dict):
            yield from _differences(one, other)
        elif one != other:
            yield name


def _lock(handle: int, path: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise RunFailed(f"another process is at work in {str(path)!r}: wait for its end") from None
    except OSError:  # a file system without locks
        return


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunFailed(f"cannot write to {str(path)!r}: {error.strerror}") from error
