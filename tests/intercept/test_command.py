"""`rotoscope record --intercept` as a process: what the command, the person and the disk get."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from clients.stage import canary, environment
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key
from cryptography.x509 import load_pem_x509_certificate
from event_loops import GUARD_S, in_event_loop
from intercept.agents import intercepting
from intercept.fronts import Front
from intercept.other_proxy import other_proxy
from intercept.processes import ran, running
from loopback import CHAT, WHOLE, Handler, chat_answer
from rotoscope_process import Ended

from rotoscope.traces import load
from rotoscope.traces.audit import audit
from rotoscope.traces.canary import Canaries

ASK = """
import json, os, sys, urllib.request
def ask(url, body=json.loads(sys.argv[2])):
    asked = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]
"""


async def answer(_: web.Request) -> web.StreamResponse:
    return web.json_response(chat_answer())


@contextlib.asynccontextmanager
async def recording(
    folder: Path, front: Front, command: Sequence[str], *, options: Sequence[str] = (), **variables: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Record a command, with files in folders of its own."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    trust = {"SSL_CERT_FILE": str(front.certificates.authority), "ROTOSCOPE_TOKENIZER": "none"}
    async with running(
        *[sys.executable, "-m", "rotoscope", "record", "-o", str(folder / "recordings")],
        *[*intercepting(front), *options, "--", *command],
        env=environment(home) | trust | variables,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    ) as process:
        yield process


async def record(folder: Path, front: Front, command: Sequence[str], handler: Handler = answer, **given: Any) -> Ended:
    """Record a command to its end."""
    async with front.of(handler), recording(folder, front, command, **given) as process:
        out, err = await process.communicate()
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


def python(source: str, front: Front) -> list[str]:
    return [sys.executable, "-c", ASK + source, front.url + CHAT, json.dumps(WHOLE)]


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def keys_on_disk(certificate: Path, folders: Sequence[Path]) -> list[Path]:
    """Return the files that hold the private key of a certificate."""
    key_of = load_pem_x509_certificate(certificate.read_bytes()).public_key()
    public = key_of.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return [path for folder in folders for path in folder.rglob("*") if _holds_key(path, public)]


def _holds_key(path: Path, public: bytes) -> bool:
    try:
        pem = path.read_bytes()
        key = load_pem_private_key(pem[pem.index(b"-----BEGIN") :], None) if b"PRIVATE KEY" in pem else None
    except (OSError, ValueError):
        return False
    return key is not None and key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) == public


@in_event_loop
async def test_a_command_with_a_fixed_server_is_recorded(front: Front, tmp_path: Path) -> None:
    ended = await record(tmp_path, front, python("print(ask(sys.argv[1])); sys.exit(3)", front))

    assert (ended.status, ended.out) == (3, "done\n")
    assert files_below(tmp_path) == ["recordings/run-0001.trace.json"]
    path = tmp_path / "recordings/run-0001.trace.json"
    assert [(call.prompt_tokens, call.completion_tokens) for call in load(path).calls()] == [(20, 5)]
    assert ended.err.splitlines() == [
        f"rotoscope: recording what is said to inference hosts to {path}",
        "rotoscope: 1 call, 20 prompt tokens, 5 completion tokens",
        f"rotoscope: trace: {path}",
    ]


@pytest.mark.parametrize("how", ["ends", "SIGTERM"])
@in_event_loop
async def test_the_files_of_the_authority_hold_no_key_and_go_with_the_run(
    front: Front, tmp_path: Path, how: str
) -> None:
    command = ["sh", "-c", "echo $ROTOSCOPE_CA_FILE $SSL_CERT_FILE $NODE_EXTRA_CA_CERTS; exec cat"]
    async with recording(tmp_path, front, command) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        named = [Path(name) for name in (await process.stdout.readline()).decode().split()]
        while_it_runs = [name.read_bytes() for name in named]
        keys = keys_on_disk(named[0], [tmp_path, Path("/dev/shm")])
        if how == "ends":
            process.stdin.close()
        else:
            process.send_signal(signal.SIGTERM)
        status = await process.wait()

    assert status == (0 if how == "ends" else 128 + signal.SIGTERM)
    assert keys == []
    assert [while_it_runs[0] in bundle for bundle in while_it_runs] == [True] * 3
    assert front.certificates.authority.read_bytes().strip() in while_it_runs[1]
    assert files_below(tmp_path) == []
    assert not any(name.exists() or name.parent.exists() for name in named)


@in_event_loop
async def test_the_recorder_writes_down_no_secret_of_tls(front: Front, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    command = ["env", "-u", "SSLKEYLOGFILE", *python("print(ask(sys.argv[1]))", front)]

    ended = await record(tmp_path, front, command, SSLKEYLOGFILE=str(keys))

    assert ended.out == "done\n"
    assert not keys.exists() or b"SECRET" not in keys.read_bytes()


@in_event_loop
async def test_the_recorder_leaves_no_core_dump_and_the_command_what_it_would(front: Front, tmp_path: Path) -> None:
    source = """
import resource
print(resource.getrlimit(resource.RLIMIT_CORE), resource.prlimit(os.getppid(), resource.RLIMIT_CORE))
"""
    own = _, hard = resource.getrlimit(resource.RLIMIT_CORE)

    ended = await record(tmp_path, front, python(source, front))

    assert ended.out == f"{own} {(1 if hard == resource.RLIM_INFINITY else min(1, hard), hard)}\n"


@pytest.mark.parametrize("options", [[], ["--no-usage-request"]])
@in_event_loop
async def test_servers_are_asked_for_usage_unless_the_person_does_not_want_it(
    front: Front, tmp_path: Path, options: list[str]
) -> None:
    asked = []

    async def keep(request: web.Request) -> web.StreamResponse:
        asked.append(await request.json())
        return web.json_response(chat_answer())

    source = "ask(sys.argv[1], json.loads(sys.argv[2]) | {'stream': True})"
    await record(tmp_path, front, python(source, front), handler=keep, options=options)

    assert ["stream_options" in body for body in asked] == [not options]


@in_event_loop
async def test_a_command_that_cannot_be_started_leaves_nothing(front: Front, tmp_path: Path) -> None:
    ended = await record(tmp_path, front, ["/no/such/command"])

    assert (ended.status, ended.out) == (2, "")
    assert ended.err.splitlines()[-1] == (
        "error: the command '/no/such/command' cannot be started: No such file or directory"
    )
    assert files_below(tmp_path) == []
    assert list((tmp_path / "home").iterdir()) == []


@in_event_loop
async def test_a_command_whose_proxy_wants_a_password_is_recorded(front: Front, tmp_path: Path) -> None:
    async with other_proxy() as proxy:
        ended = await record(tmp_path, front, python("print(ask(sys.argv[1]))", front), HTTPS_PROXY=proxy.url)

    assert (ended.status, ended.out) == (0, "done\n")
    assert "rotoscope: 1 call, 20 prompt tokens, 5 completion tokens" in ended.err
    assert (proxy.connected, proxy.refused) == ([f"localhost:{front.port}".encode()], 0)


@in_event_loop
async def test_hosts_without_a_proxy_are_left_alone_and_told(front: Front, tmp_path: Path) -> None:
    source = "print(os.environ['NO_PROXY']); print(ask(sys.argv[1]))"

    # The certificate variables hold the authorities that were trusted before, too.
    ended = await record(tmp_path, front, python(source, front), NO_PROXY="localhost,internal")

    assert (ended.status, ended.out) == (0, "localhost,internal,127.0.0.1,::1\ndone\n")
    assert "NOTHING WAS RECORDED: no connection came" in ended.err
    assert files_below(tmp_path) == []


@in_event_loop
async def test_hosts_that_connections_went_to_are_named_where_nothing_was_recorded(
    front: Front, tmp_path: Path
) -> None:
    async with (
        front.of(answer),
        running(
            *[sys.executable, "-m", "rotoscope", "record", "--intercept", "-o", str(tmp_path / "recordings"), "--"],
            *python("del os.environ['NO_PROXY'], os.environ['no_proxy']; print(ask(sys.argv[1]))", front),
            env=environment(tmp_path) | {"SSL_CERT_FILE": str(front.certificates.authority)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        ) as process,
    ):
        out, err = await process.communicate()

    assert (process.returncode, out) == (0, b"done\n")
    assert (
        "rotoscope: NOTHING WAS RECORDED: connections went to other hosts, localhost (1): "
        "--intercept-host HOST opens one" in err.decode()
    )


@in_event_loop
async def test_inference_hosts_that_cannot_be_reached_are_named_where_nothing_was_recorded(
    front: Front, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        nobody = replace(front, port=listening.getsockname()[1])

    ended = await record(tmp_path, nobody, python("print(ask(sys.argv[1]))", nobody))

    says = "a connection to inference hosts could not be made from here, localhost (1)"
    assert f"rotoscope: NOTHING WAS RECORDED: {says}" in ended.err


@in_event_loop
async def test_what_is_no_http_is_not_repeated_by_anybody(front: Front, tmp_path: Path) -> None:
    words = [canary() for _ in range(4)]
    source = f"""
import socket, ssl
from urllib.parse import urlsplit
proxy, url = urlsplit(os.environ["HTTPS_PROXY"]), urlsplit(sys.argv[1])
def say(data, opened):
    with socket.create_connection((proxy.hostname, proxy.port)) as one:
        if opened:
            one.sendall(f"CONNECT {{url.netloc}} HTTP/1.1\\r\\n\\r\\n".encode())
            one.recv(1 << 16)
            one = ssl.create_default_context().wrap_socket(one, server_hostname=url.hostname)
        one.sendall(data)
        one.settimeout({GUARD_S})
        while one.recv(1 << 16):
            pass
say(b"GET /{words[0]} HTTP/9\\r\\n{words[0]}\\r\\n\\r\\n", False)
say(b"POST /{words[1]} HTTP/1.1\\r\\nContent-Length: {words[1]}\\r\\n\\r\\n", True)
say(b"{words[2]}\\r\\n\\r\\n", True)
try:
    ask(sys.argv[1] + "?{words[3]}")
except OSError:
    pass
"""

    async def broken(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.write(f"HTTP/1.1 2x0 {words[3]}\r\n{words[3]}\r\n\r\n".encode())
        request.transport.close()
        return web.Response()

    ended = await record(tmp_path, front, python(source, front), handler=broken)

    assert ended.status == 0
    canaries = Canaries.of(words)
    assert list(canaries.in_bytes((ended.out + ended.err).encode())) == []
    assert list(audit([tmp_path / "recordings"], canaries=canaries).findings.kept) == []


def test_it_says_that_it_cannot_listen(front: Front, tmp_path: Path) -> None:
    ended = ran(
        [
            *[sys.executable, "-m", "rotoscope", "record", "-o", str(tmp_path / "recordings"), *intercepting(front)],
            *["--intercept-mode", f"regular@{front.port}", "--", "true"],
        ],
        env=environment(tmp_path),
    )

    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1] == (
        f"error: cannot listen on 127.0.0.1 port {front.port}: address already in use; "
        "put another one behind the mode, as in regular@8080"
    )
    assert files_below(tmp_path / "recordings") == []
    assert os.listdir(tmp_path) == ["recordings"]
