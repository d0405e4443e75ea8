"""Counting of texts in a thread, where the server does not tell how many tokens they are.

The tokenizer is loaded when the first call is over. Where it cannot be, what it would count are estimates.
"""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401 - tokenizers load it, and it must not come to be while the process forks
import logging
import queue
import threading
from collections.abc import Callable
from typing import Protocol

from rotoscope.recorder.counting import Counted, Tally, Uncounted
from rotoscope.recorder.token_counters import Tokenizer, load_counter

COUNTING_S = 10.0
"""How long counting may go on after a run's last answer."""

_log = logging.getLogger(__name__)


class HandsOutTexts(Protocol):
    """A run, as counting sees it."""

    def uncounted(self) -> list[Uncounted]:
        """Return texts that wait to be counted, and forget them."""

    def counted(self, counts: list[Counted]) -> None:
        """Take in counts."""


def tally_of(tokenizer: Tokenizer) -> Tally:
    """Load a tokenizer. Raises UnusableInput when it cannot be loaded."""
    return Tally(load_counter(tokenizer))


class CountingThread:
    """Counts the texts of runs, one run after another."""

    def __init__(self, tokenizer: Tokenizer, *, load: Callable[[Tokenizer], Tally] = tally_of) -> None:
        self._tokenizer = tokenizer
        self._load = load
        self._queue: queue.SimpleQueue[HandsOutTexts | threading.Event] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.RLock()  # what the garbage collector closes in the midst of it may come back here

    @property
    def name(self) -> str:
        """What the tokenizer is called in traces."""
        return self._tokenizer.name

    def submit(self, run: HandsOutTexts) -> None:
        """Let the texts that a run has be counted; never waits."""
        with self._lock:
            if self._thread is None and not self._start():
                return
        self._queue.put(run)

    def finish(self, *, timeout_s: float = COUNTING_S) -> None:
        """Wait until all that was submitted so far is counted, at most `timeout_s`; the rest stays uncounted."""
        if self._thread is None:
            return
        reached = threading.Event()
        self._queue.put(reached)
        if not reached.wait(timeout_s):
            _log.warning("some messages were not counted when the recording ended: their sizes are estimates")

    def _start(self) -> bool:
        """Start the thread; tell whether one can be had, which at the end of the process is not so everywhere."""
        thread = threading.Thread(target=self._count_all, name="rotoscope-counting", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            _log.warning("texts could not be counted: their sizes are estimates")
            return False
        self._thread = thread
        return True

    def _count_all(self) -> None:
        tally: Tally | None = None
        try:
            tally = self._load(self._tokenizer)
        except Exception:  # noqa: BLE001 - what a library says of a file may repeat it
            _log.warning("the tokenizer could not be loaded: sizes that it would count are estimates")
        while True:
            next_ = self._queue.get()
            if isinstance(next_, threading.Event):
                next_.set()
            else:
                _count(next_, tally)


def _count(run: HandsOutTexts, tally: Tally | None) -> None:
    while texts := run.uncounted():
        if tally is None:
            continue
        try:
            run.counted(tally.count(texts))
        except Exception:  # noqa: BLE001 - as above, of a text
            _log.warning("texts could not be counted: their sizes are estimates")
