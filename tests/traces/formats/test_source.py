from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from rotoscope.traces import TraceError, UnusableInput
from rotoscope.traces.formats.source import HEAD_BYTES, Source, opened

LINES = b'{"a": 1}\n\n  \n[2]\n"last"'


def test_lines_come_with_their_numbers_and_blank_ones_are_left_out() -> None:
    assert list(Source.of_bytes(LINES).lines()) == [(1, {"a": 1}), (4, [2]), (5, "last")]


def test_a_line_that_is_no_json_is_named() -> None:
    with pytest.raises(TraceError, match=r"^x:2: not JSON|^x:2: the file ends") as caught:
        list(Source.of_bytes(b"1\n{]\n3", "x").lines())

    assert caught.value.line == 2


def test_a_compressed_file_is_read_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(LINES))

    with opened(path) as source:
        assert source.head == LINES
        assert source.whole() == LINES
        assert len(list(source.lines())) == 3


@pytest.mark.parametrize("zipped", [False, True])
def test_a_pipe_is_read_whole(zipped: bool) -> None:
    reading, writing = os.pipe()
    os.write(writing, gzip.compress(LINES) if zipped else LINES)
    os.close(writing)

    with opened(Path(f"/dev/fd/{reading}")) as source:
        assert source.whole() == LINES
    os.close(reading)


@pytest.mark.parametrize("cut", [12, -4])
def test_a_compressed_file_that_is_cut_is_an_error_with_its_name(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(os.urandom(5000))[:cut])

    with opened(path) as source, pytest.raises(UnusableInput, match=f"^{path}: .*compressed file is damaged"):
        source.whole()


def test_a_compressed_file_with_damage_inside_is_an_error_with_its_name(tmp_path: Path) -> None:
    path = tmp_path / "x"
    data = bytearray(gzip.compress((LINES + b"\n") * 100))
    data[-8] ^= 0xFF
    path.write_bytes(data)

    with opened(path) as source, pytest.raises(UnusableInput, match=f"^{path}: .*compressed file is damaged"):
        list(source.lines())


def test_only_the_head_of_a_compressed_file_is_unpacked_before_it_is_known(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(b"\n" * (3 * HEAD_BYTES)))

    with opened(path) as source:
        assert len(source.head) == HEAD_BYTES


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnusableInput, match="cannot be read: No such file"), opened(tmp_path / "x"):
        pass
