"""Connections that are not opened, or no longer."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
from event_loops import in_event_loop
from intercept.answering import JSON, Server, body_of
from intercept.asking import VERSIONS, connected
from intercept.fronts import Front
from intercept.opened import opened
from loopback import CHAT, STREAMED, WHOLE, chat_answer
from mitmproxy import ctx

from rotoscope.proxy.intercept.hosts import Hosts, chosen_hosts

both_versions = pytest.mark.parametrize("version", VERSIONS)


@in_event_loop
async def test_a_plain_request_to_another_host_is_not_heard(front: Front, tmp_path: Path) -> None:
    server = Server(body_of(chat_answer()))
    headers = [*JSON, ("Accept-Encoding", "gzip"), ("x-rotoscope-run", "mine")]

    async with front.of(server.answer):
        url = front.origin_file.read_text()
        async with connected(url, "1.1", trusted="") as client:
            direct = await client.ask_whole("POST", CHAT, headers, body_of(STREAMED))
        async with opened(front, tmp_path / "journal") as one, connected(one.proxy, "1.1", trusted="") as client:
            through = await client.ask_whole("POST", f"{url}{CHAT}", headers, body_of(STREAMED))
            calls = await one.calls()

    assert (through.status, through.body, calls) == (direct.status, direct.body, [])
    assert server.asked[0] == server.asked[1]


@both_versions
@in_event_loop
async def test_another_host_is_not_opened(front: Front, tmp_path: Path, version: str) -> None:
    server = Server(body_of(chat_answer()), **{"Content-Encoding": "identity"})
    headers = [*JSON, ("Accept-Encoding", "gzip"), ("x-rotoscope-run", "mine")]

    async with front.of(server.answer), opened(front, tmp_path / "journal", hosts=Hosts()) as one:
        async with connected(front.url, version, trusted=front.certificates.authority) as client:
            direct = await client.ask_whole("POST", CHAT, headers, body_of(WHOLE))
        async with one.connected_closed(version) as client:
            through = await client.ask_whole("POST", CHAT, headers, body_of(WHOLE))
            certificate = client.certificate
        calls = await one.calls()

    assert certificate == front.certificates.fingerprint
    assert through == direct
    assert server.asked[0] == server.asked[1]
    assert (calls, one.interceptor.requests, dict(one.interceptor.unopened)) == ([], 0, {"localhost": 1})


@both_versions
@in_event_loop
async def test_a_client_that_pins_its_certificate_fails_once_and_is_tunnelled_from_then_on(
    front: Front, tmp_path: Path, version: str
) -> None:
    server = Server(body_of(chat_answer()))

    async with front.of(server.answer), opened(front, tmp_path / "journal") as one:
        with pytest.raises(ssl.SSLCertVerificationError):
            async with one.connected_closed(version):
                pass
        async with one.connected_closed(version) as client:
            through = await client.ask_whole("POST", CHAT, JSON, body_of(WHOLE))
            certificate = client.certificate
        calls = await one.calls()

    assert (through.status, certificate) == (200, front.certificates.fingerprint)
    assert calls == []
    (line,) = one.notices
    assert line.startswith("connections to localhost are no longer opened, so its calls are not recorded: ")
    assert "\n" not in line


@in_event_loop
async def test_a_client_that_looks_at_the_certificate_behind_the_handshake_is_tunnelled_in_the_end(
    front: Front, tmp_path: Path
) -> None:
    async with opened(front, tmp_path / "journal") as one:
        for number in range(3):
            async with one.connected("1.1"):
                while one.interceptor.opening.connections["localhost"] <= number:  # noqa: ASYNC110 - no event tells
                    await asyncio.sleep(0.005)
            while ctx.master.addons.get("proxyserver").connections:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        async with one.connected_closed() as client:
            certificate = client.certificate

    assert certificate == front.certificates.fingerprint
    (line,) = one.notices
    assert "its client pins a certificate" in line


@in_event_loop
async def test_an_opened_host_that_is_asked_for_another_server_is_not_opened(front: Front, tmp_path: Path) -> None:
    async with opened(front, tmp_path / "journal", hosts=chosen_hosts([f"127.0.0.1:{front.port}"])) as one:
        asking = connected(
            f"https://127.0.0.1:{front.port}",
            "1.1",
            trusted=front.certificates.authority,
            proxy=one.proxy,
            name="localhost",
        )
        async with asking as client:
            certificate = client.certificate

    assert certificate == front.certificates.fingerprint
    assert (dict(one.interceptor.unopened), one.notices) == ({"localhost": 1}, [])


@in_event_loop
async def test_a_server_whose_certificate_is_not_trusted_fails_and_is_explained(front: Front, tmp_path: Path) -> None:
    async with opened(front, tmp_path / "journal", trusts_the_front=False) as one, one.connected("1.1") as client:
        answer = await client.ask_whole("POST", CHAT, JSON, body_of(WHOLE))

    assert answer.status == 502
    assert [line for line in one.notices if "its certificate is not trusted here" in line] != []
