from __future__ import annotations

import gzip
import os
from collections.abc import Callable
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


def test_a_damaged_line_has_one_number() -> None:
    for data, message in ((b'{}\n{"a" 1}\n', "x:2: not JSON at column 6: .*"), (b'{}\n{"a":', "x:2: the file ends .*")):
        with pytest.raises(TraceError, match=f"^{message}$") as caught:
            list(Source.of_bytes(data, "x").lines())

        assert "line" not in str(caught.value)


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


def test_the_head_of_files_that_were_compressed_one_by_one_and_put_together_is_that_of_all() -> None:
    parts = [b"", b'{"a": 1}\n', b'{"a": 2}\n', b"x" * HEAD_BYTES]

    head = Source.of_bytes(b"".join(map(gzip.compress, parts))).head

    assert head == b"".join(parts)[:HEAD_BYTES]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_byte_order_mark_is_passed_over(pack: Callable[[bytes], bytes]) -> None:
    source = Source.of_bytes(pack(b'\xef\xbb\xbf{"a": 1}\n{"a": 2}\n'))

    assert source.head == source.whole() == b'{"a": 1}\n{"a": 2}\n'
    assert list(source.lines()) == [(1, {"a": 1}), (2, {"a": 2})]


def test_an_object_over_several_lines_is_told_from_a_cut_one() -> None:
    with pytest.raises(TraceError, match="x:1: expected a whole JSON object a line, found one over several lines"):
        list(Source.of_bytes(b'{\n "a": 1\n}\n', "x").lines())
    with pytest.raises(TraceError, match=r"x:2: .*truncated"):
        list(Source.of_bytes(b'{"a": 1}\n{', "x").lines())
