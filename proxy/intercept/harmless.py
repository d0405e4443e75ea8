"""What mitmproxy does to connections that would hurt an agent, kept from it.

Some of it has no option; then a method of mitmproxy is replaced, the same in versions 11 and 12:

- A connection that says nothing for 600 s is closed, which calls may take.
- Towards one server there are at most 5 connections for one of a client, so that the sixth of its streams waits.
- A trailer behind a body in HTTP/1 is an error. It is left out (RFC 9110, 6.5.1).
- An informational answer in HTTP/1 (103, 102) passes for the answer. It is left out, as mitmproxy does in HTTP/2.
- A server of HTTP/2 that takes no further request (GOAWAY) has those broken off that it is still answering.
- That another proxy refuses a connection is only logged.
- All that is said in a tunnel inside of TLS, as a WebSocket's, is kept in memory until its end.
- A connection on which something raises is left open and silent.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from typing import Any

import h2.errors
import h2.events
import h11
import mitmproxy.proxy.server
from h11._readers import ChunkedReader
from mitmproxy import connection, ctx, tcp
from mitmproxy.proxy import commands, events
from mitmproxy.proxy.layers.http import _http1, _http2, _http_h2, _upstream_proxy
from mitmproxy.proxy.layers.http._base import ReceiveHttp

from rotoscope.proxy.intercept.behind import tell_of_refusals

LONGEST_SILENCE_S = 24 * 3600
"""How long a connection may say nothing."""

OPTIONS = {
    "tcp_timeout": LONGEST_SILENCE_S,  # of version 12
    "validate_inbound_headers": False,  # what a client takes from its server is for the client to say
    "websocket": False,  # their bytes pass as they are
}
_MOST_CONNECTIONS = 1000

_INFORMATIONAL = re.compile(rb"(?:HTTP/1\.[01] 1(?!01)\d\d[^\n]*\n(?:[^\r\n][^\n]*\n)*\r?\n)+")


def be_harmless() -> None:
    """Replace what has no option, in this whole process."""
    mitmproxy.proxy.server.TCP_TIMEOUT = LONGEST_SILENCE_S  # before version 12
    _http1.ChunkedReader = _WithoutTrailer
    _replace(_http1.Http1Client, "read_headers", _skipping_informational)
    _replace(_http2.Http2Client, "handle_h2_event", _going_away_slowly)
    _replace(_http_h2.BufferedH2Connection, "_receive_goaway_frame", _staying_open)
    _replace(_upstream_proxy.HttpUpstreamProxy, "receive_handshake_data", tell_of_refusals)


class LeavesRoom:
    """An addon that takes a limit of single connections away."""

    def client_connected(self, client: connection.Client) -> None:
        """Let the server connections of one client be as many as it has streams."""
        if (handler := _handler_of(client)) is not None:
            handler.max_conns = defaultdict(lambda: asyncio.Semaphore(_MOST_CONNECTIONS))


class EndsBroken:
    """An addon that ends the connection of a client on which something raises, so that the client need not wait."""

    def client_connected(self, client: connection.Client) -> None:
        """Be there when something raises."""
        if (handler := _handler_of(client)) is not None:
            handler.layer = _Ending(handler.layer, client)


class Forgets:
    """An addon for whom nothing else wants to know what passes in tunnels."""

    def tcp_message(self, flow: tcp.TCPFlow) -> None:
        """Forget what has passed."""
        flow.messages.clear()


class _Ending:
    """The outermost layer of a client's connection."""

    def __init__(self, layer: Any, client: connection.Client) -> None:
        self._layer = layer
        self._client = client

    def handle_event(self, event: events.Event) -> Iterator[Any]:
        try:
            yield from self._layer.handle_event(event)
        except Exception:  # mitmproxy logs it and leaves the client waiting
            yield commands.CloseConnection(self._client)  # and with it those to servers
            raise


def _handler_of(client: connection.Client) -> Any:
    return ctx.master.addons.get("proxyserver").connections.get(client.id)


class _WithoutTrailer(ChunkedReader):
    def __call__(self, buffer: Any) -> Any:
        event = super().__call__(buffer)
        return h11.EndOfMessage() if isinstance(event, h11.EndOfMessage) else event


def _replace(owner: type, name: str, wrapped: Callable[[Any], Any]) -> None:
    """Replace a method once by one that is made of it."""
    if name not in vars(owner) or not hasattr(vars(owner)[name], "is_harmless"):
        method = wrapped(getattr(owner, name))
        method.is_harmless = True
        setattr(owner, name, method)


def _skipping_informational(read_headers: Any) -> Any:
    def skipping(self: Any, event: Any) -> Iterator[Any]:
        if isinstance(event, events.DataReceived) and self.request and (found := _INFORMATIONAL.match(bytes(self.buf))):
            self.buf.maybe_extract_at_most(found.end())
        yield from read_headers(self, event)

    return skipping


def _staying_open(receive_goaway_frame: Any) -> Any:
    """Let h2 go on reading behind a GOAWAY that names no error."""

    def staying(self: Any, frame: Any) -> Any:
        if frame.error_code or not self.config.client_side:
            return receive_goaway_frame(self, frame)
        event = h2.events.ConnectionTerminated()
        event.error_code, event.last_stream_id = h2.errors.ErrorCodes.NO_ERROR, frame.last_stream_id
        return [], [event]

    return staying


def _going_away_slowly(handle_h2_event: Any) -> Any:
    """Let streams end that the server is still answering; the connection takes no other."""

    def handling(self: Any, event: Any) -> Generator[Any, Any, Any]:
        if not isinstance(event, h2.events.ConnectionTerminated) or event.error_code:
            return (yield from handle_h2_event(self, event))
        refused = [stream for stream in self.streams if stream > (event.last_stream_id or 0)]
        if len(refused) == len(self.streams) and not self.stream_queue:
            return (yield from handle_h2_event(self, event))
        self.conn.state &= ~connection.ConnectionState.CAN_WRITE  # so that further requests take a new connection
        for waiting in list(self.stream_queue):
            self.their_stream_id[-waiting] = waiting
            refused.append(-waiting)
        self.stream_queue.clear()
        for stream in refused:
            self.streams.pop(stream, None)
            failure = self.ReceiveProtocolError(
                stream, "the server takes no further request", self.ReceiveProtocolError.code
            )
            yield ReceiveHttp(failure)
        return False

    return handling
