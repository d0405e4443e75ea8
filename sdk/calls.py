"""Which requests of HTTP clients are calls, and of which run; everything else is left alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from rotoscope.recorder.encodings import Undecodable, decoded
from rotoscope.recorder.recorder import may_concern
from rotoscope.sdk.here import headers_of
from rotoscope.sdk.keepers import Call, RunAlone
from rotoscope.sdk.outgoing import Outgoing, Request
from rotoscope.sdk.scopes import Scope, clock, current_scope
from rotoscope.sdk.spans import counts

_log = logging.getLogger(__name__)

_NO_CALL = (b"", b"-")
"""How bodies of requests begin that are no calls: nothing, and the border of a form."""


class Calls:
    """Listens to HTTP clients for calls."""

    def __init__(self, outside: Callable[[], RunAlone | None], *, asks_usage: bool) -> None:
        """Listen; `outside` returns the run of calls outside of every agent.

        `asks_usage` lets response streams be asked for their usage where the client does not ask.
        """
        self._outside = outside
        self._asks_usage = asks_usage
        self._refusing: set[tuple[str, str]] = set()
        """Where a server refuses to be asked for the usage of response streams, by origin and path."""

    def hear(self, request: Request) -> Outgoing | None:
        """Take in a request of a client; None where it is no call."""
        if request.method != "POST" or request.body[:1] in _NO_CALL:
            return None
        url = urlsplit(request.url)
        if not may_concern(url.path, request.body):
            return None
        try:
            body = decoded(request.body, request.headers.get("content-encoding", "").strip().lower())
        except Undecodable as problem:
            _log.warning("a request was not recorded: %s", problem)
            counts.fail(problem)
            return None
        return self._heard(request, body, (f"{url.scheme}://{url.netloc}", url.path))

    def _heard(self, request: Request, body: bytes, place: tuple[str, str]) -> Outgoing | None:
        scope = current_scope()
        run = self._run_of(scope)
        if run is None:
            return None
        headers = {_text(name).lower(): _text(value) for name, value in request.headers.items()}
        if scope is not None:
            scope.called()
            headers |= headers_of(scope.line)
        asks = self._asks_usage and place not in self._refusing
        call = run.keeper.call(place[1], body, headers=headers, at_s=clock(), asks_usage=asks)
        if call is None:
            return None
        sent = request.body if call.body is body else call.body
        return HeardCall(call, sent, refused=lambda: self._ask_no_more(place))

    def _run_of(self, scope: Scope | None) -> RunAlone | None:
        if scope is not None and isinstance(scope.line.run, RunAlone):
            return scope.line.run
        return self._outside()

    def _ask_no_more(self, place: tuple[str, str]) -> None:
        if place not in self._refusing:
            self._refusing.add(place)
            _log.warning("the server refuses to be asked for the usage of response streams: it is asked no more")


class HeardCall:
    """A call as HTTP clients let it be heard; servers that are no gateway are told nothing in headers."""

    def __init__(self, call: Call, body: bytes, *, refused: Callable[[], None]) -> None:
        """Hear a call whose body to send is given.

        `refused` is told when the server refuses to be asked for usage, and takes the request without.
        """
        self._call = call
        self._refused = refused
        self._is_taken_back = False
        self.listens = True
        self.headers: Mapping[str, str] = {}
        self.body = body

    def __repr__(self) -> str:
        return f"HeardCall({self._call!r})"

    def take_back(self) -> None:
        """Tell that the server refused what was added."""
        self._is_taken_back = True
        self._call.take_back()

    def response(self, status: int, content_type: str) -> None:
        """Tell that the answer begins."""
        self._call.response(status, content_type, clock())
        if self._is_taken_back and status < 400:
            self._refused()

    def chunk(self, data: bytes) -> bytes:
        """Tell of some of the answer and return what the client is to get of it now."""
        return self._call.chunk(data, clock())

    def end(self) -> bytes:
        """Tell that the answer is whole and return what was still held back."""
        return self._call.end(clock())

    def failed(self) -> None:
        """Tell that no more will come."""
        self._call.failed(clock())

    def cancelled(self) -> None:
        """Tell that the client does not wait for the rest."""
        self._call.cancelled(clock())


def _text(line: str | bytes) -> str:
    return line if isinstance(line, str) else line.decode("latin-1")
