"""Nothing that anybody says reaches a file, a log line or the terminal, whatever goes wrong (the content law).

A gateway records each dialect while answers come whole, streamed, cut, refused, compressed and broken, clients hang up,
and requests are no requests. Then every byte that was written is searched for every text that was sent, in all its forms.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import io
import json
import logging
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from canary_worlds import WORLDS, Planted, World, headers, sse, toy_ids
from loopback import serving
from tokenizer_files import word_tokenizer

from rotoscope.proxy.standing import Standing, Stood, standing
from rotoscope.proxy.upstream import upstream_given
from rotoscope.recorder.campaigns import Campaign
from rotoscope.recorder.recorded_run import Finished
from rotoscope.recorder.recorder import Recorder
from rotoscope.recorder.token_counters import chosen_tokenizer
from rotoscope.traces.audit import audit
from rotoscope.traces.canary import Canaries
from rotoscope.traces.journal_files import JournalWriter
from rotoscope.traces.writer import dumps

Answer = Callable[[web.Request, World, Planted], Awaitable[web.StreamResponse]]


async def whole(request: web.Request, world: World, it: Planted) -> web.StreamResponse:
    return web.json_response(world.whole(it), headers={"x-request-id": it["request id"], "Set-Cookie": it["cookie"]})


async def compressed(request: web.Request, world: World, it: Planted) -> web.StreamResponse:
    body = gzip.compress(json.dumps(world.whole(it)).encode())
    return web.Response(body=body, headers={"Content-Encoding": "gzip", "Content-Type": "application/json"})


async def refused(request: web.Request, world: World, it: Planted) -> web.StreamResponse:
    return web.json_response(world.error(it), status=400)


async def broken(request: web.Request, world: World, it: Planted) -> web.StreamResponse:
    return web.Response(status=502, text=f"<html>{it['page']} {it['user']}</html>", content_type="text/html")


async def no_json(request: web.Request, world: World, it: Planted) -> web.StreamResponse:
    return web.Response(text=f"{{ {it['answer']}", content_type="application/json")


async def reset(request: web.Request, world: World, it: Planted) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def streamed(*, first: int | None = None, ends_with: str = "") -> Answer:
    """Return an answer of the first events, all if not said; then nothing more, an error or no JSON."""

    async def answer(request: web.Request, world: World, it: Planted) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "x-request-id": it["request id"]})
        await response.prepare(request)
        for event in sse(world.events(it))[:first]:
            await response.write(event)
        if ends_with == "error":
            await response.write(sse([world.error(it)])[0])
        elif ends_with == "nonsense":
            await response.write(b"data: {" + it["nonsense"].encode() + b"\n\n: " + it["comment"].encode() + b"\n\nda")
        elif ends_with == "reset":
            assert request.transport is not None
            request.transport.abort()
        return response

    return answer


WAYS: dict[str, tuple[bool, Answer]] = {
    "whole": (False, whole),
    "compressed": (False, compressed),
    "refused": (False, refused),
    "broken": (False, broken),
    "no JSON": (False, no_json),
    "reset": (False, reset),
    "streamed": (True, streamed()),
    "cut": (True, streamed(first=2)),
    "cut off": (True, streamed(first=2, ends_with="reset")),
    "error in the stream": (True, streamed(first=2, ends_with="error")),
    "nonsense in the stream": (True, streamed(first=2, ends_with="nonsense")),
}


class Upstream:
    """Answers in the way that is set, and keeps what it was sent."""

    def __init__(self, world: World, it: Planted) -> None:
        self.world, self.it = world, it
        self.answer: Answer = whole
        self.received: list[bytes] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.received += [request.path_qs.encode(), str(dict(request.headers)).encode(), await request.read()]
        return await self.answer(request, self.world, self.it)


class Client:
    """Talks through the gateway, and hangs up without a word where something is wrong."""

    def __init__(self, session: aiohttp.ClientSession, origin: str, it: Planted) -> None:
        self.session, self.origin, self.it = session, origin, it

    async def ask(self, path: str, body: object, *, hangs_up: bool = False) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        told = headers(self.it) | {"Content-Type": "application/json"}
        with contextlib.suppress(aiohttp.ClientError):
            async with self.session.post(self.origin + path, data=data, headers=told) as answer:
                if hangs_up:
                    await answer.content.readany()
                    answer.close()
                else:
                    await answer.read()

    async def send_half(self, path: str, body: bytes) -> None:
        host, port = self.origin.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body) + 9}\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()


async def play(client: Client, upstream: Upstream, world: World, it: Planted) -> None:
    """Go all ways, and some that lead nowhere; a chat comes first, because embeddings alone make no trace."""
    upstream.world = WORLDS["chat"]
    await client.ask(*upstream.world.asked(it, streams=False))
    upstream.world = world
    for streams, answer in WAYS.values():
        upstream.answer = answer
        await client.ask(*world.asked(it, streams=streams))
    upstream.answer = streamed()
    path, body = world.asked(it, streams=True)
    await client.ask(path, body, hangs_up=True)
    upstream.answer = whole
    await client.ask(f"/run/{it['run']}{path}", body)
    await client.ask(f"{path}{'&' if '?' in path else '?'}key={it['key in the URL']}", body)
    await client.ask(path, json.dumps(body).encode()[:-5])
    await client.ask(path, it["no JSON"].encode() + b"\xff\x00")
    await client.ask(path, {"messages": it["messages"], "contents": [it["contents"]], "input": {it["input"]: 1}})
    await client.ask(f"/v1/{it['path']}/files", {"content": it["upload"]})
    await client.send_half(path, json.dumps(body).encode())


def written_below(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", WORLDS)
def test_nothing_that_is_said_is_written_anywhere(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    world, it = WORLDS[name], Planted()
    told: list[str] = []
    ended: list[Finished] = []
    meanwhile: list[bytes] = []
    tokenizer = chosen_tokenizer(str(word_tokenizer(tmp_path / "tokenizer.json")))

    async def run() -> list[bytes]:
        upstream = Upstream(world, it)
        async with serving(upstream.handle) as origin:
            how = Standing(upstream_given(origin), tmp_path / "out", Campaign(), tokenizer=tokenizer, by_session=True)
            async with aiohttp.ClientSession() as session, stood(how, ended, told) as gateway:
                await play(Client(session, gateway.gateway.origin, it), upstream, world, it)
                meanwhile.extend(path.read_bytes() for path in (tmp_path / "out").iterdir())
        return upstream.received

    received = asyncio.run(run())
    canaries = Canaries.of(it.texts.values(), tokenizers={"toy": toy_ids})
    output = capfd.readouterr()
    (tmp_path / "tokenizer.json").unlink()

    sent = {hit.canary for data in received for hit in canaries.in_bytes(data)}
    assert len(sent) > len(it.texts) / 2, "the canaries did not even reach the server"
    assert sum(one.run.calls for one in ended) > (0 if name == "embeddings" else len(WAYS)), "no calls were recorded"
    assert sum(map(len, meanwhile)) > 1000
    assert canaries.in_tree(tmp_path) == []
    assert [hit for data in meanwhile for hit in canaries.in_bytes(data)] == []
    assert canaries.in_text(caplog.text) == []
    assert canaries.in_text(output.out + output.err + "\n".join(told)) == []
    assert audit([tmp_path / "out"]).is_clean
    assert os.listdir(tmp_path / "temporary") == []


def misplaced(value: object, it: Planted, where: str, *, depth: int = 0) -> Iterator[object]:
    """Yield a body with a canary, or an object named by one, in the place of each of its values in turn."""
    if isinstance(value, dict):
        for name, inner in value.items():
            for changed in misplaced(inner, it, f"{where} {name}", depth=depth + 1):
                yield {**value, name: changed}
            if depth:
                yield {**{key: one for key, one in value.items() if key != name}, it[f"name for {where} {name}"]: inner}
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            for changed in misplaced(inner, it, f"{where} {place}", depth=depth + 1):
                yield [*value[:place], changed, *value[place + 1 :]]
    if depth:
        yield it[where]
        yield {it[f"object for {where}"]: [it[f"list for {where}"], -1, 1e300, None]}


@pytest.mark.parametrize("name", WORLDS)
def test_nothing_is_written_where_texts_stand_in_places_of_numbers_and_names(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whatever is read of a request, an answer or an event may be a text, or an object with names that are texts."""
    caplog.set_level(logging.DEBUG)
    world, it = WORLDS[name], Planted()
    path, body = world.asked(it, streams=False)
    stream_path, stream_body = world.asked(it, streams=True)
    recorder = Recorder(JournalWriter(tmp_path / "run-1.journal.jsonl"), tokenizer="toy")

    def play(path: str, body: object, answer: bytes, kind: str) -> None:
        exchange = recorder.request(path, json.dumps(body).encode(), headers=headers(it), at_s=0.0)
        exchange.response(200, at_s=1.0, content_type=f"{kind}; {it['media type']}")
        exchange.chunk(answer, at_s=1.0)
        exchange.end(at_s=1.0)

    whole, events = json.dumps(world.whole(it)).encode(), world.events(it)
    for odd in misplaced(body, it, "asked"):
        play(path, odd, whole, "application/json")
    for odd in misplaced(world.whole(it), it, "answered"):
        play(path, body, json.dumps(odd).encode(), "application/json")
    for place, event in enumerate(events):
        for odd in misplaced(event, it, f"event {place}"):
            lines = [*events[:place], odd if isinstance(odd, dict) else json.dumps(odd), *events[place + 1 :]]
            marks = f"event: {it['kind of event']}\nid: {it['id of event']}\nretry: {it['retry']}\n"
            play(stream_path, stream_body, marks.encode() + b"".join(sse(lines)), "text/event-stream")
    trace = recorder.close()
    if trace is not None:
        (tmp_path / "run-1.trace.json").write_bytes(dumps(trace))

    canaries = Canaries.of(["canary-"], tokenizers={})
    """What all begin with."""
    output = capfd.readouterr()
    assert len(it.texts) > 20
    assert name == "embeddings" or (trace is not None and len(list(trace.calls())) > 20), "no calls were recorded"
    assert canaries.in_tree(tmp_path) == []
    assert canaries.in_text(caplog.text + output.out + output.err + "\n".join(recorder.trouble)) == []
    assert audit([tmp_path]).findings.kept == []


@pytest.mark.parametrize("name", WORLDS)
def test_two_recordings_of_the_same_have_no_digest_in_common(name: str) -> None:
    """Digests of a text with anything around it are in no list of forms; what tells is that they follow from the key."""

    def digests() -> set[bytes]:
        it, journal = Planted(), io.BytesIO()
        recorder = Recorder(JournalWriter(journal))
        path, body = WORLDS[name].asked(it, streams=False)
        exchange = recorder.request(path, json.dumps(body).encode(), headers=headers(it), at_s=0.0)
        exchange.response(200, at_s=1.0, content_type="application/json")
        exchange.chunk(json.dumps(WORLDS[name].whole(it)).encode(), at_s=1.0)
        exchange.end(at_s=1.0)
        recorder.close()
        return set(re.findall(rb"[0-9a-f]{16}", journal.getvalue()))

    first, second = digests(), digests()

    assert len(first) > 1
    assert not first & second


@contextlib.asynccontextmanager
async def stood(how: Standing, ended: list[Finished], told: list[str]) -> AsyncIterator[Stood]:
    async with standing(how, finished=lambda one, _: ended.append(one), notice=told.append) as one:
        yield one
