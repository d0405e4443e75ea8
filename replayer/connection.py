"""The HTTP client of a replay and of what comes before it: without limits and without a memory of its own."""

from __future__ import annotations

import aiohttp

from rotoscope.replayer.backends.engines import ANY_ENGINE, Engine

KEEP_ALIVE_S = 3.0
"""Shorter than that of servers (5 s in uvicorn and llama-server): a request on a connection that the server is just
closing would be lost, and none is repeated."""
LONGEST_CONNECT_S = 10.0
_SHORTEST_SECRET = 8
"""Servers without keys are sent words like `none`, which may be a part of anything."""


def client_session(
    *, api_key: str | None = None, engine: Engine = ANY_ENGINE, timeout_s: float, reuses_connections: bool
) -> aiohttp.ClientSession:
    """Return a client: no cookies, no proxy; `timeout_s` bounds the making of a connection if it is short."""
    headers = {"Accept-Encoding": "identity", "User-Agent": "rotoscope"}
    if api_key is not None:
        headers |= engine.key_headers(api_key)
    connector = (
        aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S)
        if reuses_connections
        else aiohttp.TCPConnector(limit=0, force_close=True)
    )
    return aiohttp.ClientSession(
        connector=connector,
        headers=headers,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=min(LONGEST_CONNECT_S, timeout_s)),
    )


def without_key(said: bytes, http: aiohttp.ClientSession) -> bytes:
    """Return what a server said of a failed request without the API key, which some repeat."""
    key = http.headers.get("x-api-key") or http.headers.get("Authorization", "").removeprefix("Bearer ")
    return said.replace(key.encode(), b"***") if len(key) >= _SHORTEST_SECRET else said
