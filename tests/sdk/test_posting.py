"""Posts to gateways that answer as nobody should."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection, HTTPSConnection

import pytest
from aiohttp import web
from sdk_worlds import serving_from_a_thread

from rotoscope.sdk.gateways import gateway_at
from rotoscope.sdk.posting import TIMEOUT_S, Poster

LONG = b"x" * (1 << 20)


@pytest.fixture
def came() -> list[bytes]:
    return []


@pytest.fixture
def poster(came: list[bytes]) -> Iterator[Poster]:
    """Posts to a server that says much; where nothing is posted, it breaks off."""

    async def answer(request: web.Request) -> web.Response:
        came.append(await request.read())
        if not came[-1]:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(status=207, body=LONG if came[-1] == b"long" else b"")

    with serving_from_a_thread(answer) as origin:
        poster = Poster(gateway_at(origin))
        yield poster
        poster.close()


@pytest.mark.parametrize(("scheme", "kind"), [("http", HTTPConnection), ("https", HTTPSConnection)])
def test_no_step_of_a_post_takes_for_ever_and_what_is_to_be_encrypted_is(scheme: str, kind: type) -> None:
    connection = Poster(gateway_at(f"{scheme}://127.0.0.1"))._opened()

    assert (type(connection), connection.timeout) == (kind, TIMEOUT_S)


def test_connection_is_kept(poster: Poster, came: list[bytes]) -> None:
    assert poster.post("/a", {}, b"one") == 207
    kept = poster._connection
    assert poster.post("/a", {}, b"two") == 207

    assert poster._connection is kept
    assert came == [b"one", b"two"]


def test_answer_that_is_too_long_is_left_and_nothing_is_posted_twice_for_it(poster: Poster, came: list[bytes]) -> None:
    assert [poster.post("/a", {}, body) for body in (b"long", b"two")] == [207, 207]

    assert came == [b"long", b"two"]


def test_connection_that_was_kept_and_broke_is_made_anew_once(poster: Poster, came: list[bytes]) -> None:
    assert poster.post("/a", {}, b"one") == 207
    with pytest.raises(ConnectionError):
        poster.post("/a", {}, b"")

    assert came == [b"one", b"", b""]
    assert poster._connection is None
