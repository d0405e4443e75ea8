"""Recording without a gateway: what the HTTP clients of this process say and hear goes to recorders in it.

Each outermost agent is a run, with a trace of its own in the folder; calls outside of every agent are those of one run
that lasts as long as the process. Nothing is told to the server that calls go to, but that it is asked for the usage of
response streams where the client does not ask.
"""

from __future__ import annotations

import atexit
import logging
import threading
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from rotoscope.recorder.campaigns import Campaign
from rotoscope.recorder.encodings import Undecodable, decoded
from rotoscope.recorder.numbered_files import Numbers
from rotoscope.recorder.recorded_run import begin_in
from rotoscope.recorder.recorder import may_concern
from rotoscope.recorder.telling import about_in_one_line
from rotoscope.sdk.here import headers_of
from rotoscope.sdk.outgoing import Outgoing, Request
from rotoscope.sdk.run_alone import HeardCall, RunAlone
from rotoscope.sdk.scopes import Scope, clock, current_scope

_log = logging.getLogger(__name__)


class Alone:
    """Records the runs of this process into a folder."""

    def __init__(self, folder: Path, *, asks_usage: bool = True) -> None:
        """Begin; `asks_usage` lets response streams be asked for their usage where the client does not ask."""
        self.folder = folder
        self._asks_usage = asks_usage
        self._lock = threading.Lock()
        self._campaign = _numbered_in_turn(Campaign())
        self._numbers = Numbers(folder)
        self._open: list[RunAlone] = []
        self._outside: RunAlone | None = None
        """The run of calls outside of every agent."""
        self._refusing: set[tuple[str, str]] = set()
        """Where a server refuses to be asked for the usage of response streams, by origin and path."""
        self._is_closed = False
        atexit.register(self.close)

    def __repr__(self) -> str:
        return f"Alone({len(self._open)} open runs)"

    def begin_run(self) -> RunAlone:
        """Begin a run."""
        with self._lock:
            run = RunAlone(begin_in(self.folder, self._campaign, numbers=self._numbers), self._end)
            self._open.append(run)
        return run

    def join_run(self) -> None:
        """Return none: what another process records is in its own memory."""

    def flush(self, timeout_s: float) -> None:
        """Return at once: what is told is in the recorder when it has been told."""

    def close(self) -> None:
        """End all runs."""
        atexit.unregister(self.close)
        self._is_closed = True
        while self._open:
            self._end(self._open[0])

    def hear(self, request: Request) -> Outgoing | None:
        """Take in a request of a client; None where it is no call."""
        if request.method != "POST" or request.body.lstrip()[:1] in _NO_CALL or self._is_closed:
            return None
        url = urlsplit(request.url)
        try:
            body = decoded(request.body, request.headers.get("content-encoding", "").strip().lower())
        except Undecodable as problem:
            _log.warning("a request was not recorded: %s", problem)
            return None
        if not may_concern(url.path, body):
            return None
        return self._heard(request, body, (f"{url.scheme}://{url.netloc}", url.path))

    def _heard(self, request: Request, body: bytes, place: tuple[str, str]) -> Outgoing | None:
        scope = current_scope()
        run = self._run_of(scope)
        headers = {name.lower(): value for name, value in request.headers.items()}
        if scope is not None:
            scope.called()
            headers |= headers_of(scope.line)
        asks = self._asks_usage and place not in self._refusing
        exchange = run.request(place[1], body, headers=headers, at_s=clock(), asks_usage=asks)
        if exchange is None:
            return None
        sent = request.body if exchange.upstream_body is body else exchange.upstream_body
        return HeardCall(run, exchange, body=sent, refused=lambda: self._ask_no_more(place))

    def _run_of(self, scope: Scope | None) -> RunAlone:
        if scope is not None and isinstance(scope.line.run, RunAlone):
            return scope.line.run
        if self._outside is None:
            self._outside = self.begin_run()
        return self._outside

    def _ask_no_more(self, place: tuple[str, str]) -> None:
        if place not in self._refusing:
            self._refusing.add(place)
            _log.warning("the server refuses to be asked for the usage of response streams: it is asked no more")

    def _end(self, run: RunAlone) -> None:
        with self._lock:
            if run not in self._open:
                return
            self._open.remove(run)
        finished = run.finish()
        level = logging.WARNING if finished.trouble else logging.INFO
        _log.log(level, "%s", about_in_one_line(finished))


_NO_CALL = (b"", b"-")
"""How bodies of requests begin that are no calls: nothing, and the border of a form."""


def _numbered_in_turn(campaign: Campaign) -> Campaign:
    """Return a campaign whose cache domains may be numbered by several threads at once."""
    lock = threading.Lock()

    def domain_of(digest: bytes) -> int:
        with lock:
            return campaign.domain_of(digest)

    return replace(campaign, domain_of=domain_of)
