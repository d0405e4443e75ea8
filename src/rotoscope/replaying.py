"""One replay of the command line: what it says goes to stderr, with a line of progress on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rotoscope.loading import loading

if TYPE_CHECKING:
    from rotoscope.replayer.options import ReplayOptions
    from rotoscope.replayer.summary import Summary
    from rotoscope.traces.model import Trace


def run_replay(traces: list[Trace], options: ReplayOptions) -> Summary:
    """Replay traces and return the summary."""
    with loading():
        from rotoscope.replayer.progress import progress_line
        from rotoscope.replayer.run import replay

    if not sys.stderr.isatty():
        return replay(traces, options, say=say)
    with progress_line(sys.stderr) as show:
        return replay(traces, options, say=say, watch=show)


def say(text: str) -> None:
    """Write a line for people, over a line of progress if there is one."""
    start_of_line = "\r\033[K" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{start_of_line}{text}\n")
