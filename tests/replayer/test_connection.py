from __future__ import annotations

import asyncio

import pytest
from aiohttp import web
from event_loops import in_event_loop
from raw_server import serving

from rotoscope.replayer.backends.engines import ENGINES
from rotoscope.replayer.connection import LONGEST_CONNECT_S, client_session, without_key


async def say_what_came(request: web.Request) -> web.StreamResponse:
    response = web.json_response({"headers": dict(request.headers), "connection": id(request.transport)})
    response.set_cookie("seen", "yes")
    return response


@in_event_loop
async def test_the_key_stands_where_the_engine_looks_for_it_and_no_cookie_is_kept() -> None:
    async with (
        serving({"/": say_what_came}) as url,
        client_session(api_key="k", engine=ENGINES["anthropic"], timeout_s=60.0, reuses_connections=True) as http,
    ):
        for _ in range(2):
            async with http.get(url) as response:
                headers = (await response.json())["headers"]

    assert headers["x-api-key"] == "k"
    assert "Authorization" not in headers
    assert "Cookie" not in headers
    assert headers["User-Agent"] == "rotoscope"


@pytest.mark.parametrize("reuses", [True, False])
@in_event_loop
async def test_connections_are_used_again_where_the_server_keeps_them(reuses: bool) -> None:
    async with (
        serving({"/": say_what_came}) as url,
        client_session(timeout_s=60.0, reuses_connections=reuses) as http,
    ):
        headers = []
        for _ in range(2):
            async with http.get(url) as response:
                headers.append((await response.json())["headers"])
        await asyncio.sleep(0)
        assert http.connector is not None
        assert http.connector.force_close is not reuses

    assert [one.get("Connection") for one in headers] == ([None, None] if reuses else ["close", "close"])


@pytest.mark.parametrize(("timeout_s", "connect_s"), [(1.5, 1.5), (600.0, LONGEST_CONNECT_S)])
@in_event_loop
async def test_making_a_connection_takes_no_longer_than_anything_else(timeout_s: float, connect_s: float) -> None:
    async with client_session(timeout_s=timeout_s, reuses_connections=True) as http:
        assert (http.timeout.sock_connect, http.timeout.total) == (connect_s, None)


@pytest.mark.parametrize("engine", ["any", "anthropic"])
@pytest.mark.parametrize(("key", "shown"), [("sk-secret", b"no ***"), ("none", b"no none"), (None, b"no None")])
@in_event_loop
async def test_a_key_is_cut_out_of_what_is_said(engine: str, key: str | None, shown: bytes) -> None:
    async with client_session(api_key=key, engine=ENGINES[engine], timeout_s=60.0, reuses_connections=True) as http:
        assert without_key(f"no {key}".encode(), http) == shown
