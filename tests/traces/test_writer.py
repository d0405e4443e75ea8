from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from rotoscope.testing import make_trace
from rotoscope.traces import load, save
from rotoscope.traces.writer import write_all, write_whole


class NearlyFullDisk(io.RawIOBase):
    """Takes some bytes at a time and then none, as an unbuffered file on a disk that fills."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.content = b""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        taken = bytes(data[: min(self.room, 4)])
        if not taken:
            raise OSError(28, "No space left on device")
        self.room -= len(taken)
        self.content += taken
        return len(taken)


def test_what_an_unbuffered_file_leaves_over_is_written_too() -> None:
    disk = NearlyFullDisk(room=100)

    write_all(disk, b"one whole line\n")  # type: ignore[arg-type]

    assert disk.content == b"one whole line\n"


def test_a_line_that_does_not_fit_is_an_error_at_once() -> None:
    disk = NearlyFullDisk(room=10)

    with pytest.raises(OSError, match="No space left"):
        write_all(disk, b"one whole line\n")  # type: ignore[arg-type]


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "one.trace.json"
    save(make_trace(turns=1), path)

    save(make_trace(turns=2), path)

    assert load(path) == make_trace(turns=2)
    assert [found.name for found in tmp_path.iterdir()] == ["one.trace.json"]


def test_a_file_that_cannot_be_put_in_place_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()

    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "taken", b"content")

    assert [found.name for found in tmp_path.iterdir()] == ["taken"]
