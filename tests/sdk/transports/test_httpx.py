"""Requests by httpx2, and by httpx where it is installed."""

from __future__ import annotations

import asyncio
import gzip
import importlib.util
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import web
from sdk_worlds import Ear, heard_by, serving_from_a_thread

MODULES = [name for name in ("httpx", "httpx2") if importlib.util.find_spec(name)]


@pytest.fixture(params=MODULES)
def httpx(request: pytest.FixtureRequest) -> Any:
    return importlib.import_module(request.param)


async def answer(request: web.Request) -> web.StreamResponse:
    """Answer with what came, by the means that the path names."""
    body = await request.read()
    match request.path:
        case "/refuses" if b"added" in body:
            return web.Response(status=422, text="what is that?")
        case "/packed":
            packed = gzip.compress(b"packed " + body)
            return web.Response(body=packed, headers={"Content-Encoding": "gzip", "Content-Type": "text/plain"})
        case "/streamed":
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            for word in (b"one ", b"two ", b"three"):
                await response.write(word)
            return response
        case "/breaks":
            response = web.StreamResponse(headers={"Content-Length": "100"})
            await response.prepare(request)
            await response.write(b"begun")
            assert request.transport is not None
            request.transport.close()
            return response
        case "/headers":
            return web.json_response(dict(request.headers))
    return web.Response(body=body)


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with serving_from_a_thread(answer) as origin:
        yield origin


def test_a_request_and_its_answer_are_heard(httpx: Any, origin: str) -> None:
    with heard_by(ear := Ear()):
        assert httpx.post(f"{origin}/echo", content=b"said").content == b"said"

    assert ear.heard[0].request[:2] == ("POST", f"{origin}/echo")
    assert ear.heard[0].request.headers["CONTENT-LENGTH"] == "4"
    assert ear.heard[0].story == ["response", "chunk", "end"]
    assert ear.heard[0].text == b"said"


def test_a_request_of_an_async_client_is_heard(httpx: Any, origin: str) -> None:
    async def ask() -> bytes:
        async with httpx.AsyncClient() as client:
            return bytes((await client.post(f"{origin}/echo", content=b"said")).content)

    with heard_by(ear := Ear()):
        assert asyncio.run(ask()) == b"said"

    assert ear.heard[0].story == ["response", "chunk", "end"]
    assert ear.heard[0].text == b"said"


def test_an_answer_that_is_packed_is_heard_plain_and_stays_packed(httpx: Any, origin: str) -> None:
    with heard_by(ear := Ear()), httpx.stream("POST", f"{origin}/packed", content=b"said") as response:
        raw = b"".join(response.iter_raw())

    assert gzip.decompress(raw) == b"packed said"
    assert response.headers["content-encoding"] == "gzip"
    assert ear.heard[0].text == b"packed said"


def test_what_is_added_is_sent_and_the_clients_request_stays_its_own(httpx: Any, origin: str) -> None:
    ear = Ear(sends=lambda body: body + b" added", headers={"x-more": "yes"})
    with heard_by(ear):
        echoed = httpx.post(f"{origin}/echo", content=b"said")
        headers = httpx.post(f"{origin}/headers", content=b"said").json()

    assert echoed.content == b"said added"
    assert echoed.request.content == b"said"
    assert "x-more" not in echoed.request.headers
    assert headers["x-more"] == "yes"
    assert headers["Content-Length"] == "10"


def test_what_is_refused_is_sent_once_more_as_it_came(httpx: Any, origin: str) -> None:
    with heard_by(ear := Ear(sends=lambda body: body + b" added")):
        response = httpx.post(f"{origin}/refuses", content=b"said")

    assert (response.status_code, response.content) == (200, b"said")
    assert ear.heard[0].story == ["take back", "response", "chunk", "end"]


def test_what_is_held_back_does_not_reach_the_client(httpx: Any, origin: str) -> None:
    ear = Ear(sends=lambda body: body + b" added", withholds=b"two ")
    with heard_by(ear), httpx.stream("POST", f"{origin}/streamed", content=b"said") as response:
        assert b"".join(response.iter_bytes()) == b"one three"

    assert ear.heard[0].text == b"one two three"


def test_a_client_that_leaves_is_told(httpx: Any, origin: str) -> None:
    with heard_by(ear := Ear()), httpx.stream("POST", f"{origin}/streamed", content=b"said") as response:
        next(response.iter_raw())

    assert ear.heard[0].story[-1] == "cancelled"


def test_an_answer_that_breaks_off_is_told(httpx: Any, origin: str) -> None:
    with heard_by(ear := Ear()), pytest.raises(httpx.RemoteProtocolError):
        httpx.post(f"{origin}/breaks", content=b"said")

    assert ear.heard[0].story[-1] == "failed"


def test_a_server_that_is_not_there_is_told(httpx: Any) -> None:
    with heard_by(ear := Ear()), pytest.raises(httpx.ConnectError):
        httpx.post("http://127.0.0.1:1/echo", content=b"said")

    assert ear.heard[0].story == ["failed"]


def test_bodies_that_are_known_only_when_they_are_sent_pass_unheard(httpx: Any, origin: str) -> None:
    with heard_by(ear := Ear()):
        assert httpx.post(f"{origin}/echo", content=iter([b"sa", b"id"])).content == b"said"
        httpx.post(f"{origin}/echo", files={"file": b"said"})

    assert ear.heard == []
