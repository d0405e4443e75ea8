"""A request once more as it came: where a server refuses what the recorder has added to it."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from mitmproxy import http
from yarl import URL

from rotoscope.proxy.intercept.hosts import in_ascii
from rotoscope.proxy.upstream import CONNECT_TIMEOUT_S, MAX_HEADER_BYTES, verifying


@dataclass(frozen=True, slots=True)
class Came:
    """What of a request the recorder changes, as it came."""

    headers: http.Headers = field(repr=False)
    body: bytes = field(repr=False)


class Again:
    """Send requests on connections of our own; an answer comes whole."""

    def __init__(self, session: aiohttp.ClientSession, verify: ssl.SSLContext, proxy: URL | None) -> None:
        self._session = session
        self._verify = verify
        self._proxy = proxy

    async def send(self, flow: http.HTTPFlow, came: Came) -> http.Response:
        """Send the request of a flow as it came. Raises aiohttp.ClientError, OSError or TimeoutError."""
        request = flow.request
        origin = URL.build(scheme=request.scheme, host=request.host, port=request.port)
        headers = [(name, value) for name, value in came.headers.items(multi=True) if name.lower() not in _NOT_SENT]
        async with self._session.request(
            request.method,
            URL(str(origin) + request.path, encoded=True),
            data=came.body,
            headers=[
                *headers,
                ("Host", in_ascii(request.host_header or request.pretty_host)),
                ("Accept-Encoding", "identity"),
            ],
            allow_redirects=False,
            ssl=self._verify,
            server_hostname=flow.client_conn.sni if request.scheme == "https" else None,
            proxy=self._proxy,
        ) as answer:
            kept = [(name, value) for name, value in answer.raw_headers if name.lower() not in _NOT_PASSED]
            body = await answer.read()
            return http.Response.make(answer.status, body, http.Headers(kept))


@contextlib.asynccontextmanager
async def sending_again(trusted: str, proxy: str | None, client_cert: Path | None = None) -> AsyncIterator[Again]:
    """Have connections to servers that are verified by a file of authorities, through a proxy or not.

    Servers that ask for a certificate are shown that of `client_cert`, where it is given.
    """
    verify = verifying(trusted)
    if client_cert is not None:
        verify.load_cert_chain(client_cert)
    async with aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
    ) as session:
        yield Again(session, verify, URL(proxy) if proxy else None)


_NOT_SENT = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})
_NOT_PASSED = frozenset({b"content-length", b"transfer-encoding", b"connection", b"keep-alive"})
