"""Look into files that hold others: gzip, bzip2, xz, zip and tar, told from their bytes and unpacked piece by piece."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, BinaryIO

from rotoscope.traces.errors import UnusableInput

CHUNK_BYTES = 1 << 20
MOST_UNPACKED_BYTES = 16 << 30
"""What unpacks to more is refused: a small file can hold endless zeros."""
DEEPEST = 4
"""Files within files within files."""
_MAGIC_BYTES = 512
"""A tar has its mark in the middle of its first block."""

_UNPACKERS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
    b"\x5d\0\0\x80\0": lzma.LZMAFile,
}
_OPAQUE = {b"\x28\xb5\x2f\xfd": "zstd", b"7z\xbc\xaf\x27\x1c": "7z", b"Rar!": "rar", b"\x04\x22\x4d\x18": "lz4"}
_OPAQUE |= {b"\x1f\x9d": "compress", b"PAR1": "Parquet"}


def is_packed(head: bytes) -> bool:
    """Tell from its beginning whether a file is packed."""
    return head.startswith((*_UNPACKERS, *_OPAQUE, b"PK\x03\x04")) or _is_tar(head)


def pieces_of(file: BinaryIO | IO[bytes]) -> Iterator[bytes]:
    """Yield the rest of a file piece by piece; raise UnusableInput where it does not end."""
    read = 0
    while piece := file.read(CHUNK_BYTES):
        read += len(piece)
        if read > MOST_UNPACKED_BYTES:
            raise UnusableInput(f"expected at most {MOST_UNPACKED_BYTES} bytes in a file")
        yield piece


def members(file: BinaryIO | IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield name and contents of what is packed in a file, nothing where it is no packed file; it must be seekable.

    What has no name of its own is called `unpacked`. Raises UnusableInput where it is packed in another way.
    """
    file.seek(0)
    magic = file.read(_MAGIC_BYTES)
    for start, name in _OPAQUE.items():
        if magic.startswith(start):
            raise UnusableInput(f"is packed as {name}, which cannot be looked into: unpack it")
    for start, unpack in _UNPACKERS.items():
        if magic.startswith(start):
            file.seek(0)
            with unpack(file) as unpacked:
                yield "unpacked", unpacked
            return
    if _is_tar(magic):
        file.seek(0)
        with tarfile.open(fileobj=file, mode="r:") as tar:
            for one in tar:
                if (content := tar.extractfile(one)) is not None:
                    with content:
                        yield one.name, content
        return
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            for info in archive.infolist():
                with archive.open(info) as member:
                    yield info.filename, member


def _is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar"


@contextmanager
def unpacking(where: str) -> Iterator[None]:
    """Turn everything that damaged archives raise into an UnusableInput with the name of the file."""
    try:
        yield
    except UnusableInput as error:
        raise UnusableInput(str(error) if str(error).startswith(where) else f"{where}: {error}") from error
    except _DAMAGE as error:
        raise UnusableInput(f"{where}: is packed and damaged, so that nobody can say what is in it") from error


_DAMAGE = (
    EOFError,
    zlib.error,
    lzma.LZMAError,
    gzip.BadGzipFile,
    zipfile.BadZipFile,
    tarfile.TarError,
    NotImplementedError,
    RuntimeError,
)
"""RuntimeError: encrypted; bzip2 raises OSError, which is for whoever opened the file."""
