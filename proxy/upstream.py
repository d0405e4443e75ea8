"""The server that the gateway stands in front of, and the one client session that talks to it.

The gateway keeps paths as they are: a client's path is sent to the upstream's origin unchanged. So the base URL of the
client is that of the upstream with another origin, whatever prefix it has, and server paths beside it work too.
"""

from __future__ import annotations

import re
import ssl
import urllib.request
from dataclasses import dataclass

import aiohttp
from yarl import URL

from rotoscope.proxy.header_bytes import keep_odd_bytes
from rotoscope.traces.errors import UnusableInput

CONNECT_TIMEOUT_S = 30.0
"""The only limit of time towards the upstream: a call may think in silence for as long as its client waits."""

IDLE_CONNECTION_S = 4.0
"""Idle connections are given up before common servers do it (uvicorn, llama-server and Node close theirs after 5 s):
a request sent into a closing connection is lost, and the gateway repeats none."""

MAX_HEADER_BYTES = 256 * 1024
"""Limit of one header line, in both directions; coding agents send more than the 8 KB that is usual."""

_LAST_VERSION = re.compile(r"/v\d+[a-z0-9]*$")
_VERSION_SEGMENT = re.compile(r"^v\d+[a-z0-9]*$")


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where calls go: an origin, and the path of the API's base URL on it (no slash at its end)."""

    origin: str
    base_path: str

    def base_url(self, origin: str) -> str:
        """Return what a client takes as its base URL when it talks to `origin` in place of the upstream."""
        return origin + self.base_path

    def without_version(self, origin: str) -> str:
        """Return the base URL of clients that add the version of the API themselves; empty where it has none."""
        bare = _LAST_VERSION.sub("", self.base_path)
        return "" if bare == self.base_path else origin + bare

    def server_url(self, path: str) -> str:
        """Return the URL of a server path that stands beside the API's version (`/tokenize` beside `/v1`)."""
        return self.origin + _LAST_VERSION.sub("", self.base_path) + path


def upstream_given(url: str) -> Upstream:
    """Read an upstream from what a person typed, where the version of the API may be missing.

    Raises UnusableInput.
    """
    upstream = upstream_as_is(url)
    if any(_VERSION_SEGMENT.match(segment) for segment in upstream.base_path.split("/")):
        return upstream
    return Upstream(upstream.origin, upstream.base_path + "/v1")


def upstream_as_is(url: str) -> Upstream:
    """Read an upstream from a complete base URL, as clients take it.

    Raises UnusableInput; the text of the URL is not repeated, as it may hold a key.
    """
    try:
        parsed = URL(url.strip(), encoded=True)
        origin = str(parsed.origin()) if parsed.scheme in ("http", "https") and parsed.host else ""
    except ValueError:
        origin = ""
    if not origin:
        raise UnusableInput("the upstream is no base URL: give one like 'http://localhost:8000/v1'")
    if parsed.user is not None or parsed.raw_query_string or parsed.raw_fragment:
        raise UnusableInput(
            "the upstream has more than host and path: leave out user, query and fragment, the client sends its own key"
        )
    return Upstream(origin, parsed.raw_path.rstrip("/"))


def open_session(upstream: Upstream) -> aiohttp.ClientSession:
    """Open the pooled connections to the upstream; they add no header, keep no cookie and repeat no request."""
    keep_odd_bytes()
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=IDLE_CONNECTION_S, ssl=verifying()),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        proxy=_proxy_of_environment(upstream),
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
    )
    # aiohttp repeats a GET when the server closed a kept connection; a recorder must not add requests of its own.
    session._retry_connection = False
    return session


def verifying(authorities: str | None = None) -> ssl.SSLContext:
    """Return what verifies servers by a file of authorities, or by those that are trusted here.

    SSLKEYLOGFILE is left to the command: by what would be written there everybody reads what was said.
    """
    context = ssl.create_default_context(cafile=authorities)
    context.set_alpn_protocols(["http/1.1"])
    context.keylog_filename = None  # type: ignore[assignment]
    return context


def _proxy_of_environment(upstream: Upstream) -> str | None:
    """Return the proxy that the environment names for the upstream.

    Asked once: with `trust_env` the session would ask again for each request, and send passwords out of ~/.netrc.
    """
    url = URL(upstream.origin)
    if urllib.request.proxy_bypass(url.host or ""):
        return None
    return urllib.request.getproxies().get(url.scheme)
