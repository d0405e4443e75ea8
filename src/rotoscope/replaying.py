"""One replay of the command line: what it says goes to stderr, with a line of progress on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from rotoscope.loading import loading

if TYPE_CHECKING:
    from rotoscope.replayer.options import ReplayOptions
    from rotoscope.replayer.performing import Watch
    from rotoscope.replayer.simulator.server import SimulatorOptions
    from rotoscope.replayer.summary import Summary
    from rotoscope.traces.model import Trace


def run_replay(traces: list[Trace], options: ReplayOptions) -> Summary:
    """Replay traces against a server and return the summary."""
    with loading():
        from rotoscope.replayer.run import replay

    return _shown(lambda watch: replay(traces, options, say=say, watch=watch))


def run_modelled_replay(traces: list[Trace], options: ReplayOptions, simulator: SimulatorOptions) -> Summary:
    """Replay traces on the simulator in modelled time and return the summary."""
    with loading():
        from rotoscope.replayer.modelled_run import replay_modelled

    return _shown(lambda watch: replay_modelled(traces, options, simulator, say=say, watch=watch))


def _shown(run: Callable[[Watch | None], Summary]) -> Summary:
    from rotoscope.replayer.progress import progress_line

    if not sys.stderr.isatty():
        return run(None)
    with progress_line(sys.stderr) as show:
        return run(show)


def say(text: str) -> None:
    """Write a line for people, over a line of progress if there is one."""
    start_of_line = "\r\033[K" if sys.stderr.isatty() else ""
    try:
        sys.stderr.write(f"{start_of_line}{text}\n")
    except OSError:  # nobody reads it, or the disk is full: that ends no measurement
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
