"""Standard error with a line at its end that tells how things are, where it is a terminal."""

from __future__ import annotations

import contextlib
import logging
import shutil
import sys
from collections.abc import Iterator
from typing import TextIO

_ERASE = "\r\x1b[K"


class Screen:
    """Writes lines above a status line, which is drawn anew below them; without a terminal there is no status line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._status = ""

    def write(self, text: str) -> int:
        """Write whole lines."""
        written = self._stream.write(f"{_ERASE}{text}{self._status}" if self._status else text)
        self._stream.flush()
        return written

    def flush(self) -> None:
        """Write what waits to be written."""
        self._stream.flush()

    def show(self, status: str) -> None:
        """Draw the status line, empty for none."""
        if not self._is_terminal:
            return
        status = status[: shutil.get_terminal_size().columns - 1]
        if status != self._status:
            self._status = status
            with contextlib.suppress(OSError, ValueError):
                self._stream.write(_ERASE + status)
                self._stream.flush()


@contextlib.contextmanager
def screen_of_stderr() -> Iterator[Screen]:
    """Let what is said on standard error, our own warnings among it, stand above a status line while the block runs."""
    screen = Screen(sys.stderr)
    handlers = [x for x in logging.getLogger("rotoscope").handlers if isinstance(x, logging.StreamHandler)]
    streams = [handler.setStream(screen) for handler in handlers]
    try:
        with contextlib.redirect_stderr(screen):
            yield screen
    finally:
        screen.show("")
        for handler, stream in zip(handlers, streams, strict=True):
            handler.setStream(stream)
