"""Requests by aiohttp; what holds of every client stands in `test_unchanged_law.py`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator

import aiohttp
import pytest
from aiohttp import web
from event_loops import GUARD_S
from piecewise_server import PiecewiseServer, Plan
from sdk_worlds import Ear, heard_by, in_a_thread, serving_from_a_thread

from rotoscope.sdk.transports.aiohttp import _hearings

ADDS = Ear(sends=lambda body: body + b" more").sends


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[PiecewiseServer, str]]:
    server = PiecewiseServer()
    with in_a_thread(server.serving()) as origin:
        yield server, origin


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    assert _hearings == {}


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_what_is_held_back_does_not_reach_the_client(server: tuple[PiecewiseServer, str], framing: str) -> None:
    planned, url = server
    planned.plan = Plan(b"one two three", (4, 8), kind="text/event-stream", framing=framing)  # type: ignore[arg-type]

    async def ask() -> tuple[bytes, bytes]:
        async with aiohttp.ClientSession() as session:
            async with session.post(url, data=b"said") as response:
                whole = await response.read()
            async with session.post(url, data=b"said") as response:
                return whole, b"".join([piece async for piece, _ in response.content.iter_chunks()])

    with heard_by(ear := Ear(sends=ADDS, withholds=b"two ")):
        assert asyncio.run(ask()) == (b"one three", b"one three")

    assert [outgoing.text for outgoing in ear.heard] == [b"one two three"] * 2
    assert [outgoing.story[-1] for outgoing in ear.heard] == ["end", "end"]


def test_a_client_that_leaves_is_told(server: tuple[PiecewiseServer, str]) -> None:
    is_told = asyncio.Event()

    async def ask(origin: str) -> None:
        async with aiohttp.ClientSession() as session, session.post(origin, data=b"said") as response:
            assert await response.content.readany() == b"one "

    async def stay(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one ")
        await is_told.wait()
        return response

    with serving_from_a_thread(stay) as origin, heard_by(ear := Ear()):
        asyncio.run(ask(origin))

    assert ear.heard[0].story == ["response", "chunk", "cancelled"]


def test_a_client_that_is_cancelled_is_told() -> None:
    has_come = threading.Event()

    async def stay(request: web.Request) -> web.StreamResponse:
        has_come.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def ask(origin: str) -> None:
        async with aiohttp.ClientSession() as session:
            asking = asyncio.ensure_future(session.post(origin, data=b"said"))
            assert await asyncio.to_thread(has_come.wait, GUARD_S)
            asking.cancel()
            await asyncio.wait([asking])

    with serving_from_a_thread(stay) as origin, heard_by(ear := Ear()):
        asyncio.run(ask(origin))

    assert ear.heard[0].story == ["cancelled"]


def test_what_is_refused_is_sent_once_more_as_it_came(server: tuple[PiecewiseServer, str]) -> None:
    planned, url = server
    planned.plan = Plan(status=422)
    planned.requests.clear()

    async def ask() -> aiohttp.RequestInfo:
        async with aiohttp.ClientSession() as session, session.post(url, json={"a": 1}) as response:
            assert response.status == 422
            return response.request_info

    with heard_by(ear := Ear(sends=ADDS, headers={"x-more": "yes"})):
        told = asyncio.run(ask())

    assert [x.partition(b"\r\n\r\n")[2] for x in planned.requests] == [b'{"a": 1} more', b'{"a": 1}']
    assert all(b"x-more: yes" in request for request in planned.requests)
    assert "x-more" not in told.headers
    assert told.headers["content-length"] == "8"
    assert ear.heard[0].story[:2] == ["take back", "response"]


def test_what_is_added_goes_along_with_a_redirect_once(server: tuple[PiecewiseServer, str]) -> None:
    async def redirect(request: web.Request) -> web.StreamResponse:
        if request.path == "/there":
            return web.Response(body=await request.read())
        raise web.HTTPTemporaryRedirect("/there")

    async def ask(origin: str) -> bytes:
        async with aiohttp.ClientSession() as session, session.post(f"{origin}/here", data=b"said") as response:
            return await response.read()

    with serving_from_a_thread(redirect) as origin, heard_by(ear := Ear(sends=ADDS)):
        assert asyncio.run(ask(origin)) == b"said more"

    assert [outgoing.request.url for outgoing in ear.heard] == [f"{origin}/here", f"{origin}/there"]


def test_the_middlewares_of_a_client_stand_above(server: tuple[PiecewiseServer, str]) -> None:
    planned, url = server
    planned.plan = Plan()
    Send = Callable[[aiohttp.ClientRequest], Awaitable[aiohttp.ClientResponse]]

    async def name(request: aiohttp.ClientRequest, send: Send) -> aiohttp.ClientResponse:
        request.headers["x-named"] = "theirs"
        return await send(request)

    async def ask() -> None:
        async with aiohttp.ClientSession(middlewares=[name]) as session, session.post(url, data=b"said") as response:
            await response.read()
        async with aiohttp.ClientSession() as session, session.post(url, middlewares=[name]) as response:
            await response.read()

    with heard_by(ear := Ear()):
        asyncio.run(ask())

    assert [outgoing.request.headers["X-Named"] for outgoing in ear.heard] == ["theirs", "theirs"]


def test_bodies_that_are_packed_on_the_way_are_heard_plain(server: tuple[PiecewiseServer, str]) -> None:
    planned, url = server
    planned.plan = Plan()

    async def ask() -> None:
        async with aiohttp.ClientSession() as session:
            async with session.post(url, data=b"said", compress="deflate") as response:
                await response.read()
            async with session.post(
                url, data=aiohttp.FormData({"file": "said"}, default_to_multipart=True)
            ) as response:
                await response.read()

    with heard_by(ear := Ear()):
        asyncio.run(ask())

    assert [outgoing.request.body for outgoing in ear.heard] == [b"said"]
    assert "content-encoding" not in ear.heard[0].request.headers
