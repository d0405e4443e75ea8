"""What agents tell, on its way to a gateway: a queue, and one thread that posts what is in it.

Telling never waits and never raises. What the queue has no room for is dropped and counted, and so is what the gateway
does not take in a few tries, or in one, where it has not taken what came before. It is told how much that was as soon as
it has taken something of the same run. A process that is forked begins with an empty queue and a thread of its own; all that is
shared between threads can be put into from anywhere, also from a signal's handler or while garbage is collected. The
thread imports nothing, so that no fork finds it in the midst of that.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import TypeAlias
from urllib.parse import quote

from rotoscope.recorder.losses import Loss
from rotoscope.recorder.marks import Mark
from rotoscope.recorder.own_headers import RUN_HEADER, TOKEN_HEADER
from rotoscope.sdk import account
from rotoscope.sdk.gateways import Gateway
from rotoscope.sdk.posting import Poster
from rotoscope.sdk.scopes import clock, new_name
from rotoscope.sdk.written_marks import batch_of

_log = logging.getLogger(__name__)

MOST_WAITING = 20_000
"""Marks that wait to be sent; more are dropped."""
MOST_WAITING_WITH_ENDS = 2 * MOST_WAITING
"""Marks and ends of runs together; a run whose end is dropped ends where it is recorded, once nothing comes of it."""
MOST_AT_ONCE = 150
LINGER_S = 0.05
"""How long a batch waits for more."""
MOST_TRIES = 8
"""Of a gateway that has answered what came before; one that has not is tried once at a time."""
MOST_RUNS = 10_000
"""Whose losses are told apart."""
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
EXIT_S = 2.0
"""How long the end of the process may be held up."""

Item: TypeAlias = "tuple[str, Mark | None] | threading.Event"
"""A mark of a run, the end of a run, or somebody who waits until all before has been sent."""


class Sender:
    """Sends what agents of this process tell."""

    def __init__(self, gateway: Gateway, *, first_pause_s: float = FIRST_PAUSE_S) -> None:
        """Send to a gateway; one that does not answer is tried again after a first pause, then after longer ones."""
        self._gateway = gateway
        self._first_pause_s = first_pause_s
        self._is_registered = False
        self.run_of_process: str | None = None
        """The run that all of the process is of, which is told at its end what was lost in it; None where there is none."""
        self._begin()
        _senders.add(self)

    def _begin(self) -> None:
        """Begin with nothing, as a process that was forked does, whatever threads were doing then."""
        self._queue: SimpleQueue[Item] = SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_finalized = False
        self._poster: Poster | None = None
        self._hurry = threading.Event()
        self._teller = new_name()
        self._batches = 0
        self._sending = 0
        self._is_silent = False
        """Whether the gateway has not answered what was sent last."""
        self._is_closed = False
        self._said: set[str] = set()
        self._counting = threading.RLock()  # the garbage collector or a signal may come back here in the midst of it
        self._untold: dict[str, int] = {}
        """Marks that were dropped, by their run, which the gateway has not been told."""
        self.dropped = 0
        """Marks that the gateway did not get."""

    def put(self, run: str, mark: Mark | None) -> None:
        """Send a mark of a run, or its end. Never raises."""
        try:
            if self._queue.qsize() >= (MOST_WAITING_WITH_ENDS if mark is None else MOST_WAITING):
                self._drop(run, 0 if mark is None else 1, "more is told than can be sent")
                return
            self._queue.put((run, mark))
            if self._thread is None:
                self._start()
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._say(f"nothing can be sent ({type(error).__name__})")

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was put has been sent or given up; tell whether it was. Never raises."""
        if self._thread is None:
            return self._queue.empty()
        done = threading.Event()
        self._queue.put(done)
        return done.wait(timeout_s)

    def close(self) -> None:
        """Send what is left as the process ends, and what was lost, in little time. Never raises."""
        self._hurry.set()
        if not self.flush(EXIT_S) and not self._is_closed:
            self._is_closed = True  # what its thread still does comes too late to count
            self.dropped += self._sending + self._left()

    def begin_in_child(self) -> None:
        """Forget what the process had that this one was forked from."""
        poster = self._poster
        self._begin()
        if poster is not None:
            poster.leave()

    def _start(self) -> None:
        """Start the thread, unless somebody is about to."""
        if not self._starting.acquire(blocking=False):
            return
        try:
            if self._thread is not None:
                return
            self._register()
            self._poster = Poster(self._gateway)
            thread = threading.Thread(target=self._work, name="rotoscope", daemon=True)
            thread.start()
            self._thread = thread
        finally:
            self._starting.release()

    def _register(self) -> None:
        """Be called as the process ends, which processes of `multiprocessing` do in a way of their own."""
        account.count_at_exit("marks", lambda: sum(sender.dropped for sender in list(_senders)))
        if not self._is_registered:
            self._is_registered = True
            atexit.register(self.close)
        multiprocessing = sys.modules.get("multiprocessing.process")
        if multiprocessing is not None and multiprocessing.parent_process() is not None and not self._is_finalized:
            self._is_finalized = True
            from multiprocessing.util import Finalize

            Finalize(self, self.close, exitpriority=0)

    def _work(self) -> None:
        queue = self._queue
        while True:
            items = _taken(queue)
            try:
                self._send(items)
            except Exception as error:  # noqa: BLE001 - the thread goes on whatever happens
                self._drop("", self._sending, f"a batch cannot be sent ({type(error).__name__})")
            self._sending = 0
            for item in items:
                if isinstance(item, threading.Event):
                    item.set()

    def _send(self, items: Sequence[Item]) -> None:
        marks: dict[str, list[Mark]] = {}
        ended: list[str] = []
        for item in items:
            if isinstance(item, threading.Event):
                continue
            run, mark = item
            if mark is None:
                ended.append(run)
            else:
                marks.setdefault(run, []).append(mark)
        self._sending = sum(map(len, marks.values()))
        for run, of_run in marks.items():
            self._send_marks(run, of_run)
            self._sending -= len(of_run)
        for run in ended:
            self._end(run)
        if self._hurry.is_set() and isinstance(items[-1], threading.Event):
            self._account()

    def _send_marks(self, run: str, marks: Sequence[Mark]) -> None:
        """Send marks; what was lost follows by itself, so that who knows nothing of that takes the marks all the same."""
        status = self._send_batch(run, marks)
        if status != 200:
            self._drop(run, len(marks), f"the gateway answers with status {status}" if status else "")
        elif run in self._untold:
            self._tell_lost(run, {"marks": self._untold[run]})

    def _end(self, run: str) -> None:
        """End a run, when it has been told what was lost of it."""
        if run in self._untold:
            self._tell_lost(run, {"marks": self._untold[run]})
        self._deliver(f"runs/{quote(run, safe='')}/end", "", lambda: b"")
        with self._counting:
            self._untold.pop(run, None)

    def _account(self) -> None:
        """Tell the runs that go on what was lost, and that of the process all that there is to tell."""
        for run, lost in list(self._untold.items()):
            if run != self.run_of_process:
                self._tell_lost(run, {"marks": lost})
        if self.run_of_process is not None and (rest := account.untold()):
            self._tell_lost(self.run_of_process, rest)

    def _tell_lost(self, run: str, lost: Mapping[Loss, int]) -> None:
        if self._send_batch(run, (), lost) != 200:
            return
        account.has_told(lost)
        with self._counting:
            left = self._untold.pop(run, 0) - lost.get("marks", 0)
            if left > 0:
                self._untold[run] = left

    def _send_batch(self, run: str, marks: Sequence[Mark], lost: Mapping[Loss, int] = {}) -> int:
        number, self._batches = self._batches, self._batches + 1

        def body() -> bytes:
            return batch_of(marks, teller=self._teller, number=number, now_s=clock(), lost=lost)

        return self._deliver("marks", run, body)

    def _deliver(self, path: str, run: str, body: Callable[[], bytes]) -> int:
        """Post until it is answered, for a while unless it was not answered before; return the status, 0 for none."""
        assert self._poster is not None
        headers = {"Content-Type": "application/json"}
        headers |= {RUN_HEADER: run} if run else {}
        headers |= {TOKEN_HEADER: self._gateway.token} if self._gateway.token else {}
        pause_s = self._first_pause_s
        for tries in range(1 if self._is_silent else MOST_TRIES):
            if tries:
                if self._hurry.wait(pause_s):
                    break
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            try:
                status = self._poster.post(f"{self._gateway.before}/_rotoscope/{path}", headers, body())
            except Exception as error:  # noqa: BLE001 - whatever it is, the gateway did not answer
                self._say(f"the gateway does not answer ({type(error).__name__}): it is tried again for a while")
                continue
            if status < 500:
                self._is_silent = False
                return status
            self._say(f"the gateway answers with status {status}: it is tried again for a while")
        self._is_silent = True
        return 0

    def _left(self) -> int:
        """Take everything out of the queue; return how many marks it was."""
        left = 0
        with contextlib.suppress(Empty):
            while True:
                item = self._queue.get_nowait()
                left += not isinstance(item, threading.Event) and item[1] is not None
        return left

    def _drop(self, run: str, marks: int, reason: str) -> None:
        with self._counting:
            if self._is_closed:
                return
            self.dropped += marks
            if marks and (run in self._untold or len(self._untold) < MOST_RUNS):
                self._untold[run] = self._untold.get(run, 0) + marks
        if reason:
            self._say(f"what agents tell is dropped: {reason}")

    def _say(self, line: str) -> None:
        """Tell each thing once."""
        if line not in self._said:
            self._said.add(line)
            _log.warning("%s", line)


def _taken(queue: SimpleQueue[Item]) -> list[Item]:
    """Return what is in a queue, when there is something, and what comes soon after."""
    items = [queue.get()]
    until_s = clock() + LINGER_S
    while len(items) < MOST_AT_ONCE and not isinstance(items[-1], threading.Event):
        try:
            items.append(queue.get(timeout=max(0.0, until_s - clock())))
        except Empty:
            break
    return items


_senders: weakref.WeakSet[Sender] = weakref.WeakSet()


def _begin_in_child() -> None:
    for sender in list(_senders):
        sender.begin_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_in_child)
