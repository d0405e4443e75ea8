"""The base-URL gateway: a client that takes it for its server reaches the upstream, and a recorder hears every call.

It listens on loopback only, forwards any path, method and body, and writes and logs nothing of what passes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
from aiohttp import HttpVersion11, web
from yarl import URL

from rotoscope.proxy.measure import Measurer
from rotoscope.proxy.relay import Relay, gateway_error
from rotoscope.proxy.upstream import MAX_HEADER_BYTES, Upstream
from rotoscope.recorder.recorder import Exchange, Recorder

Notice = Callable[[str], None]
"""Takes one line for the person who records."""

CLOSING_S = 1.0
"""How long connections may take to close once no request is open."""


class Gateway:
    """Forward every request to one upstream and let one recorder hear the calls among them."""

    origin = ""
    """Where it listens, `http://127.0.0.1:PORT`."""
    requests = 0
    """How many requests came, recorded or not."""
    calls = 0
    """How many of them the recorder took for calls."""
    answered = 0
    """How many calls the upstream began to answer with status 200."""

    def __init__(
        self,
        upstream: Upstream,
        recorder: Recorder,
        *,
        session: aiohttp.ClientSession,
        notice: Notice,
        measurer: Measurer | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._upstream = upstream
        self._recorder = recorder
        self._session = session
        self._notice = notice
        self._measurer = measurer
        self._clock = clock
        self._said: set[str] = set()
        self._open: set[asyncio.Task[Any]] = set()
        self._runner: web.ServerRunner | None = None

    async def start(self) -> None:
        """Listen on a free port of 127.0.0.1."""
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
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        self.origin = f"http://{host}:{port}"

    async def stop(self, *, drain_s: float) -> None:
        """Give open requests `drain_s` seconds to end, cut those that do not, and stop listening."""
        if self._open:
            await asyncio.wait(self._open, timeout=drain_s)
        left = list(self._open)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            return await self._forward(request)
        finally:
            self._open.discard(task)

    async def _forward(self, request: web.BaseRequest) -> web.StreamResponse:
        target = request.raw_path
        if not target.startswith("/"):  # a forward proxy's target: joined to the origin it would name another host
            return gateway_error(400, "the gateway is no forward proxy: use its address as the base URL of the API")
        self.requests += 1
        await _ask_for_body(request)
        passes_as_it_comes = request.body_exists and not _may_be_a_call(request)
        body = b"" if passes_as_it_comes else await request.content.read()
        exchange = self._recorder.request(target.partition("?")[0], body, at_s=self._clock(), headers=request.headers)
        self.calls += exchange.recorded
        relay = Relay(request, exchange, session=self._session, clock=self._clock)
        try:
            return await relay.run(
                URL(self._upstream.origin + target, encoded=True),
                request.content if passes_as_it_comes else exchange.upstream_body,
                shortens=exchange.upstream_body is not body,
            )
        finally:
            self._look_back(relay, exchange, request.headers)

    def _look_back(self, relay: Relay, exchange: Exchange, headers: Mapping[str, str]) -> None:
        """Tell of a failure, and let the prompt be measured, also where the client left before the end."""
        if relay.failure:
            self._say(f"a call failed: upstream {self._upstream.origin}: {relay.failure}")
        if exchange.recorded and relay.is_accepted:
            self.answered += 1
            if self._measurer is not None:
                self._measurer.submit(exchange, headers)

    def _say(self, line: str) -> None:
        """Tell each thing once."""
        if line not in self._said:
            self._said.add(line)
            self._notice(line)


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
