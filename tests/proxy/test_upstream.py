from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from loopback import RawUpstream, serving_bytes

from rotoscope.proxy.upstream import CONNECT_TIMEOUT_S, open_session, upstream_as_is, upstream_given, verifying
from rotoscope.traces.errors import UnusableInput

GATEWAY = "http://127.0.0.1:4000"


@pytest.mark.parametrize(
    ("given", "client"),
    [
        ("http://host:8000", "/v1"),
        ("http://host:8000/", "/v1"),
        ("http://host:8000/v1", "/v1"),
        ("http://host:8000/v1/", "/v1"),
        ("https://host/prefix", "/prefix/v1"),
        ("https://host/prefix/v1", "/prefix/v1"),
        ("https://host/v1beta/openai", "/v1beta/openai"),
        ("https://host/api/paas/v4", "/api/paas/v4"),
        (" http://[::1]:8000/v1 ", "/v1"),
    ],
)
def test_client_gets_the_path_that_the_upstream_has_and_a_version_where_none_is(given: str, client: str) -> None:
    assert upstream_given(given).base_url(GATEWAY) == GATEWAY + client


def test_complete_base_url_is_taken_as_it_is() -> None:
    assert upstream_as_is("http://host").base_url(GATEWAY) == GATEWAY
    assert upstream_as_is("http://host/api").base_url(GATEWAY) == GATEWAY + "/api"


@pytest.mark.parametrize(
    ("given", "tokenize"),
    [
        ("http://host:8000/v1", "http://host:8000/tokenize"),
        ("http://host:8000/prefix/v1", "http://host:8000/prefix/tokenize"),
        ("http://host:8000/prefix", "http://host:8000/prefix/tokenize"),
    ],
)
def test_server_paths_stand_beside_the_version(given: str, tokenize: str) -> None:
    assert upstream_given(given).server_url("/tokenize") == tokenize


@pytest.mark.parametrize("given", ["localhost:8000", "host/v1", "ftp://host/v1", "http://", "http://host:port/v1", ""])
def test_what_is_no_base_url_is_refused_with_an_example(given: str) -> None:
    with pytest.raises(UnusableInput, match="give one like 'http://localhost:8000/v1'"):
        upstream_given(given)


@pytest.mark.parametrize("secret", ["http://me:secret@host/v1", "http://host/v1?key=secret", "http://host/v1#secret"])
def test_url_with_more_than_host_and_path_is_refused_without_repeating_it(secret: str) -> None:
    with pytest.raises(UnusableInput) as refused:
        upstream_given(secret)

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "bare"),
    [
        ("http://host", "http://gateway"),
        ("http://host/api/v1beta", "http://gateway/api"),
        ("http://host/v1/engine", ""),
    ],
)
def test_clients_that_add_the_version_themselves_take_the_base_url_without_it(given: str, bare: str) -> None:
    assert upstream_given(given).without_version("http://gateway") == bare


def request_line_seen_by_proxy(upstream: str, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """Ask an upstream that only a proxy can reach, and return what the proxy was asked for."""

    async def ask() -> bytes:
        proxy = RawUpstream(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        async with serving_bytes(proxy) as origin:
            monkeypatch.setenv("http_proxy", origin)
            async with open_session(upstream_given(upstream)) as session, session.get(upstream) as answer:
                await answer.read()
        return proxy.requests[0].partition(b"\r\n")[0]

    return asyncio.run(ask())


def test_upstream_is_reached_through_the_proxy_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    line = request_line_seen_by_proxy("http://outside.example/v1", monkeypatch)

    assert line == b"GET http://outside.example/v1 HTTP/1.1"


def test_upstream_that_the_environment_excepts_is_reached_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    async def ask() -> int:
        async with (
            serving_bytes(RawUpstream(b"HTTP/1.1 204 No Content\r\n\r\n")) as origin,
            open_session(upstream_given(origin)) as session,
            session.get(origin) as answer,
        ):
            return answer.status

    assert asyncio.run(ask()) == 204


def test_only_connecting_has_a_limit_of_time() -> None:
    async def limits() -> tuple[float | None, float | None, float | None]:
        async with open_session(upstream_given("http://host")) as session:
            return session.timeout.total, session.timeout.sock_read, session.timeout.sock_connect

    assert asyncio.run(limits()) == (None, None, CONNECT_TIMEOUT_S)


def test_no_secret_of_tls_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))

    assert verifying().keylog_filename is None
