"""The mitmproxy addon: of what passes through mitmproxy, a recorder hears the calls to inference hosts.

Requests that may be calls are read whole before they pass; everything else, answers above all, passes as it comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable

import aiohttp
from mitmproxy import connection, http
from mitmproxy.proxy import server_hooks
from multidict import CIMultiDict

from rotoscope.proxy.count import Counting
from rotoscope.proxy.gateway import FindsRuns, Notice
from rotoscope.proxy.headers import TO_THE_GATEWAY
from rotoscope.proxy.intercept.again import Again, Came
from rotoscope.proxy.intercept.behind import Behind, goes_through_another
from rotoscope.proxy.intercept.hosts import Hosts
from rotoscope.proxy.intercept.opening import Opening
from rotoscope.proxy.intercept.tap import Tap
from rotoscope.recorder.encodings import Undecodable, decoded

_STREAMED = ("multipart/", "audio/", "image/", "application/grpc", "application/connect+", "application/octet-stream")
"""Kinds of requests that are no calls, and that may be answered while they come."""
_MOST_HOSTS = 1000


class Interceptor:
    """Let the recorder of its run hear every call that is opened."""

    def __init__(
        self,
        runs: FindsRuns,
        hosts: Hosts,
        *,
        notice: Notice,
        counting: Counting | None = None,
        asks_usage: bool = True,
        again: Again | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`asks_usage` asks for the usage of response streams where the client does not.

        That needs `again`, by which a request that is refused for it is sent as it came.
        """
        self._runs = runs
        self._hosts = hosts
        self._notice = notice
        self._counting = counting
        self._asks_usage = asks_usage and again is not None
        self._again = again
        self._refusing: set[tuple[str, str]] = set()
        """Hosts and paths where the server refuses to be asked for the usage of response streams."""
        self._clock = clock
        self._taps: dict[str, Tap] = {}
        """The calls that are open, by the ids of their flows."""
        self.opening = Opening(hosts, notice=self._say, passes=self._count)
        self.behind = Behind(notice=self._say, passes=self._count)
        self.addons = [self.opening, self.behind]
        """What mitmproxy calls besides."""
        self._said: set[str] = set()
        self.requests = 0
        """How many requests came to opened hosts."""
        self.calls = 0
        """How many of them a recorder took for calls."""
        self.unopened: Counter[str] = Counter()
        """How many connections passed as they are, by host."""
        self.unreached: Counter[str] = Counter()
        """How many connections to inference hosts could not be made, by host."""
        self._is_quiet = asyncio.Event()
        self._is_quiet.set()

    @property
    def in_flight(self) -> int:
        """How many calls are open."""
        return len(self._taps)

    async def stop(self, *, drain_s: float) -> None:
        """Give open calls `drain_s` seconds to end, and take those that do not for cancelled."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_quiet.wait(), drain_s)
        for tap in list(self._taps.values()):
            tap.break_off(by_client=True)
            self._look_back(tap)
        self._taps.clear()

    # What mitmproxy calls, by its names.

    def server_connect(self, data: server_hooks.ServerConnectionHookData) -> None:
        """Count connections that pass as they are."""
        if data.server.address and not goes_through_another(data.client):
            self._count(*data.server.address[:2])

    def server_connect_error(self, data: server_hooks.ServerConnectionHookData) -> None:
        """Count connections to inference hosts that are not there, or whose names nobody knows."""
        host, port = (data.server.address or ("", 0))[:2]
        if (
            not goes_through_another(data.client)
            and self._hosts.opens(host, port)
            and len(self.unreached) < _MOST_HOSTS
        ):
            self.unreached[host] += 1

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Let pass as it comes what cannot be a call."""
        flow.request.stream = not self._may_be_a_call(flow.request)
        if flow.request.stream and self._is_opened(flow.request):
            _leave_out_ours(flow.request)

    def request(self, flow: http.HTTPFlow) -> None:
        """Let the recorder hear a request that has come whole."""
        may_be_a_call = not flow.request.stream
        self.requests += may_be_a_call or self._is_opened(flow.request)
        if may_be_a_call:
            self._record(flow)

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Let every answer pass as it comes."""
        tap, response = self._taps.get(flow.id), flow.response
        assert response is not None
        if response.status_code == 101:
            if self._is_opened(flow.request):
                self._say("a WebSocket was passed on unrecorded: only HTTP is recorded")
        elif tap is None:
            response.stream = True
        else:
            tap.begin(response, is_http11=flow.request.is_http11)

    async def response(self, flow: http.HTTPFlow) -> None:
        """Take note that an answer has passed whole, or send its request once more as it came."""
        tap = self._taps.get(flow.id)
        if tap is not None and tap.is_refused:
            await self._send_as_it_came(flow, tap)
        if self._taken(flow.id) is not None and tap is not None:
            tap.end()
            self._look_back(tap)

    def error(self, flow: http.HTTPFlow) -> None:
        """Take note that one side has left."""
        if (tap := self._taken(flow.id)) is not None:
            by_client = _client_left(flow)
            tap.break_off(by_client=by_client)
            self._look_back(tap, is_failed=not by_client)

    def client_disconnected(self, client: connection.Client) -> None:
        """Take calls for failed whose connection ended without a word of them, because something raised."""
        for flow_id in [flow_id for flow_id, tap in self._taps.items() if tap.client_id == client.id]:
            tap = self._taken(flow_id)
            assert tap is not None
            tap.failure = tap.failure or "mitmproxy could not go on with its connection"
            tap.break_off(by_client=False)
            self._look_back(tap)

    def _count(self, host: str, port: int) -> None:
        if not self._hosts.opens(host, port) and len(self.unopened) < _MOST_HOSTS:
            self.unopened[host] += 1

    def _record(self, flow: http.HTTPFlow) -> None:
        request, body = flow.request, flow.request.raw_content or b""
        headers = CIMultiDict(request.headers.items(multi=True))  # many are looked for, and mitmproxy's take long
        _leave_out_ours(request)
        try:
            plain = decoded(body, headers.get("content-encoding", "").strip().lower())
        except Undecodable as problem:
            self._say(f"a request was passed on unrecorded: {problem}")
            return
        try:
            run = self._runs.find(headers, plain, name="", port="")
        except Exception as error:  # noqa: BLE001 - the agent must not be hurt
            self._say(f"requests are passed on unrecorded: no run can begin ({type(error).__name__})")
            return
        run.began(self._clock())
        asks = self._asks_usage and not (self._refusing and _place(request) in self._refusing)
        exchange = run.recorder.request(_path(request), plain, at_s=self._clock(), headers=headers, asks_usage=asks)
        self.calls += exchange.recorded
        run.calls += exchange.recorded
        if exchange.recorded and self._counting is not None:
            self._counting.prepare()
        is_changed = exchange.upstream_body is not plain
        came = Came(request.headers.copy(), body) if is_changed else None
        self._taps[flow.id] = Tap(exchange, run, as_it_came=came, client_id=flow.client_conn.id, clock=self._clock)
        self._is_quiet.clear()
        if exchange.listens:
            request.headers["accept-encoding"] = "identity"
        if is_changed:
            request.headers.pop("content-encoding", None)
            request.content = exchange.upstream_body

    async def _send_as_it_came(self, flow: http.HTTPFlow, tap: Tap) -> None:
        """Send a refused request once more as it came; its answer is the one that passes, if there is one."""
        assert tap.as_it_came is not None
        assert self._again is not None
        with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
            flow.response = await self._again.send(flow, tap.as_it_came)
        assert flow.response is not None
        if flow.response.status_code < 400:
            self._refusing.add(_place(flow.request))
            self._say("a server refuses to be asked for the usage of response streams: it is asked no more")
        tap.take_whole(flow.response)

    def _taken(self, flow_id: str) -> Tap | None:
        tap = self._taps.pop(flow_id, None)
        if not self._taps:
            self._is_quiet.set()
        return tap

    def _look_back(self, tap: Tap, *, is_failed: bool = False) -> None:
        """Tell of a failure, and let the texts of a call be counted."""
        run, is_recorded = tap.run, tap.exchange.recorded
        run.ended(self._clock())
        run.answered += is_recorded and tap.is_accepted
        if is_recorded and self._counting is not None:
            self._counting.submit(run.recorder)
        if tap.failure or is_failed:
            self._say(f"a call failed: {tap.failure or 'its server broke off, or could not be reached'}")

    def _may_be_a_call(self, request: http.Request) -> bool:
        kind = request.headers.get("content-type", "")
        return request.method == "POST" and not kind.startswith(_STREAMED) and self._is_opened(request)

    def _is_opened(self, request: http.Request) -> bool:
        return self._hosts.opens(request.host, request.port) or self._hosts.opens(request.pretty_host, request.port)

    def _say(self, line: str) -> None:
        """Tell each thing once."""
        if line not in self._said:
            self._said.add(line)
            self._notice(line)


def _client_left(flow: http.HTTPFlow) -> bool:
    """Tell whether it is the client that has left: its connection is over, or it cancelled a stream of HTTP/2."""
    if not flow.client_conn.state & connection.ConnectionState.CAN_READ:
        return True
    return flow.error is not None and "(CANCEL)" in flow.error.msg


def _leave_out_ours(request: http.Request) -> None:
    """Leave out the lines of a head that are for us alone."""
    fields = request.headers.fields
    request.headers.fields = tuple(one for one in fields if not one[0].lower().startswith(TO_THE_GATEWAY))


def _place(request: http.Request) -> tuple[str, str]:
    """Return the host and the path of a request."""
    return request.pretty_host, _path(request)


def _path(request: http.Request) -> str:
    path: str = request.path
    return path.partition("?")[0]
