"""What is told of another proxy behind ours; squid and tinyproxy are such ones, where they are installed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from aiohttp import web
from event_loops import in_event_loop
from intercept.asking import VERSIONS
from intercept.fronts import Certificates, Front
from intercept.opened import Opened, opened
from intercept.processes import end_all
from loopback import CHAT, PATIENCE_S, WHOLE, chat_answer

from rotoscope.proxy.intercept.hosts import Hosts

PASSWORD = "secret-of-the-proxy"
PASSES = b"HTTP/1.1 200 Connection established\r\n\r\n"
WANTS_A_PASSWORD = "it wants the right user and password, as in http://USER:PASSWORD@HOST:PORT"
REAL = {
    "squid": """
http_port 127.0.0.1:{port}
auth_param basic program {sed} -u s/^me.{password}$/OK/;t;s/.*/ERR/
auth_param basic children 1
acl known proxy_auth REQUIRED
http_access allow known
http_access deny all
cache deny all
pinger_enable off
shutdown_lifetime 0 seconds
pid_filename none
access_log none
cache_log /dev/null
coredump_dir none
""",
    "tinyproxy": "Port {port}\nListen 127.0.0.1\nBasicAuth me {password}\n",
}


@contextlib.asynccontextmanager
async def answering(
    answer: bytes, *, tls: Certificates | None = None, asked: list[bytes] | None = None
) -> AsyncIterator[str]:
    """Run a proxy that says the same to everybody, and keeps what it was asked; give its URL."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            if asked is not None:
                asked.append(head)
            writer.write(answer)
            await reader.read()
        writer.close()

    context = None
    if tls is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(tls.certificate, tls.key)
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        yield f"{'https' if tls else 'http'}://localhost:{server.sockets[0].getsockname()[1]}"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        return int(one.getsockname()[1])


async def status_of_a_call(one: Opened, version: str = "1.1") -> int:
    async with one.connected(version) as client:
        answer = await client.ask_whole(
            "POST", CHAT, [("content-type", "application/json")], json.dumps(WHOLE).encode()
        )
    return answer.status


@pytest.mark.parametrize(
    ("status", "told"),
    [(b"407 Who?", f"refuses with 407: {WANTS_A_PASSWORD}"), (b"403 No", "refuses connections to localhost with 403")],
)
@pytest.mark.parametrize("is_opened", [True, False])
@in_event_loop
async def test_that_it_refuses_is_told_in_one_line(
    front: Front, tmp_path: Path, status: bytes, told: str, is_opened: bool
) -> None:
    hosts = None if is_opened else Hosts()
    async with (
        answering(b"HTTP/1.1 %b\r\nContent-Length: 0\r\n\r\n" % status) as url,
        opened(front, tmp_path / "journal", mode=f"upstream:{url}", hosts=hosts) as one,
    ):
        if is_opened:
            assert await status_of_a_call(one) == 502
        else:
            with pytest.raises(OSError):  # noqa: PT011 - however TLS breaks
                async with one.connected_closed():
                    pass

    assert one.notices[0] == f"the proxy behind this one {told}"
    assert one.interceptor.behind.failed


@in_event_loop
async def test_that_it_is_away_is_told_in_one_line(front: Front, tmp_path: Path) -> None:
    async with opened(front, tmp_path / "journal", mode=f"upstream:http://127.0.0.1:{free_port()}") as one:
        assert await status_of_a_call(one) == 502

    assert one.notices[0].startswith("the proxy behind this one cannot be reached: is its address right, ")


@in_event_loop
async def test_that_its_certificate_is_not_trusted_is_told_of_it_and_not_of_the_server(
    front: Front, tmp_path: Path
) -> None:
    async with (
        answering(PASSES, tls=front.certificates) as url,
        opened(front, tmp_path / "journal", mode=f"upstream:{url}", trusts_the_front=False) as one,
    ):
        statuses = [await status_of_a_call(one) for _ in range(2)]

    assert statuses == [502, 502]
    assert one.notices[0].startswith("the proxy behind this one has a certificate that is not trusted here")
    assert [line for line in one.notices if "no longer opened" in line] == []


@pytest.mark.parametrize("host", ["other.example", "[::1]"])
@in_event_loop
async def test_hosts_are_counted_and_it_is_not(front: Front, tmp_path: Path, host: str) -> None:
    asked: list[bytes] = []
    async with (
        answering(PASSES, asked=asked) as url,
        opened(front, tmp_path / "journal", mode=f"upstream:{url}", hosts=Hosts()) as one,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(one.proxy.rpartition(":")[2]))
        writer.write(b"CONNECT %b:8443 HTTP/1.1\r\n\r\n" % host.encode())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"no TLS")
        writer.write_eof()
        await reader.read()
        writer.close()

    assert dict(one.interceptor.unopened) == {host.strip("[]"): 1}
    assert asked[0].startswith(b"CONNECT %b:8443 HTTP/1.1\r\n" % host.encode())


@contextlib.contextmanager
def running(name: str, folder: Path) -> Iterator[int]:
    """Run a proxy that people have as long as the block runs; give its port."""
    program = shutil.which(name, path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin")
    if program is None:
        pytest.skip(f"{name} is not installed")
    port, configuration = free_port(), folder / f"{name}.conf"
    configuration.write_text(REAL[name].format(port=port, password=PASSWORD, sed=shutil.which("sed")))
    options = ["-N", "-f"] if name == "squid" else ["-d", "-c"]
    said = folder / f"{name}.log"
    with said.open("w") as log:
        process = subprocess.Popen(
            [program, *options, str(configuration)], stdout=log, stderr=log, start_new_session=True
        )
    until = time.monotonic() + PATIENCE_S
    try:
        while process.poll() is None and time.monotonic() < until:
            with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), PATIENCE_S):
                break
        assert process.poll() is None, said.read_text()[-1000:]
        yield port
        process.terminate()
        process.wait(PATIENCE_S)
    finally:
        end_all(process.pid)
        process.wait()


@pytest.mark.parametrize("name", REAL)
@in_event_loop
async def test_those_that_people_have_are_gone_through(front: Front, tmp_path: Path, name: str) -> None:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(chat_answer())

    with running(name, tmp_path) as port:
        url = f"http://me:{PASSWORD}@127.0.0.1:{port}"
        async with front.of(answer), opened(front, tmp_path / "opened", mode=f"upstream:{url}") as one:
            statuses = [await status_of_a_call(one, version) for version in VERSIONS]
            calls = await one.calls()
        async with (
            opened(front, tmp_path / "tunnelled", mode=f"upstream:{url}", hosts=Hosts()) as two,
            two.connected_closed() as client,
        ):
            certificate = client.certificate
        async with opened(front, tmp_path / "refused", mode=f"upstream:{url.replace(PASSWORD, 'wrong')}") as three:
            refused = await status_of_a_call(three)

    assert (statuses, len(calls), one.notices) == ([200, 200], 2, [])
    assert certificate == front.certificates.fingerprint
    assert refused == 502
    assert three.notices[0].endswith(f": {WANTS_A_PASSWORD}")
