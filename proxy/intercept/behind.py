"""The proxy that everything goes through, where there is one behind ours: what it refuses is told."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from mitmproxy import connection, http, tls
from mitmproxy.proxy import server_hooks

_REFUSED = re.compile(r"Upstream proxy .* refused HTTP CONNECT request: (?P<status>\d{3})")
"""What mitmproxy makes of its answer."""


class Behind:
    """An addon that tells why connections through another proxy fail, and whom they are for."""

    def __init__(self, *, notice: Callable[[str], None], passes: Callable[[str, int], None]) -> None:
        """`passes` is told of each connection that the other proxy is asked for."""
        self._notice = notice
        self._passes = passes
        self.failed = False
        """Whether a connection through the other proxy could not be had."""

    def http_connect_upstream(self, flow: http.HTTPFlow) -> None:
        """Take note of a connection that the other proxy is asked for."""
        host, port = flow.request.host, flow.request.port
        self._passes(host, port)
        if ":" in host:  # mitmproxy 11 leaves the brackets out
            flow.request.authority = f"[{host.strip('[]')}]:{port}"

    def server_connect_error(self, data: server_hooks.ServerConnectionHookData) -> None:
        """Tell that the other proxy refuses, or that it is not there."""
        if not goes_through_another(data.client):
            return
        refused = _REFUSED.match(data.server.error or "")
        if refused is None:
            reason = "cannot be reached: is its address right, in --intercept-mode upstream:URL or else in HTTPS_PROXY?"
        elif refused["status"] in ("401", "407"):  # tinyproxy answers a wrong password with 401
            status = refused["status"]
            reason = (
                f"refuses with {status}: it wants the right user and password, as in http://USER:PASSWORD@HOST:PORT"
            )
        else:
            host = str((data.server.address or ("a host",))[0])
            reason = f"refuses connections to {host} with {refused['status']}"
        self._tell(reason)

    def tls_failed_server(self, data: tls.TlsData) -> None:
        """Tell that the other proxy does not speak TLS with us."""
        if is_of_another(data):
            self._tell("has a certificate that is not trusted here, or speaks no TLS: SSL_CERT_FILE names authorities")

    def _tell(self, reason: str) -> None:
        self.failed = True
        self._notice(f"the proxy behind this one {reason}")


def goes_through_another(client: connection.Client) -> bool:
    """Tell whether connections for a client are those of another proxy."""
    return str(client.proxy_mode.type_name) == "upstream"


def is_of_another(data: tls.TlsData) -> bool:
    """Tell whether it is another proxy that TLS is spoken with, on the way to a server."""
    return data.conn is not data.context.server


def tell_of_refusals(receive_handshake_data: Any) -> Any:
    """Let mitmproxy's part that asks another proxy call addons where that refuses, which it only logs."""

    def receiving(self: Any, data: bytes) -> Any:
        is_done, error = yield from receive_handshake_data(self, data)
        if error:
            refused = connection.Server(address=self.conn.address)
            refused.error = error
            yield server_hooks.ServerConnectErrorHook(
                server_hooks.ServerConnectionHookData(client=self.context.client, server=refused)
            )
        return is_done, error

    return receiving
