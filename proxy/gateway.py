"""The base-URL gateway: a client that takes it for its server reaches the upstream, and a recorder hears every call.

It forwards any path, method and body to its one upstream, and writes and logs nothing of what passes. What it forwards is
less what a client says to the gateway itself: headers `x-rotoscope-*`, `/token/TOKEN` and `/run/NAME` before the path.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import aiohttp
from aiohttp import HttpVersion11, web
from yarl import URL

from rotoscope.proxy.count import Counting
from rotoscope.proxy.door import Door
from rotoscope.proxy.measure import Measurer
from rotoscope.proxy.paths import CONTROL, Target, split
from rotoscope.proxy.relay import Relay, gateway_error
from rotoscope.proxy.upstream import MAX_HEADER_BYTES, Upstream
from rotoscope.recorder.encodings import Undecodable, decoded
from rotoscope.recorder.exchange import Exchange
from rotoscope.recorder.recorded_run import Run
from rotoscope.traces.errors import UnusableInput

Notice = Callable[[str], None]
"""Takes one line for the person who records."""
Desk = Callable[[web.BaseRequest, Target, str], Awaitable[web.Response]]
"""Answers the gateway's own paths; it gets the port that a request came to, too, empty for the first one."""

CLOSING_S = 1.0
"""How long connections may take to close once no request is open."""


class FindsRuns(Protocol):
    """Knows to which run a request belongs."""

    def find(self, headers: Mapping[str, str], body: bytes, *, name: str, port: str) -> Run:
        """Return the run of a request, by its headers and body, the name in its path and the port it came to."""


class Gateway:
    """Forward every request to one upstream and let the recorder of its run hear the calls among them."""

    origin = ""
    """Where it listens, `http://127.0.0.1:PORT`; the first of its ports."""
    requests = 0
    """How many requests came, recorded or not."""
    calls = 0
    """How many of them a recorder took for calls."""
    answered = 0
    """How many calls the upstream began to answer with status 200."""
    failed = 0
    """How many requests the upstream did not answer to the end."""

    def __init__(
        self,
        upstream: Upstream,
        runs: FindsRuns,
        *,
        session: aiohttp.ClientSession,
        notice: Notice,
        door: Door = Door(),  # noqa: B008 - frozen
        desk: Desk | None = None,
        measurer: Measurer | None = None,
        counting: Counting | None = None,
        asks_usage: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._upstream = upstream
        self._runs = runs
        self._session = session
        self._notice = notice
        self._door = door
        self._desk = desk
        self._measurer = measurer
        self._counting = counting
        self._asks_usage = asks_usage
        self._refusing: set[str] = set()
        """Paths where the upstream refuses to be asked for the usage of response streams."""
        self._clock = clock
        self._said: set[str] = set()
        self._open: set[asyncio.Task[Any]] = set()
        self._runner: web.ServerRunner | None = None
        self._is_stopping = False
        self._first_port = 0

    @property
    def in_flight(self) -> int:
        """How many requests are open."""
        return len(self._open)

    @property
    def waiting_texts(self) -> int:
        """How many texts are still to be counted."""
        return 0 if self._counting is None else self._counting.waiting

    @property
    def waiting_prompts(self) -> int:
        """How many prompts are still to be measured."""
        return 0 if self._measurer is None else self._measurer.waiting

    @property
    def origins(self) -> list[str]:
        """Where it listens."""
        return [] if self._runner is None else [_origin(*address[:2]) for address in self._runner.addresses]

    async def start(self, host: str = "127.0.0.1", ports: Sequence[int] = (0,)) -> None:
        """Listen; port 0 is a free one. Raises UnusableInput when it cannot."""
        server = web.Server(
            self._handle,
            access_log=None,
            logger=_silent_logger(),
            handler_cancellation=True,
            auto_decompress=False,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )
        self._runner = web.ServerRunner(server, shutdown_timeout=CLOSING_S)
        await self._runner.setup()
        for port in ports:
            try:
                await web.TCPSite(self._runner, host, port).start()
            except OSError as error:
                await self._runner.cleanup()
                raise UnusableInput(f"cannot listen on {host} port {port}: {_why_not(error)}") from error
        if self._is_its_own_upstream(host):
            await self._runner.cleanup()
            raise UnusableInput("the upstream is the gateway itself: give the address of the server with --upstream")
        self._first_port = self._runner.addresses[0][1]
        self.origin = self.origins[0]

    def _is_its_own_upstream(self, host: str) -> bool:
        assert self._runner is not None
        url = URL(self._upstream.origin)
        is_here = url.host in ("localhost", "127.0.0.1", "::1", "0.0.0.0", host)
        return is_here and url.port in {address[1] for address in self._runner.addresses}

    async def stop(self, *, drain_s: float, hurry: asyncio.Event | None = None) -> None:
        """Take no request any more, give open ones `drain_s` seconds to end, or until `hurry`, and cut those that do not."""
        self._is_stopping = True
        if self._runner is not None:
            for site in list(self._runner.sites):
                await site.stop()
        await self._drain(drain_s, hurry)
        left = list(self._open)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()

    async def _drain(self, drain_s: float, hurry: asyncio.Event | None) -> None:
        if not self._open:
            return
        waiting: list[asyncio.Future[Any]] = [asyncio.ensure_future(asyncio.wait(list(self._open)))]
        if hurry is not None:
            waiting.append(asyncio.ensure_future(hurry.wait()))
        await asyncio.wait(waiting, timeout=drain_s, return_when=asyncio.FIRST_COMPLETED)
        for future in waiting:
            future.cancel()
        await asyncio.wait(waiting)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            return await self._admit(request)
        finally:
            self._open.discard(task)

    async def _admit(self, request: web.BaseRequest) -> web.StreamResponse:
        """Forward a request that may pass."""
        if self._is_stopping:
            return gateway_error(503, "the gateway is stopping")
        if not request.raw_path.startswith("/"):  # of a forward proxy: joined to the origin it would name another host
            return gateway_error(400, "the gateway is no forward proxy: use its address as the base URL of the API")
        target = split(request.raw_path, base_path=self._upstream.base_path, takes_token=bool(self._door.token))
        if refusal := self._door.refusal(request.headers, target.token):
            return gateway_error(refusal.status, refusal.reason)
        if target.path.startswith(CONTROL):
            return await self._answer_itself(request, target)
        self.requests += 1
        await _ask_for_body(request)
        if request.body_exists and not _may_be_a_call(request):
            return await self._forward(request, target.path, Exchange(b""), request.content)
        body = await request.content.read()
        if request.method != "POST":
            return await self._forward(request, target.path, Exchange(b""), body)
        return await self._record(request, target, body)

    async def _answer_itself(self, request: web.BaseRequest, target: Target) -> web.StreamResponse:
        if self._desk is None:
            return gateway_error(404, "the gateway has no such path")
        return await self._desk(request, target, self._port(request))

    async def _record(self, request: web.BaseRequest, target: Target, body: bytes) -> web.StreamResponse:
        """Forward a request that its run's recorder hears, as it came unless the recorder asks for more."""
        try:
            plain = decoded(body, request.headers.get("Content-Encoding", "").strip().lower())
        except Undecodable as problem:
            self._say(f"a request was passed on unrecorded: {problem}")
            return await self._forward(request, target.path, Exchange(b""), body)
        try:
            run = self._runs.find(request.headers, plain, name=target.run, port=self._port(request))
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._say(f"requests are passed on unrecorded: no run can begin ({type(error).__name__})")
            return await self._forward(request, target.path, Exchange(b""), body)
        run.began(self._clock())
        try:
            path = target.path.partition("?")[0]
            asks = self._asks_usage and path not in self._refusing
            exchange = run.recorder.request(path, plain, at_s=self._clock(), headers=request.headers, asks_usage=asks)
            self.calls += exchange.recorded
            run.calls += exchange.recorded
            if exchange.recorded and self._counting is not None:
                self._counting.prepare()
            if exchange.upstream_body is plain:
                return await self._forward(request, target.path, exchange, body, run=run)
            return await self._forward(request, target.path, exchange, exchange.upstream_body, run=run, as_it_came=body)
        finally:
            run.ended(self._clock())

    async def _forward(
        self,
        request: web.BaseRequest,
        path: str,
        exchange: Exchange,
        sent: bytes | aiohttp.StreamReader,
        *,
        run: Run | None = None,
        as_it_came: bytes | None = None,
    ) -> web.StreamResponse:
        """Forward a request; `as_it_came` is the client's own body where the recorder has added to it."""
        relay = Relay(request, exchange, session=self._session, clock=self._clock)
        try:
            url = URL(self._upstream.origin + path, encoded=True)
            return await relay.run(url, sent, as_it_came=as_it_came)
        finally:
            if relay.is_addition_refused:
                self._ask_no_more(path.partition("?")[0])
            self._look_back(relay, exchange, run, request.headers)

    def _ask_no_more(self, path: str) -> None:
        self._refusing.add(path)
        self._say("the server refuses to be asked for the usage of response streams: it is asked no more")

    def _look_back(self, relay: Relay, exchange: Exchange, run: Run | None, headers: Mapping[str, str]) -> None:
        """Tell of a failure, and let prompt and texts be counted, also where the client left before the end."""
        if run is not None and exchange.recorded and self._counting is not None:
            self._counting.submit(run.recorder)
        if relay.failure:
            self.failed += 1
            self._say(f"a call failed: upstream {self._upstream.origin}: {relay.failure}")
        if run is not None and exchange.recorded and relay.is_accepted:
            self.answered += 1
            run.answered += 1
            if self._measurer is not None:
                self._measurer.submit(exchange, headers)

    def _port(self, request: web.BaseRequest) -> str:
        """Return the port that a request came to, empty for the first one."""
        if self._runner is None or len(self._runner.addresses) == 1 or request.transport is None:
            return ""
        port = request.transport.get_extra_info("sockname")[1]
        return "" if port == self._first_port else str(port)

    def _say(self, line: str) -> None:
        """Tell each thing once."""
        if line not in self._said:
            self._said.add(line)
            self._notice(line)


def _origin(host: str, port: int) -> str:
    """Return the address as clients on this machine take it."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _why_not(error: OSError) -> str:
    """Return why it is not possible to listen, and which option helps."""
    if isinstance(error, socket.gaierror):
        return "no such host; name another with --host"
    reason = error.errno or errno.EADDRNOTAVAIL  # asyncio of Python 3.13 leaves out addresses of others, and the reason
    option = "--host" if reason == errno.EADDRNOTAVAIL else "--port"
    return f"{os.strerror(reason).lower()}; name another with {option}"


def _may_be_a_call(request: web.BaseRequest) -> bool:
    """Tell whether the body has to be read whole; uploads of files pass as they come."""
    return request.method == "POST" and not request.content_type.startswith(("multipart/", "audio/", "image/"))


async def _ask_for_body(request: web.BaseRequest) -> None:
    """Let a client go on that wants to be asked for its body, as curl does for large ones."""
    if request.version >= HttpVersion11 and request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # it counts what is sent of the answer


def _silent_logger() -> logging.Logger:
    """Return a logger that writes nowhere: what aiohttp says of a broken request repeats parts of it."""
    logger = logging.getLogger(f"{__name__}.silent")
    logger.propagate = False
    logger.handlers = [logging.NullHandler()]
    return logger
