"""Recording without a gateway: what the HTTP clients of this process say and hear goes to recorders in it.

Each outermost agent is a run, with a trace of its own in the folder; calls outside of every agent are those of one run
that lasts as long as the process. Nothing is told to the server that calls go to, but that it is asked for the usage of
response streams where the client does not ask.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import socket
import threading
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from rotoscope.recorder.campaigns import Campaign
from rotoscope.recorder.numbered_files import Numbers
from rotoscope.recorder.recorded_run import begin_in
from rotoscope.recorder.telling import about_in_one_line
from rotoscope.recorder.token_counters import Tokenizer
from rotoscope.recorder.variables import PROCESS_VARIABLE
from rotoscope.sdk import account
from rotoscope.sdk.calls import Calls
from rotoscope.sdk.counting import CountingThread
from rotoscope.sdk.downlinks import Downlinks
from rotoscope.sdk.keepers import Keeper, Nobody, RunAlone
from rotoscope.sdk.kept_here import KeptHere
from rotoscope.sdk.outgoing import Outgoing, Request
from rotoscope.sdk.uplinks import Joined, KeptElsewhere, Uplink

_log = logging.getLogger(__name__)


class Alone:
    """Records the runs of this process into a folder."""

    def __init__(self, folder: Path, *, tokenizer: Tokenizer | None = None, asks_usage: bool = True) -> None:
        """Begin; `tokenizer` counts texts where the server does not tell.

        `asks_usage` lets response streams be asked for their usage where the client does not ask.
        """
        self.folder = folder
        self._lock = threading.RLock()  # what the garbage collector closes in the midst of it may come back here
        self._campaign = _numbered_in_turn(Campaign())
        self._numbers = Numbers(folder)
        self._counting = None if tokenizer is None else CountingThread(tokenizer)
        self._asks_usage = asks_usage
        self._calls = Calls(self._outside, asks_usage=asks_usage)
        self._open: dict[KeptHere, RunAlone] = {}
        self._downlinks = _listening(self._keeper_of)
        self._elsewhere: Joined | None = None
        """What records in a process that was forked."""
        self._of_process: RunAlone | None = None
        """The run of calls outside of every agent."""
        self._ending: set[threading.Thread] = set()
        self._troubles = 0
        """Traces that could not be written, or not into the folder."""
        account.count_at_exit("traces", lambda: sum(alone._troubles for alone in list(_all)))
        self._is_closed = False
        atexit.register(self.close)
        _all.add(self)

    def __repr__(self) -> str:
        return f"Alone({len(self._open)} open runs)"

    def begin_run(self) -> RunAlone:
        """Begin a run."""
        if self._elsewhere is not None:
            return self._elsewhere.begin_run()
        with self._lock:
            return RunAlone(Nobody()) if self._is_closed else self._begin()

    def join_run(self) -> None:
        """Return none: no other process began this one, or it is none that records."""

    def flush(self, timeout_s: float) -> None:
        """Wait until the traces of runs that have ended are written."""
        for thread in list(self._ending):
            thread.join(timeout_s)

    def close(self) -> None:
        """End all runs and wait until their traces are written."""
        if self._is_closed:
            return
        atexit.unregister(self.close)
        self._settle()
        self._is_closed = True
        for kept in list(self._open):
            kept.cancel_calls()
            self._finish(kept)
        self.flush(_WRITING_S)
        if self._downlinks is not None:
            if os.environ.get(PROCESS_VARIABLE) == str(self._downlinks.address):
                del os.environ[PROCESS_VARIABLE]
            self._downlinks.close()

    def hear(self, request: Request) -> Outgoing | None:
        """Take in a request of a client; None where it is no call."""
        if self._elsewhere is not None:
            return self._elsewhere.hear(request)
        return None if self._is_closed else self._calls.hear(request)

    def leave(self) -> None:
        """Let the process that was begun record, in one that was forked off it."""
        if self._is_closed:
            return
        self._is_closed = True
        self._lock = threading.RLock()  # what the garbage collector closes in the midst of it may come back here
        self._ending.clear()
        self._troubles = 0
        uplink = None
        if self._downlinks is not None:
            self._downlinks.leave()
            uplink = Uplink(self._downlinks.address)
            self._elsewhere = Joined(uplink, asks_usage=self._asks_usage)
        for kept, run in self._open.items():
            kept.leave()
            run.keeper = Nobody() if uplink is None else KeptElsewhere(uplink, run.name)
        self._open.clear()

    def _begin(self, name: str | None = None) -> RunAlone:
        tokenizer = None if self._counting is None else self._counting.name
        recorded = begin_in(self.folder, self._campaign, tokenizer=tokenizer, numbers=self._numbers)
        leads_here = {} if self._downlinks is None else {PROCESS_VARIABLE: str(self._downlinks.address)}
        kept = KeptHere(recorded, ended=self._end, called=self._called, environment=leads_here)
        run = self._open[kept] = RunAlone(kept, name)
        return run

    def _keeper_of(self, name: str) -> Keeper | None:
        """Return who keeps the run that another process takes part in; None where it has ended."""
        if not name:
            run = self._of_process if self._is_closed else self._outside()
            return None if run is None else run.keeper
        return next((run.keeper for run in list(self._open.values()) if run.name == name), None)

    def _outside(self) -> RunAlone:
        with self._lock:
            if self._of_process is None:
                self._of_process = self._begin("")
            return self._of_process

    def _settle(self) -> None:
        if self._downlinks is not None:
            self._downlinks.settle(_SETTLING_S)

    def _called(self, run: KeptHere) -> None:
        if self._counting is not None:
            self._counting.submit(run)

    def _end(self, run: KeptHere) -> None:
        """End a run at once, but in an event loop beside it, as others have work to do there."""
        if not _is_in_event_loop():
            self._finish(run)
            return
        thread = threading.Thread(target=self._finish, args=(run,), name="rotoscope-writing")
        self._ending.add(thread)
        try:
            thread.start()
        except RuntimeError:  # no thread can be had
            self._ending.discard(thread)
            self._finish(run)

    def _finish(self, run: KeptHere) -> None:
        self._settle()
        with self._lock:
            if self._open.pop(run, None) is None:
                return
        if self._counting is not None:
            self._counting.finish()
        finished = run.finish()
        self._ending.discard(threading.current_thread())
        if not finished.trouble:
            _log.info("%s", about_in_one_line(finished))
            return
        self._troubles += 1
        (_log.warning if self._troubles > 1 else account.warn)("%s", about_in_one_line(finished))


_SETTLING_S = 2.0
"""How long it may take to take in what other processes have told of a run that ends."""
_WRITING_S = 60.0
"""How long traces may take to be written when the process ends."""

_all: weakref.WeakSet[Alone] = weakref.WeakSet()


def _leave_all() -> None:
    for alone in list(_all):
        alone.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all)


def _listening(keeper_of: Callable[[str], Keeper | None]) -> Downlinks | None:
    """Listen to processes that this one begins, and let them know of it; None where that cannot be."""
    if not hasattr(socket, "AF_UNIX"):
        return None
    try:
        downlinks = Downlinks(keeper_of)
    except (OSError, RuntimeError) as error:  # no socket, or no thread, can be had
        _log.warning(
            "processes that are begun here are not recorded: nothing can be listened at (%s)", type(error).__name__
        )
        return None
    os.environ[PROCESS_VARIABLE] = str(downlinks.address)
    return downlinks


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _numbered_in_turn(campaign: Campaign) -> Campaign:
    """Return a campaign whose cache domains may be numbered by several threads at once."""
    lock = threading.Lock()

    def domain_of(digest: bytes) -> int:
        with lock:
            return campaign.domain_of(digest)

    return replace(campaign, domain_of=domain_of)
