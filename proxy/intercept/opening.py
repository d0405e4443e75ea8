"""Which connections to inference hosts are opened after all: not those where one side would not have it.

A client that refuses our certificate, or a server that does not speak TLS with us, is left alone from then on: what is said
passes as it is, unrecorded, and is told once. Clients are known by what they offer in TLS, so that one that refuses does not
keep others from being recorded. One that looks at certificates behind the handshake says nothing, again and again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from mitmproxy import connection, http, tcp, tls
from OpenSSL import SSL

from rotoscope.proxy.intercept.behind import is_of_another
from rotoscope.proxy.intercept.hosts import Hosts

_EARLY = "connection closed early"
"""What mitmproxy says where a client left before it had seen our certificate."""
_UNTRUSTED = "Certificate verify failed"
"""What mitmproxy says where a server's certificate is not to be trusted."""
_REFUSES_US = re.compile(r"alert (.*certificate|unknown ca|access denied|handshake failure)")
"""What OpenSSL says where a server says, behind the handshake, that it would not have us."""
_ENOUGH = 2
"""How many handshakes in a row a server breaks off without a reason before they are taken for refused."""
_ENOUGH_SILENT = 3
"""How many connections in a row clients of a kind end without a word, that never said one, before they are let alone."""
_REFUSED = (
    "its client pins a certificate or does not read the certificate variables; give it the authority in "
    "$ROTOSCOPE_CA_FILE, or use the gateway"
)
_WANTS_A_CERTIFICATE = "it speaks TLS with its client alone, which may have a certificate of its own; --intercept-client-cert FILE shows one"


class Who(NamedTuple):
    """A kind of clients of a host."""

    host: str
    offers: tuple[object, ...]
    """What tells kinds of clients apart; empty for all of them."""


class Opening:
    """An addon that has connections left alone where opening them would break them."""

    def __init__(self, hosts: Hosts, *, notice: Callable[[str], None], passes: Callable[[str, int], None]) -> None:
        """`passes` is told of servers whose connections pass as they are, though they go to hosts that are opened."""
        self._hosts = hosts
        self._notice = notice
        self._passes = passes
        self._closed: set[Who] = set()
        self._broken_off: Counter[str] = Counter()
        """How many handshakes in a row did not come to their end, by server."""
        self._clients: dict[str, Who] = {}
        """Who is at the other end of connections, by their ids."""
        self._silent: set[str] = set()
        """Opened connections on which nothing was said yet, by their ids."""
        self._speaking: set[Who] = set()
        """Kinds of clients that said something on an opened connection."""
        self._said_nothing: Counter[Who] = Counter()
        """How many opened connections the others ended without a word."""
        self.connections: Counter[str] = Counter()
        """How many connections were opened, by host."""

    def tls_clienthello(self, data: tls.ClientHelloData) -> None:
        """Leave a connection alone that would be broken."""
        hello = data.client_hello
        who = Who(_host(data.context, hello.sni), (*filter(_is_meant, hello.cipher_suites), *hello.alpn_protocols))
        self._clients[data.context.client.id] = who
        if self._asks_for_another(data.context.server.address, hello.sni):
            data.ignore_connection = True
            self._passes(hello.sni, data.context.server.address[1])
        elif not self._closed.isdisjoint({who, Who(who.host, ())}):
            data.ignore_connection = True

    def tls_established_client(self, data: tls.TlsData) -> None:
        """Take note that a client has taken our certificate."""
        self.connections[self._who(data).host] += 1
        self._silent.add(data.context.client.id)

    def tls_failed_client(self, data: tls.TlsData) -> None:
        """Leave a client alone that does not take our certificate."""
        if data.conn.error != _EARLY:
            self._leave(self._who(data), _REFUSED)

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Take note that a client goes on behind the handshake."""
        self._speaks(flow.client_conn)

    def tcp_start(self, flow: tcp.TCPFlow) -> None:
        """Take note of the same where it speaks no HTTP."""
        self._speaks(flow.client_conn)

    def tls_established_server(self, data: tls.TlsData) -> None:
        """Take note that a server speaks TLS with us."""
        self._broken_off.pop(self._who(data).host, None)

    def tls_start_server(self, data: tls.TlsData) -> None:
        """Leave a server to its clients that refuses us behind the handshake, as with TLS 1.3 where it wants a certificate."""
        if is_of_another(data) or data.ssl_conn is None:
            return
        who, receive = Who(self._who(data).host, ()), data.ssl_conn.recv

        def receiving(size: int) -> bytes:
            try:
                return bytes(receive(size))
            except SSL.Error as error:
                if "alert" not in str(error):
                    raise
                if _REFUSES_US.search(str(error)):
                    self._leave(who, _WANTS_A_CERTIFICATE)
                raise SSL.ZeroReturnError from error  # an end; else mitmproxy waits for one that it takes for told

        data.ssl_conn.recv = receiving

    def tls_failed_server(self, data: tls.TlsData) -> None:
        """Leave a server to its clients that does not speak TLS with us."""
        if is_of_another(data):
            return
        who, error = Who(self._who(data).host, ()), data.conn.error or ""
        if _UNTRUSTED in error:
            self._leave(who, "its certificate is not trusted here; SSL_CERT_FILE names the authorities to trust")
            return
        self._broken_off[who.host] += 1
        if "alert" in error or self._broken_off[who.host] >= _ENOUGH:
            self._leave(who, _WANTS_A_CERTIFICATE)

    def client_disconnected(self, client: connection.Client) -> None:
        """Forget a connection, and leave a client alone that never says a word."""
        who = self._clients.pop(client.id, None)
        if client.id not in self._silent:
            return
        self._silent.discard(client.id)
        if who is None or who in self._speaking:
            return
        self._said_nothing[who] += 1
        if self._said_nothing[who] == _ENOUGH_SILENT:
            self._leave(who, _REFUSED)

    def _speaks(self, client: connection.Client) -> None:
        if client.id in self._silent:
            self._silent.discard(client.id)
            self._speaking.add(self._clients[client.id])

    def _asks_for_another(self, address: tuple[str, int] | None, sni: str | None) -> bool:
        """Tell whether it is only the address of a connection that is one to open, and not the server asked for there."""
        if not (address and sni):
            return False
        return self._hosts.opens(*address[:2]) and not self._hosts.opens(sni, address[1])

    def _leave(self, who: Who, reason: str) -> None:
        self._closed.add(who)
        self._notice(f"connections to {who.host} are no longer opened, so its calls are not recorded: {reason}")

    def _who(self, data: tls.TlsData) -> Who:
        return self._clients.get(data.context.client.id) or Who(_host(data.context, data.context.client.sni), ())


def _host(context: Any, sni: str | None) -> str:
    address = context.server.address
    return sni or (str(address[0]) if address else "a server")


def _is_meant(cipher_suite: int) -> bool:
    """Tell whether a suite is no GREASE (RFC 8701), which clients draw anew for each connection."""
    return cipher_suite & 0x0F0F != 0x0A0A
