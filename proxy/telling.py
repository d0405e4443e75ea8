"""What the person who records is told, on standard error: standard output belongs to the command."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

from rotoscope.proxy.run import Finished
from rotoscope.proxy.summary import summary

_log = logging.getLogger(__name__)


def say(line: str) -> None:
    """Tell one thing."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"rotoscope: {line}\n")
        sys.stderr.flush()


def about(finished: Finished) -> list[str]:
    """Return what there is to tell of a run that ended; nothing when nothing was recorded."""
    lines = summary(finished.trace) if finished.trace is not None else []
    if finished.trouble:
        lines.append(finished.trouble)
    if finished.path is not None:
        lines.append(f"trace: {finished.path}")
    return lines


def about_in_one_line(finished: Finished) -> str:
    """Return the same in one line, for where runs are many."""
    if finished.trace is None or finished.path is None:
        return finished.trouble or "nothing was recorded"
    line = f"{summary(finished.trace)[0]}: {finished.path}"
    return f"{line} ({finished.trouble})" if finished.trouble else line


def kinds_of_errors_told() -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """Return what tells once of each kind of error outside any call, without its text, which may hold what passed."""
    told: set[str] = set()

    def tell(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        number = error.errno if isinstance(error, OSError) else None
        kind = os.strerror(number).lower() if number else type(error).__name__
        if kind not in told:
            told.add(kind)
            _log.warning("an error outside any call, told once: %s", kind)

    return tell
