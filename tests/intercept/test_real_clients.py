"""Clients that people have, led through an interception by their environment alone."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from aiohttp import web
from event_loops import in_event_loop
from intercept.fronts import Front
from intercept.opened import opened
from intercept.processes import running
from loopback import CHAT, WHOLE, chat_answer, chat_chunk, sse, usage_chunk

REQUESTS = "import sys, requests; print(requests.post(sys.argv[1], json=__import__('json').loads(sys.argv[2])).text)"
URLLIB = """
import sys, urllib.request
asked = urllib.request.Request(sys.argv[1], sys.argv[2].encode(), {"Content-Type": "application/json"})
print(urllib.request.urlopen(asked).read().decode())
"""
NODE = """
const [url, body] = [new URL(process.argv[1]), process.argv[2]];
const proxy = new URL(process.env.HTTPS_PROXY);
const tunnel = require("http").request({host: proxy.hostname, port: proxy.port, method: "CONNECT", path: url.host});
tunnel.on("connect", (_, socket) => {
  const secured = require("tls").connect({socket, servername: url.hostname}, () => {
    const asked = require("https").request(url, {
      createConnection: () => secured, method: "POST", headers: {"content-type": "application/json"},
    }, answer => { answer.on("data", piece => process.stdout.write(piece)); answer.on("end", () => process.exit(0)); });
    asked.end(body);
  });
});
tunnel.end();
"""
CURL = ("curl", "--silent", "--show-error", "--no-buffer", "--header", "content-type: application/json")


AT_ONCE = 20


def curl(version: str) -> list[str]:
    """Return curl with a version of HTTP, where this machine has it."""
    said = (
        subprocess.run(["curl", "--version"], capture_output=True, text=True, check=False).stdout
        if _has("curl")
        else ""
    )
    if not said or (version == "2" and "HTTP2" not in said):
        pytest.skip(f"this machine has no curl that speaks HTTP/{version}")
    return [*CURL, f"--http{version}"]


def _has(program: str) -> bool:
    return shutil.which(program) is not None


@pytest.fixture(params=["curl --http1.1", "curl --http2", "requests", "urllib", "node"])
def client(request: pytest.FixtureRequest, python: Path) -> list[str]:
    """The command of a client, which takes a URL and a body."""
    match request.param:
        case "requests":
            return [str(python), "-c", REQUESTS]
        case "urllib":
            return [str(python), "-c", URLLIB]
        case "node":
            return ["node", "-e", NODE, "--"] if _has("node") else pytest.skip("this machine has no Node.js")
        case name:
            return [
                "sh",
                "-c",
                f'exec {" ".join(repr(x) for x in curl(name.removeprefix("curl --http")))} --data "$2" "$1"',
                "sh",
            ]


def environment(variables: dict[str, str]) -> dict[str, str]:
    """Return an environment with nothing that leads elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return kept | variables


async def said_by(command: Sequence[str], variables: dict[str, str]) -> bytes:
    """Run a command to its end; return what it wrote."""
    pipes = {"stdout": asyncio.subprocess.PIPE, "stdin": asyncio.subprocess.DEVNULL}
    async with running(*command, env=environment(variables), **pipes) as process:
        said, _ = await process.communicate()
    assert process.returncode == 0
    return said


@in_event_loop
async def test_it_is_heard_by_its_environment_alone(front: Front, tmp_path: Path, client: list[str]) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(chat_answer(prompt_tokens=31))

    async with front.of(answer), opened(front, tmp_path / "journal") as one:
        said = await said_by([*client, front.url + CHAT, json.dumps(WHOLE)], one.variables)
        (call,) = await one.calls()

    assert json.loads(said) == chat_answer(prompt_tokens=31)
    assert call.prompt_tokens == 31
    assert one.notices == []


@pytest.mark.parametrize("version", ["1.1", "2"])
@in_event_loop
async def test_curl_gets_each_event_as_it_is_sent_and_its_end_is_the_calls(
    front: Front, tmp_path: Path, version: str
) -> None:
    has_first, is_left = asyncio.Event(), asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "x-asked": str(request.version)})
        await response.prepare(request)
        await response.write(sse(chat_chunk({"content": "one"})))
        await has_first.wait()
        await response.write(sse(chat_chunk({"content": "two"}), usage_chunk()))
        try:
            await asyncio.Event().wait()
        finally:
            is_left.set()
        raise AssertionError

    async with front.of(answer), opened(front, tmp_path / "journal") as one:
        body = json.dumps(WHOLE | {"stream": True, "stream_options": {"include_usage": True}})
        asked = [*curl(version), "--data", body, front.url + CHAT]
        async with running(*asked, env=environment(one.variables), stdout=asyncio.subprocess.PIPE) as process:
            assert process.stdout is not None
            first = await process.stdout.readuntil(b"\n\n")
            has_first.set()
            second = await process.stdout.readuntil(b"\n\n")
        await is_left.wait()
        (call,) = await one.calls()

    assert (first, second) == (sse(chat_chunk({"content": "one"})), sse(chat_chunk({"content": "two"})))
    assert call.finish_reason == "cancelled"


@pytest.mark.parametrize("version", ["1.1", "2"])
@in_event_loop
async def test_calls_at_the_same_time_do_not_wait_for_one_another(front: Front, tmp_path: Path, version: str) -> None:
    all_there, number = asyncio.Event(), 0

    async def answer(_: web.Request) -> web.StreamResponse:
        nonlocal number
        number += 1
        if number == AT_ONCE:
            all_there.set()
        await all_there.wait()
        return web.json_response(chat_answer())

    command = [*curl(version), "--parallel", "--parallel-max", str(AT_ONCE)]  # over HTTP/2, on one connection
    async with front.of(answer), opened(front, tmp_path / "journal") as one:
        urls = [f"{front.url}{CHAT}?{call}" for call in range(AT_ONCE)]
        await said_by([*command, "--data", json.dumps(WHOLE), *urls], one.variables)
        calls = await one.calls()

    assert [(call.prompt_tokens, call.finish_reason) for call in calls] == [(20, "stop")] * AT_ONCE
