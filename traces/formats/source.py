"""A trace file that is being read: its head tells what it is, then it is read once, whole or line by line.

Files may be compressed with gzip, and may come through a pipe. What is no trace is never read beyond its head.
"""

from __future__ import annotations

import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from gzip import GzipFile
from pathlib import Path
from typing import IO, Any

from rotoscope.traces.errors import TraceError, UnusableInput
from rotoscope.traces.reader import parse_json

HEAD_BYTES = 1 << 20
"""How much of a file is looked at to tell what it is."""
LONGEST_LINE_BYTES = 1 << 28
"""Longer than any request or session of the field; a line beyond it is damage."""

_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
"""Some editors put it in front of UTF-8."""


class Source:
    """An open trace file."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        """Read the head; `name` is for messages."""
        self.name = name
        self._file = file
        self._raw_head = file.read(HEAD_BYTES)
        self._is_zipped = self._raw_head.startswith(_GZIP)
        self.head = (_unzipped_head(self._raw_head) if self._is_zipped else self._raw_head).removeprefix(_BOM)
        """The first megabyte, or less if the file is shorter."""

    @classmethod
    def of_bytes(cls, data: bytes, name: str = "") -> Source:
        """Wrap what is in memory already."""
        return cls(io.BytesIO(data), name)

    def whole(self) -> bytes:
        """Return all of the file."""
        with self._reading() as stream:
            return stream.read().removeprefix(_BOM)

    def lines(self) -> Iterator[tuple[int, Any]]:
        """Yield number and JSON value of each line that is not blank, as it is read; raise TraceError for other lines."""
        with self._reading() as stream:
            number = 0
            while line := stream.readline(LONGEST_LINE_BYTES):
                number += 1
                if len(line) == LONGEST_LINE_BYTES:
                    raise TraceError(f"longer than {LONGEST_LINE_BYTES >> 20} MiB", path=self.name, line=number)
                line = line.removeprefix(_BOM) if number == 1 else line
                if line and not line.isspace():
                    yield number, self._value(line, number, stream)

    def _value(self, line: bytes, number: int, stream: IO[bytes]) -> Any:
        try:
            return parse_json(line)
        except TraceError as error:
            if line.strip() in (b"{", b"[") and stream.readline(LONGEST_LINE_BYTES):
                raise TraceError(
                    "expected a whole JSON object a line, found one over several lines", path=self.name, line=number
                ) from error
            raise error.at(self.name, line=number) from error.__cause__

    @contextmanager
    def _reading(self) -> Iterator[IO[bytes]]:
        try:
            if self._file.seekable():
                self._file.seek(0)
                stream = self._file
            else:
                stream = io.BytesIO(self._raw_head + self._file.read())
            yield GzipFile(fileobj=stream) if self._is_zipped else stream  # type: ignore[misc]  # GzipFile is an IO[bytes]
        except (EOFError, zlib.error) as error:
            raise TraceError("the compressed file is damaged or cut short", path=self.name) from error
        except OSError as error:
            reason = error.strerror or "the compressed file is damaged"
            raise UnusableInput(f"{self.name}: cannot be read: {reason}") from error


@contextmanager
def opened(path: Path) -> Iterator[Source]:
    """Open a file, standard input where it is `-`; raise UnusableInput where it cannot be read."""
    with ExitStack() as stack:
        try:
            file = sys.stdin.buffer if str(path) == "-" else stack.enter_context(open(path, "rb"))
            source = Source(file, str(path))
        except OSError as error:
            raise UnusableInput(f"{path}: cannot be read: {error.strerror}") from error
        yield source


def _unzipped_head(raw: bytes) -> bytes:
    """Return what the members of a compressed file begin with: files that were put together have several."""
    head = bytearray()
    stream = GzipFile(fileobj=io.BytesIO(raw))
    with suppress(EOFError, OSError, zlib.error):
        while piece := stream.read1(HEAD_BYTES - len(head)):
            head += piece
    return bytes(head)
