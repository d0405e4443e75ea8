"""A gateway with many runs, on the wire."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from loopback import CHAT, PATIENCE_S, WHOLE, chat_answer, chat_chunk, exchange_bytes, serving, sse
from tokenizer_files import word_tokenizer

from rotoscope.proxy.door import Door
from rotoscope.proxy.standing import Standing, Stood, standing
from rotoscope.proxy.upstream import upstream_given
from rotoscope.recorder.campaigns import Campaign
from rotoscope.recorder.names_file import names_file
from rotoscope.recorder.recorded_run import Finished
from rotoscope.recorder.token_counters import chosen_tokenizer
from rotoscope.traces.errors import UnusableInput

TOKEN = "a-token-of-some-length"


class Upstream:
    """Answers all, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.arrived = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        await request.read()
        self.asked.append((request.path_qs, {name.lower(): value for name, value in request.headers.items()}))
        self.arrived.set()
        await self.may_answer.wait()
        return web.json_response(chat_answer())


def played(
    folder: Path, play: Callable[[aiohttp.ClientSession, Stood, Upstream], Awaitable[None]], **how: Any
) -> list[Finished]:
    """Play with a gateway in front of a server; return its runs, in the order in which they ended."""
    ended: list[Finished] = []

    async def run() -> None:
        upstream = Upstream()
        async with serving(upstream.answer) as origin:
            options = Standing(upstream_given(origin), folder, Campaign(), **how)
            async with (
                aiohttp.ClientSession() as client,
                standing(options, finished=lambda one, _: ended.append(one)) as stood,
            ):
                await play(client, stood, upstream)

    asyncio.run(run())
    return ended


async def ask(client: aiohttp.ClientSession, url: str, text: str = "hello", **headers: str) -> int:
    body = {"model": "m", "messages": [{"role": "system", "content": "s" * 400}, {"role": "user", "content": text}]}
    async with client.post(url, json=body, headers={k.replace("_", "-"): v for k, v in headers.items()}) as answer:
        await answer.read()
        return answer.status


def contents(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.iterdir()]


def calls_of(ended: list[Finished]) -> list[int]:
    return sorted(len(list(one.trace.calls())) for one in ended if one.trace)


def test_runs_have_a_trace_each_and_one_id_for_the_prefix_they_share(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, stood: Stood, _: Upstream) -> None:
        origin = stood.gateway.origin
        await ask(client, origin + CHAT, "1")
        await ask(client, f"{origin}/run/a{CHAT}", "2")
        await ask(client, origin + CHAT, "3", x_rotoscope_run="a")
        for text in ("4", "5", "6"):
            await ask(client, origin + CHAT, text, x_claude_code_session_id="s")

    ended = played(tmp_path, play, by_session=True)

    assert calls_of(ended) == [1, 2, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"run-000{i}.trace.json" for i in (1, 2, 3)]
    assert len({shared.id for one in ended if one.trace for shared in one.trace.shared_prefixes}) == 1


def test_cache_domains_have_one_number_in_all_runs(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, stood: Stood, _: Upstream) -> None:
        for run, model in (("a", "x"), ("a", "y"), ("b", "y"), ("b", "x")):
            body = {"model": model, "messages": WHOLE["messages"]}
            await (await client.post(f"{stood.gateway.origin}/run/{run}{CHAT}", json=body)).read()

    ended = played(tmp_path, play)

    assert [[call.domain for call in one.trace.calls()] for one in ended if one.trace] == [[0, 1], [1, 0]]


def test_names_are_written_where_they_are_asked_for_and_nowhere_else(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, stood: Stood, _: Upstream) -> None:
        await ask(client, f"{stood.gateway.origin}/run/secret{CHAT}")

    played(tmp_path / "traces", play, names=names_file(tmp_path / "names", tmp_path / "traces"))

    (line,) = (tmp_path / "names").read_text().splitlines()
    assert json.loads(line)["run"] == "secret"
    assert json.loads(line)["models"] == {"0": "m"}
    assert not any(b"secret" in content for content in contents(tmp_path / "traces"))


def test_nothing_that_is_for_the_gateway_reaches_the_upstream(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, stood: Stood, upstream: Upstream) -> None:
        url = f"{stood.gateway.origin}/token/{TOKEN}/run/secret{CHAT}?a=b"
        await ask(client, url, x_rotoscope_run="secret", X_Rotoscope_Anything="secret", x_rotoscope_token=TOKEN)
        await client.get(f"{stood.gateway.origin}/v1/models", headers={"X-Rotoscope-Token": TOKEN, "X-Kept": "1"})

        (post, _), (get, headers) = upstream.asked
        assert (post, get) == (CHAT + "?a=b", "/v1/models")
        assert headers["x-kept"] == "1"
        assert "secret" not in str(upstream.asked)
        assert TOKEN not in str(upstream.asked)

    played(tmp_path, play, door=Door(TOKEN))


def test_without_the_token_nothing_is_answered_but_401(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, stood: Stood, upstream: Upstream) -> None:
        for path in (CHAT, "/_rotoscope/health", f"/token/wrong{CHAT}", f"/token/{TOKEN}", "/"):
            assert await ask(client, stood.gateway.origin + path) == 401
        assert upstream.asked == []
        assert stood.gateway.requests == 0

    played(tmp_path, play, door=Door(TOKEN))


def test_web_page_of_another_site_reaches_nobody(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, stood: Stood, upstream: Upstream) -> None:
        assert await ask(client, stood.gateway.origin + CHAT, Origin="https://evil.example") == 403
        assert await ask(client, stood.gateway.origin + CHAT, Host="evil.example") == 403
        assert upstream.asked == []

    played(tmp_path, play)


@pytest.mark.parametrize(
    "line",
    [b"CONNECT 127.0.0.1:1 HTTP/1.1", b"GET http://127.0.0.1:1/x HTTP/1.1", b"POST HTTP://127.0.0.1:1/x HTTP/1.1"],
)
def test_it_is_no_forward_proxy(line: bytes, tmp_path: Path) -> None:
    async def play(_: aiohttp.ClientSession, stood: Stood, upstream: Upstream) -> None:
        request = line + b"\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        answer = await exchange_bytes(stood.gateway.origin, request)
        assert answer.split()[1] == b"400"
        assert upstream.asked == []

    played(tmp_path, play)


def test_each_port_is_a_run_of_its_own(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, stood: Stood, _: Upstream) -> None:
        first, second = stood.gateway.origins
        assert first == stood.gateway.origin
        for origin in (first, second, second):
            await ask(client, origin + CHAT)

    assert calls_of(played(tmp_path, play, ports=(0, 0))) == [1, 2]


def test_probes_begin_no_run(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, stood: Stood, _: Upstream) -> None:
        await (await client.get(stood.gateway.origin + "/v1/models")).read()
        await (await client.head(stood.gateway.origin + "/")).read()
        assert stood.runs.open == []

    assert played(tmp_path, play) == []
    assert list(tmp_path.iterdir()) == []


def test_port_that_is_taken_is_told_with_the_option_that_helps(tmp_path: Path) -> None:
    async def play(_: aiohttp.ClientSession, stood: Stood, upstream: Upstream) -> None:
        port = int(stood.gateway.origin.rpartition(":")[2])
        how = Standing(upstream_given("http://127.0.0.1:9"), tmp_path, Campaign(), ports=(port,))
        with pytest.raises(
            UnusableInput, match=rf"cannot listen on 127.0.0.1 port {port}: .*; name another with --port"
        ):
            async with standing(how, finished=lambda *_: None):
                pass

    played(tmp_path, play)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_gateway_is_not_its_own_upstream(host: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    how = Standing(upstream_given(f"http://{host}:{port}"), tmp_path, Campaign(), ports=(port,))

    async def listen() -> None:
        async with standing(how, finished=lambda *_: None):
            pass

    with pytest.raises(UnusableInput, match="the upstream is the gateway itself"):
        asyncio.run(listen())


def test_address_that_is_not_of_this_machine_is_told_with_the_option_that_helps(tmp_path: Path) -> None:
    async def listen(host: str) -> None:
        how = Standing(upstream_given("http://127.0.0.1:9"), tmp_path, Campaign(), host=host)
        async with standing(how, finished=lambda *_: None):
            pass

    with pytest.raises(UnusableInput, match=r"192\.0\.2\.1 port 0: cannot assign requested address; name .* --host"):
        asyncio.run(listen("192.0.2.1"))
    with pytest.raises(UnusableInput, match="no such host; name another with --host"):
        asyncio.run(listen("no host"))


def test_address_that_stands_for_all_of_them_is_shown_as_one_that_clients_can_use(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, stood: Stood, _: Upstream) -> None:
        assert stood.gateway.origin.startswith("http://127.0.0.1:")
        assert await ask(client, stood.gateway.origin + CHAT, x_rotoscope_token=TOKEN) == 200

    played(tmp_path, play, host="0.0.0.0", door=Door(TOKEN))


def test_gateway_that_stops_takes_no_new_request_and_lets_open_ones_end(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, stood: Stood, upstream: Upstream) -> None:
        upstream.may_answer.clear()
        await (await client.get(stood.gateway.origin + "/_rotoscope/health")).read()
        open_ = asyncio.create_task(ask(client, stood.gateway.origin + CHAT))
        await upstream.arrived.wait()
        stopping = asyncio.create_task(stood.gateway.stop(drain_s=PATIENCE_S))
        await asyncio.sleep(0)
        with pytest.raises(aiohttp.ClientConnectionError):
            async with aiohttp.ClientSession() as other:
                await ask(other, stood.gateway.origin + CHAT)
        upstream.may_answer.set()
        assert await open_ == 200
        await stopping

    assert calls_of(played(tmp_path, play)) == [1]


def test_who_is_in_a_hurry_does_not_wait_for_open_requests(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, stood: Stood, upstream: Upstream) -> None:
        upstream.may_answer.clear()
        open_ = asyncio.create_task(ask(client, stood.gateway.origin + CHAT))
        await upstream.arrived.wait()
        stood.hurry.set()
        await stood.gateway.stop(drain_s=10 * PATIENCE_S, hurry=stood.hurry)
        with pytest.raises(aiohttp.ClientError):
            await open_
        upstream.may_answer.set()

    (ended,) = played(tmp_path, play)
    assert ended.trace is not None
    assert [call.finish_reason for call in ended.trace.calls()] == ["cancelled"]


def test_names_and_sessions_are_in_no_byte_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    canary = "canary-7f3a91"
    kept: list[bytes] = []

    async def play(client: aiohttp.ClientSession, stood: Stood, _: Upstream) -> None:
        await ask(client, f"{stood.gateway.origin}/run/{canary}{CHAT}")
        await ask(client, stood.gateway.origin + CHAT, x_rotoscope_run=canary + "-header", x_session_id=canary)
        await ask(client, stood.gateway.origin + CHAT, x_session_id=canary, x_parent_session_id=canary + "-parent")
        kept.extend(contents(tmp_path))
        async with client.get(stood.gateway.origin + "/_rotoscope/runs") as answer:
            kept.append(await answer.read())

    played(tmp_path, play, by_session=True)
    written = [*kept, *contents(tmp_path), json.dumps(caplog.messages).encode()]

    assert len(written) == 3 + 1 + 3 + 1
    assert not any(canary.encode() in content for content in written)


def test_whole_body_is_passed_with_a_method_that_is_no_call(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, stood: Stood, upstream: Upstream) -> None:
        async with client.put(stood.gateway.origin + CHAT, json=WHOLE) as answer:
            assert answer.status == 200
        ((_, headers),) = upstream.asked
        assert headers["content-length"] == str(len(json.dumps(WHOLE)))
        assert stood.gateway.calls == 0

    assert played(tmp_path, play) == []


async def silent_server(request: web.Request) -> web.StreamResponse:
    """Answer without telling what was counted; break off what is a stream."""
    body = await request.json()
    if not body.get("stream"):
        return web.json_response({**chat_answer("one two three"), "usage": None})
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    await response.write(sse(chat_chunk({"content": "four "}), chat_chunk({"content": "five"})))
    assert request.transport is not None
    request.transport.close()
    return response


def test_what_a_server_does_not_tell_is_counted_by_a_tokenizer_in_another_process(tmp_path: Path) -> None:
    tokenizer = chosen_tokenizer(str(word_tokenizer(tmp_path / "tokenizer.json")))
    assert tokenizer is not None
    source = f"tokenizer:{tokenizer.name}"
    ended: list[Finished] = []

    async def run() -> None:
        async with serving(silent_server) as origin, aiohttp.ClientSession() as client:
            how = Standing(upstream_given(origin), tmp_path, Campaign(), tokenizer=tokenizer)
            async with standing(how, finished=lambda one, _: ended.append(one)) as stood:
                for stream in (False, True):
                    body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hello there"}]}
                    with contextlib.suppress(aiohttp.ClientError):
                        async with client.post(stood.gateway.origin + CHAT, json=body) as answer:
                            await answer.read()

    asyncio.run(run())

    (one,) = ended
    assert one.trace is not None
    assert one.trace.token_source == source
    assert [call.completion_tokens for call in one.trace.calls()] == [3, 2]
    assert [call.prompt_tokens for call in one.trace.calls()] == [2 + 4 + 3] * 2
