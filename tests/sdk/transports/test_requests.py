"""Requests by requests; what holds of every client stands in `test_unchanged_law.py`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
from aiohttp import web
from piecewise_server import PiecewiseServer, Plan
from sdk_worlds import Ear, heard_by, in_a_thread, serving_from_a_thread

ADDS = Ear(sends=lambda body: body + b" more").sends


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[PiecewiseServer, str]]:
    server = PiecewiseServer()
    with in_a_thread(server.serving()) as origin:
        yield server, origin


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_what_is_held_back_does_not_reach_the_client(server: tuple[PiecewiseServer, str], framing: str) -> None:
    planned, url = server
    planned.plan = Plan(b"one two three", (4, 8), kind="text/event-stream", framing=framing)  # type: ignore[arg-type]
    with heard_by(ear := Ear(sends=ADDS, withholds=b"two ")):
        whole = requests.post(url, data=b"said").content
        with requests.post(url, data=b"said", stream=True) as response:
            pieces = list(response.iter_content(4))

    assert whole == b"".join(pieces) == b"one three"
    assert [outgoing.text for outgoing in ear.heard] == [b"one two three"] * 2
    assert [outgoing.story[-1] for outgoing in ear.heard] == ["end", "end"]


def test_an_answer_that_is_too_short_fails_where_something_is_held_back_too(
    server: tuple[PiecewiseServer, str],
) -> None:
    planned, url = server
    planned.plan = Plan(b"one two three", (4, 8), kind="text/event-stream", framing="length", breaks=True)
    with heard_by(ear := Ear(sends=ADDS, withholds=b"two ")), pytest.raises(requests.exceptions.ChunkedEncodingError):
        requests.post(url, data=b"said")

    assert ear.heard[0].story[-1] == "failed"


def test_reading_by_the_byte_ends(server: tuple[PiecewiseServer, str]) -> None:
    planned, url = server
    planned.plan = Plan(b"one", framing="length")
    with heard_by(ear := Ear()), requests.post(url, data=b"said", stream=True) as response:
        assert response.raw.read(0) == b""
        assert [response.raw.read(1) for _ in range(4)] == [b"o", b"n", b"e", b""]
        assert response.raw.closed

    assert ear.heard[0].story == ["response", "chunk", "end"]


def test_a_client_that_leaves_is_told(server: tuple[PiecewiseServer, str]) -> None:
    planned, url = server
    planned.plan = Plan(b"one two three", (4, 8))
    with heard_by(ear := Ear()), requests.post(url, data=b"said", stream=True) as response:
        next(response.iter_content(4))

    assert ear.heard[0].story[-1] == "cancelled"


def test_what_is_refused_is_sent_once_more_as_it_came(server: tuple[PiecewiseServer, str]) -> None:
    planned, url = server
    planned.plan = Plan(status=422)
    planned.requests.clear()
    with heard_by(ear := Ear(sends=ADDS)):
        response = requests.post(url, data="said")

    assert [request.partition(b"\r\n\r\n")[2] for request in planned.requests] == [b"said more", b"said"]
    assert (response.status_code, response.request.body) == (422, "said")
    assert ear.heard[0].story[:2] == ["take back", "response"]


def test_texts_are_heard_and_files_are_not(server: tuple[PiecewiseServer, str]) -> None:
    planned, url = server
    planned.plan = Plan()
    with heard_by(ear := Ear()):
        requests.post(url, data="säid")
        requests.post(url, data=iter([b"said"]))
        requests.get(url)

    assert [outgoing.request.body for outgoing in ear.heard] == ["säid".encode(), b""]


def test_errors_name_the_clients_own_request() -> None:
    with heard_by(ear := Ear(sends=ADDS)), pytest.raises(requests.ConnectionError) as failed:
        requests.post("http://127.0.0.1:1/", data=b"said")

    assert isinstance(failed.value.request, requests.PreparedRequest)
    assert failed.value.request.body == b"said"
    assert ear.heard[0].story == ["failed"]


def test_redirects_are_heard_each_and_told_by_the_client() -> None:
    async def redirect(request: web.Request) -> web.StreamResponse:
        if request.path == "/there":
            return web.Response(body=await request.read())
        raise web.HTTPTemporaryRedirect("/there")

    with serving_from_a_thread(redirect) as origin, heard_by(ear := Ear()):
        response = requests.post(f"{origin}/here", data=b"said")

    assert (response.content, [x.status_code for x in response.history]) == (b"said", [307])
    assert [outgoing.request.url for outgoing in ear.heard] == [f"{origin}/here", f"{origin}/there"]


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_an_answer_that_breaks_off_is_told(server: tuple[PiecewiseServer, str], framing: str) -> None:
    planned, url = server
    planned.plan = Plan(b"one two three", (4, 8), framing=framing, breaks=True)  # type: ignore[arg-type]
    with heard_by(ear := Ear()), pytest.raises(requests.exceptions.ChunkedEncodingError):
        requests.post(url, data=b"said")

    assert ear.heard[0].story == ["response", "chunk", "failed"]


def test_an_answer_that_breaks_off_between_chunks_fails() -> None:
    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(b"one")
        assert request.transport is not None
        request.transport.close()
        return response

    with (
        serving_from_a_thread(answer) as origin,
        heard_by(ear := Ear()),
        pytest.raises(requests.exceptions.ChunkedEncodingError),
    ):
        requests.post(origin, data=b"said")

    assert ear.heard[0].story == ["response", "chunk", "failed"]


def test_the_request_of_an_answer_is_the_clients_own(server: tuple[PiecewiseServer, str]) -> None:
    planned, url = server
    planned.plan = Plan(b"one")
    with heard_by(Ear(headers={"x-told": "1"})):
        response = requests.post(url, data=b"said")

    assert b"x-told: 1" in planned.requests[-1]
    assert "x-told" not in response.request.headers
