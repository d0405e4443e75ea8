"""An interception behind which there is another proxy, with a password, as companies have them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from aiohttp import web
from event_loops import in_event_loop
from intercept.asking import VERSIONS, connected
from intercept.fronts import Front
from intercept.opened import opened
from intercept.other_proxy import PASSWORD, other_proxy
from loopback import CHAT, STREAMED, WHOLE, chat_answer, chat_chunk, sse

from rotoscope.proxy.intercept.hosts import Hosts

JSON = [("content-type", "application/json")]

both_versions = pytest.mark.parametrize("version", VERSIONS)


async def answer(_: web.Request) -> web.StreamResponse:
    return web.json_response(chat_answer())


@both_versions
@in_event_loop
async def test_the_proxy_of_the_environment_is_gone_through(front: Front, tmp_path: Path, version: str) -> None:
    async with (
        other_proxy() as proxy,
        front.of(answer),
        opened(front, tmp_path / "journal", environment={"https_proxy": proxy.url}) as one,
    ):
        async with one.connected(version) as client:
            through = await client.ask_whole("POST", CHAT, JSON, json.dumps(WHOLE).encode())
        (call,) = await one.calls()

    assert json.loads(through.body) == chat_answer()
    assert (proxy.connected, proxy.refused) == ([f"localhost:{front.port}".encode()], 0)
    assert call.prompt_tokens == 20


@in_event_loop
async def test_the_proxy_of_the_mode_is_gone_through(front: Front, tmp_path: Path) -> None:
    async with (
        other_proxy() as proxy,
        front.of(answer),
        opened(front, tmp_path / "journal", mode=f"upstream:{proxy.url}") as one,
        one.connected("1.1") as client,
    ):
        through = await client.ask_whole("POST", CHAT, JSON, json.dumps(WHOLE).encode())

    assert through.status == 200
    assert proxy.refused == 0


@in_event_loop
async def test_what_is_not_opened_goes_through_it_too(front: Front, tmp_path: Path) -> None:
    async with (
        other_proxy() as proxy,
        front.of(answer),
        opened(front, tmp_path / "journal", hosts=Hosts(), environment={"https_proxy": proxy.url}) as one,
        one.connected_closed() as client,
    ):
        through = await client.ask_whole("POST", CHAT, JSON, json.dumps(WHOLE).encode())
        certificate = client.certificate

    assert (through.status, certificate) == (200, front.certificates.fingerprint)
    assert (proxy.connected, proxy.refused) == ([f"localhost:{front.port}".encode()], 0)


@both_versions
@in_event_loop
async def test_what_is_sent_once_more_goes_through_it_too(front: Front, tmp_path: Path, version: str) -> None:
    said = sse(chat_chunk({"content": "one"}), chat_chunk({}, "stop"), "[DONE]")

    async def refuse(request: web.Request) -> web.StreamResponse:
        if b"stream_options" in await request.read():
            return web.json_response({"error": "stream_options"}, status=400)
        return web.Response(body=said, headers={"Content-Type": "text/event-stream"})

    async with (
        other_proxy() as proxy,
        front.of(refuse),
        opened(front, tmp_path / "journal", environment={"https_proxy": proxy.url}) as one,
        one.connected(version) as client,
    ):
        through = await client.ask_whole("POST", CHAT, JSON, json.dumps(STREAMED).encode())

    assert (through.status, through.body) == (200, said)
    assert (len(proxy.connected), proxy.refused) == (2, 0)


@in_event_loop
async def test_a_wrong_password_is_not_told(front: Front, tmp_path: Path) -> None:
    async with other_proxy() as proxy:
        url = proxy.url.replace("me:", "wrong:")
        async with (
            opened(front, tmp_path / "journal", environment={"https_proxy": url}) as one,
            one.connected("1.1") as client,
        ):
            through = await client.ask_whole("POST", CHAT, JSON, json.dumps(WHOLE).encode())

    assert through.status == 502
    assert proxy.refused > 0
    assert [line for line in one.notices if PASSWORD in line or "wrong" in line] == []


@in_event_loop
async def test_nobody_else_on_this_machine_goes_on_with_its_password(front: Front, tmp_path: Path) -> None:
    async with (
        other_proxy() as proxy,
        front.of(answer),
        opened(front, tmp_path / "journal", environment={"https_proxy": proxy.url}) as one,
    ):
        stranger = f"http://{one.proxy.rpartition('@')[2]}"
        with pytest.raises(ConnectionRefusedError, match="407"):
            async with connected(front.url, "1.1", trusted=one.authority.certificate, proxy=stranger):
                pass
        async with connected(stranger, "1.1", trusted="") as client:
            plain = await client.ask_whole("GET", f"{front.url}/v1/models".replace("https", "http"))

    assert plain.status == 407
    assert (proxy.connected, proxy.refused) == ([], 0)
