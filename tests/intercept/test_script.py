"""The recorder as a script of mitmproxy's own `mitmdump`."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import re
import resource
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from clients.stage import canary, environment
from event_loops import in_event_loop
from intercept.asking import VERSIONS, connected
from intercept.fronts import Front
from intercept.processes import ran, running
from loopback import CHAT, STREAMED, chat_chunk, sse, usage_chunk

from rotoscope.traces import load
from rotoscope.traces.audit import audit
from rotoscope.traces.canary import Canaries

MITMDUMP = Path(sys.executable).with_name("mitmdump")


@functools.cache
def script() -> str:
    """Return the path of the script, as the documentation has it."""
    return ran([sys.executable, "-m", "rotoscope.proxy.intercept"]).stdout.strip()


@contextlib.asynccontextmanager
async def mitmdump(front: Front, folder: Path, *options: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run mitmdump with the script; it says where it listens, and no flow. Options that are given come instead of ours."""
    settings = {
        "confdir": str(folder / "home"),
        "flow_detail": "0",
        "ssl_verify_upstream_trusted_ca": str(front.certificates.authority),
        "rotoscope_output": str(folder / "recordings"),
        "rotoscope_hosts": f"localhost:{front.port}",
        "rotoscope_tokenizer": "none",
    }
    given = {option.partition("=")[0] for option in options}
    (folder / "home").mkdir()
    async with running(
        *[str(MITMDUMP), "--listen-host", "127.0.0.1", "--listen-port", "0", "-s", script()],
        *[argument for name in settings.keys() - given for argument in ("--set", f"{name}={settings[name]}")],
        *options,
        env=environment(folder / "home") | {"PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    ) as process:
        yield process


async def listening(process: asyncio.subprocess.Process) -> tuple[int, bytes]:
    """Wait until mitmdump records; return its port, and what it said."""
    assert process.stdout is not None
    told = await process.stdout.readuntil(b"recording what is said")
    port = re.search(rb"listening at \S+:(\d+)", told)
    assert port is not None
    return int(port[1]), told


@in_event_loop
async def test_mitmdump_records_with_the_script(front: Front, tmp_path: Path) -> None:
    word = canary()
    said = sse(chat_chunk({"content": word}), chat_chunk({}, "stop"))
    has_first = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        assert (await request.json())["stream_options"] == {"include_usage": True}
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(sse(chat_chunk({"content": word})))
        await has_first.wait()
        await response.write(sse(chat_chunk({}, "stop"), usage_chunk(), "[DONE]"))
        return response

    async with front.of(answer), mitmdump(front, tmp_path) as process:
        assert process.stdout is not None
        told = await process.stdout.readuntil(b"listening at")
        port = re.search(rb":(\d+)", await process.stdout.readline())
        assert port is not None
        came = []
        for version in VERSIONS:
            async with connected(
                front.url,
                version,
                trusted=tmp_path / "home/mitmproxy-ca-cert.pem",
                proxy=f"http://127.0.0.1:{port[1].decode()}",
            ) as client:
                has_first.clear()
                asked = await client.ask("POST", f"{CHAT}?{word}", [("x-note", word)], json.dumps(STREAMED).encode())
                first = await asked.piece()
                has_first.set()
                rest = b""
                while piece := await asked.piece():
                    rest += piece
                came.append(first + rest)
        process.send_signal(signal.SIGTERM)
        told += await process.stdout.read()
        await process.wait()

    assert came == [said + sse("[DONE]")] * 2
    (path,) = (tmp_path / "recordings").iterdir()
    assert [(call.prompt_tokens, call.completion_tokens) for call in load(path).calls()] == [(20, 5)] * 2
    assert f"rotoscope: 2 calls, 40 prompt tokens, 10 completion tokens: {path}" in told.decode()
    canaries = Canaries.of([word])
    assert list(canaries.in_bytes(told)) == []
    assert list(audit([tmp_path / "recordings"], canaries=canaries).findings.kept) == []


@in_event_loop
async def test_a_server_that_refuses_to_be_asked_for_usage_hurts_no_client(front: Front, tmp_path: Path) -> None:
    said = sse(chat_chunk({"content": "one"}, "stop"), "[DONE]")

    async def answer(request: web.Request) -> web.StreamResponse:
        if b"stream_options" in await request.read():
            return web.json_response({"error": "stream_options"}, status=422)
        return web.Response(body=said, headers={"Content-Type": "text/event-stream"})

    for options in ((), ("--set", "ssl_insecure=true")):
        folder = tmp_path / str(len(options))
        folder.mkdir()
        async with front.of(answer), mitmdump(front, folder, *options) as process:
            port, _ = await listening(process)
            authority = folder / "home/mitmproxy-ca-cert.pem"
            async with connected(front.url, "1.1", trusted=authority, proxy=f"http://127.0.0.1:{port}") as client:
                came = await client.ask_whole("POST", CHAT, [], json.dumps(STREAMED).encode())
            process.send_signal(signal.SIGTERM)
            await process.communicate()

        assert (came.status, came.body) == (200, said)


@in_event_loop
async def test_what_is_no_http_is_not_repeated(front: Front, tmp_path: Path) -> None:
    word = canary()
    async with mitmdump(front, tmp_path) as process:
        assert process.stdout is not None
        port, told = await listening(process)
        core_limit, _ = resource.prlimit(process.pid, resource.RLIMIT_CORE)
        for said in (b"GET /%b HTTP/9\r\n%b\r\n\r\n", b"POST http://%b/ HTTP/1.1\r\nContent-Length: %b\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said.replace(b"%b", word.encode()))
            await reader.read()
            writer.close()
        process.send_signal(signal.SIGTERM)
        told += await process.stdout.read()
        await process.wait()

    assert list(Canaries.of([word]).in_bytes(told)) == []
    assert core_limit == min(1, resource.getrlimit(resource.RLIMIT_CORE)[1] % (1 << 64))  # unlimited is -1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["rotoscope_hosts=https://localhost"], "'https://localhost' is no host to open: give one like"),
        (["rotoscope_idle=soon"], "rotoscope_idle=soon is no time: expected a number of seconds, 1 or more"),
        (["rotoscope_output=/dev/null/a"], "/dev/null/a: traces cannot be written here: Not a directory"),
        (["rotoscope_output=a", "rotoscope_output=b"], "Received multiple values for rotoscope_output: ['a', 'b']"),
        (["rotoscope_output"], "Option is required: rotoscope_output"),
        (["rotoscope_host=localhost"], "there is no option rotoscope_host: give one of rotoscope_campaign, "),
    ],
)
@in_event_loop
async def test_what_the_script_cannot_use_ends_mitmdump_in_one_line(
    front: Front, tmp_path: Path, options: list[str], reason: str
) -> None:
    given = [argument for option in options for argument in ("--set", option)]
    async with mitmdump(front, tmp_path, "-q", *given) as process:
        told, _ = await process.communicate()

    assert process.returncode == 1
    line, rest = told.decode().splitlines()
    assert reason in line
    assert rest == "Error logged during startup, exiting..."
    assert not (tmp_path / "recordings").exists()
