"""What the person who records is told, on standard error: standard output belongs to the command."""

from __future__ import annotations

import contextlib
import sys

from rotoscope.recorder.losses import phrased
from rotoscope.recorder.recorded_run import Finished
from rotoscope.recorder.summary import summary


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
    if lines and (lost := _lost(finished)):
        lines.append(lost)
    if finished.path is not None:
        lines.append(f"trace: {finished.path}")
    return lines


def about_in_one_line(finished: Finished) -> str:
    """Return the same in one line, for where runs are many."""
    if finished.trace is None or finished.path is None:
        return finished.trouble or "nothing was recorded"
    besides = "; ".join(filter(None, (finished.trouble, _lost(finished))))
    line = f"{summary(finished.trace)[0]}: {finished.path}"
    return f"{line} ({besides})" if besides else line


def _lost(finished: Finished) -> str:
    """Return what agents say that is not in the trace, empty where there is no such thing."""
    lost = phrased(finished.run.lost)
    return f"in the agent: {lost}" if lost else ""
