"""Which run a request belongs to, and when a run ends.

Decided by, in this order: our header `x-rotoscope-run`, `/run/NAME` in the path, the session that the client names in its
own headers or in the body, the port. A run ends when nothing came for it for so long, when somebody ends it by name, or with the gateway.
Where its agents tell that some of them are still at work, it ends when those are done, or when it is ended once more.
Names and sessions are held in memory while their run is open, and nowhere else.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import orjson

from rotoscope.recorder.identity import names_session, session_of
from rotoscope.recorder.own_headers import RUN_HEADER
from rotoscope.recorder.recorded_run import Finished, RecordedRun

_log = logging.getLogger(__name__)

MOST_OPEN = 200
"""Beyond as many open runs the one that is quiet for longest ends, so that descriptors do not run out."""
DRAIN_S = 2.0
"""How long requests of a run that is ended may take; what comes later is forwarded, but not in the trace."""


class RunKey(NamedTuple):
    """What holds the requests of a run together."""

    kind: str
    value: str


class Runs:
    """The open runs of a gateway, each with a recorder of its own."""

    def __init__(
        self,
        begin: Callable[[], RecordedRun],
        *,
        finished: Callable[[Finished, str], None],
        settle: Callable[[], Awaitable[None]] | None = None,
        by_session: bool = False,
        idle_s: float | None = None,
        drain_s: float = DRAIN_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin runs with `begin`; `finished` is told of each that ended, with the name that the person gave it.

        `settle` waits for what is still to be learnt of calls that have ended.
        """
        self._begin = begin
        self._finished = finished
        self._settle = settle
        self._by_session = by_session
        self._idle_s = idle_s
        self._drain_s = drain_s
        self._clock = clock
        self._open: dict[RunKey, RecordedRun] = {}
        self._sessions: dict[str, RunKey] = {}
        """The run of each session that began another."""
        self._ending: set[asyncio.Task[Finished]] = set()
        self._is_crowded = False
        self.written = 0
        """How many traces were written."""
        self.unwritten = 0
        """How many runs had calls and left no trace in their folder."""
        self.marks = 0
        """How many things agents told of themselves."""

    @property
    def open(self) -> list[RecordedRun]:
        """The open runs, in the order in which they began."""
        return list(self._open.values())

    def adopt(self, run: RecordedRun) -> None:
        """Let a run that has begun be that of all requests that say nothing of their run."""
        self._open[RunKey("port", "")] = run

    def find(self, headers: Mapping[str, str], body: bytes = b"", *, name: str = "", port: str = "") -> RecordedRun:
        """Return the run of a request, which begins when it is not open; `name` is the one in the path."""
        key = self._key_of(headers, body, name, port)
        run = self._open.get(key)
        if run is None:
            if len(self._open) >= MOST_OPEN:
                self._end_quietest()
            run = self._open[key] = self._begin()
            run.last_s, run.called = self._clock(), key.value
        return run

    def find_open(self, headers: Mapping[str, str], *, name: str = "", port: str = "") -> RecordedRun | None:
        """Return the run of a request if it is open."""
        return self._open.get(self._key_of(headers, b"", name, port))

    def _key_of(self, headers: Mapping[str, str], body: bytes, name: str, port: str) -> RunKey:
        name = headers.get(RUN_HEADER) or name
        return RunKey("name", name) if name else self._key_of_session(headers, body) or RunKey("port", port)

    async def end(self, name: str) -> Finished | None:
        """End the run of a name and write its trace; None when it is not open."""
        key = RunKey("name", name)
        return await self._end(key) if key in self._open else None

    def is_to_go_on(self, name: str) -> bool:
        """Whether the run of a name is not to end yet, as agents of it are at work; it ends when the last is done.

        Who asks twice does not want to wait: then it is not, and neither where it may have been lost that they are done.
        """
        run = self._open.get(RunKey("name", name))
        if run is None or run.is_ending or not run.at_work or run.lost["marks"]:
            return False
        run.is_ending = True
        return True

    def was_told(self, run: RecordedRun) -> None:
        """Begin to end a run that only waited for its last agents, where these are done."""
        if run.is_ending and not run.at_work:
            for key in [key for key, one in self._open.items() if one is run]:
                self._begin_to_end(key)

    async def end_all(self) -> list[Finished]:
        """End all runs; they wait together, and are written and returned oldest first, those that ended now."""
        ending: list[asyncio.Task[Finished]] = []
        for key in list(self._open):
            ending.append(self._begin_to_end(key, after=ending[-1] if ending else None))
        if self._ending:
            await asyncio.wait(self._ending)
        return [task.result() for task in ending]

    async def end_idle_ones(self) -> None:
        """End runs for which nothing comes any more, until cancelled."""
        assert self._idle_s is not None
        while True:
            await asyncio.sleep(self.next_idle_s())
            self.begin_to_end_idle()

    def next_idle_s(self) -> float:
        """Return how long it takes until the next run can be idle."""
        assert self._idle_s is not None
        quiet_since = min((run.last_s for run in self._open.values() if not run.in_flight), default=self._clock())
        return max(self._idle_s / 20, quiet_since + self._idle_s - self._clock())

    def begin_to_end_idle(self) -> None:
        """Begin to end the runs that are idle now."""
        assert self._idle_s is not None
        now_s = self._clock()
        for key, run in list(self._open.items()):
            if not run.in_flight and now_s - run.last_s >= self._idle_s:
                self._begin_to_end(key)

    def _key_of_session(self, headers: Mapping[str, str], body: bytes) -> RunKey | None:
        """Return the run of the session that a client names: that of the one that began it, where there is one."""
        session, parent = _session(headers, body) if self._by_session else ("", "")
        if not session:
            return None
        if session not in self._sessions:
            begun_by = self._sessions.get(parent) or RunKey("session", parent or session)
            self._sessions[session] = begun_by
            if parent:
                self._sessions[parent] = begun_by
        return self._sessions[session]

    def _end_quietest(self) -> None:
        quiet = [key for key, run in self._open.items() if not run.in_flight]
        if quiet and not self._is_crowded:
            self._is_crowded = True
            _log.warning("%d runs are open: whenever another begins, the one that is quiet for longest ends", MOST_OPEN)
        if quiet:
            self._begin_to_end(min(quiet, key=lambda key: self._open[key].last_s))

    def _begin_to_end(self, key: RunKey, *, after: asyncio.Task[Finished] | None = None) -> asyncio.Task[Finished]:
        run = self._open.pop(key)
        self._sessions = {session: of for session, of in self._sessions.items() if of != key}
        task = asyncio.create_task(self._finish(run, key.value if key.kind == "name" else "", after))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    async def _end(self, key: RunKey) -> Finished:
        return await asyncio.shield(self._begin_to_end(key))  # who asked for it may leave, the trace is written

    async def _finish(self, run: RecordedRun, name: str, after: asyncio.Task[Finished] | None) -> Finished:
        """End a run and write its trace, when another one has ended."""
        if run.in_flight:
            quiet = asyncio.Event()
            run.when_quiet = quiet.set
            try:
                await asyncio.wait_for(quiet.wait(), self._drain_s)
            except TimeoutError:
                run.when_quiet = None
        if self._settle is not None:
            await self._settle()
        if after is not None:
            await asyncio.wait([after])
        try:
            finished = await asyncio.to_thread(run.finish)
        except RuntimeError:  # no thread can be had
            finished = run.finish()
        self.written += finished.path is not None
        self.unwritten += bool(finished.trouble)
        self._finished(finished, name)
        return finished


def _session(headers: Mapping[str, str], body: bytes) -> tuple[str, str]:
    """Return the session that a request is of, and the one that began it; its body is read only where it may say so."""
    session, parent = session_of(headers)
    if session or not names_session(body):
        return session, parent
    try:
        read = orjson.loads(body)
    except orjson.JSONDecodeError:
        return "", ""
    return session_of({}, read) if isinstance(read, dict) else ("", "")
