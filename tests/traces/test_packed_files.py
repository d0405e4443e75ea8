from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from functools import partial
from pathlib import Path

import pytest

from rotoscope.traces import packed_files
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.packed_files import is_packed, members, pieces_of, unpacking


def unpacked(data: bytes) -> list[tuple[str, bytes]]:
    return [(name, member.read()) for name, member in members(io.BytesIO(data))]


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lzma.compress, partial(lzma.compress, format=lzma.FORMAT_ALONE)]
)
def test_a_compressed_file_has_one_member(pack: object) -> None:
    assert callable(pack)
    assert unpacked(pack(b"content")) == [("unpacked", b"content")]


def test_a_zip_is_told_even_behind_other_bytes() -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("a", "1")
        zipped.writestr("b/c", "2")

    assert unpacked(b"#!/bin/sh\n" + archive.getvalue()) == [("a", b"1"), ("b/c", b"2")]


def test_a_tar_has_members_that_may_be_packed_again() -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(Path(__file__).parent, "folder", recursive=False)
        for name, content in (("folder/a.gz", gzip.compress(b"1")), ("b", b"2" * 2000)):
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))

    assert is_packed(archive.getvalue()[:4096])
    assert unpacked(archive.getvalue()) == [("folder/a.gz", gzip.compress(b"1")), ("b", b"2" * 2000)]


def test_a_tar_that_is_cut_is_not_called_readable() -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        info = tarfile.TarInfo("a")
        info.size = 4000
        tar.addfile(info, io.BytesIO(bytes(4000)))

    with pytest.raises(UnusableInput, match="x: is packed and damaged"), unpacking("x"):
        unpacked(archive.getvalue()[:1500])


@pytest.mark.parametrize("head", [b"\x1f\x9d\x90", b"PAR1", b"\x28\xb5\x2f\xfd"])
def test_what_cannot_be_looked_into_is_refused(head: bytes) -> None:
    with pytest.raises(UnusableInput, match="which cannot be looked into"):
        unpacked(head + bytes(100))


def test_other_files_have_no_members() -> None:
    assert unpacked(b'{"format": 1}') == []
    assert unpacked(b"") == []


def test_an_encrypted_member_is_not_called_readable() -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.writestr("a", "1")
    data = bytearray(archive.getvalue())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1

    with pytest.raises(UnusableInput, match="x: is packed and damaged"), unpacking("x"):
        unpacked(bytes(data))


def test_a_file_without_end_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(packed_files, "MOST_UNPACKED_BYTES", 1000)

    with pytest.raises(UnusableInput, match="at most 1000 bytes"):
        list(pieces_of(io.BytesIO(bytes(2000))))
