"""A stand-in for the host that a coding agent asks where nobody tells it another one, and how it is recorded there."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PYTHON = "ROTOSCOPE_INTERCEPT_PYTHON"
"""The Python of an environment with mitmproxy, set by `make test-coding-agents`."""
MAKE_CERTIFICATES = """\
import sys
from pathlib import Path
from intercept.fronts import new_certificates
made = new_certificates(Path(sys.argv[1]), [sys.argv[2]])
print(made.authority, made.certificate, made.key, sep="\\n")
"""
WITH_HOSTS = 'mount --bind "$VENDOR_HOSTS" /etc/hosts && exec "$@"'
HERE, PORT = "127.0.0.1", 443
PIECE_BYTES = 1 << 16


@dataclass(frozen=True)
class StandIn:
    """How `rotoscope record --intercept` is started so that a host is one of this machine, which it trusts."""

    rotoscope: Sequence[str]
    environment: Mapping[str, str]


@asynccontextmanager
async def standing_in(host: str, port: int, *, python: Path, folder: Path) -> AsyncIterator[StandIn]:
    """Be a host by TLS on this machine's loopback; all that is sent there goes to a port of this machine.

    `python` is that of an environment with mitmproxy.
    """
    authority, certificate, key = new_certificates(host, python, folder / "certificates")
    hosts = folder / "hosts"
    hosts.write_text(f"{HERE} localhost {host}\n")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection(HERE, port)
        passing = [asyncio.create_task(copy(*ends)) for ends in ((reader, to_writer), (to_reader, writer))]
        try:
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in passing:
                task.cancel()
            for end in (writer, to_writer):
                end.close()

    async with await asyncio.start_server(relay, HERE, PORT, ssl=context):
        yield StandIn(
            ["unshare", "--mount", "sh", "-c", WITH_HOSTS, "sh", str(python), "-m", "rotoscope"],
            {"SSL_CERT_FILE": authority, "VENDOR_HOSTS": str(hosts)},
        )


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes until one end is closed."""
    with suppress(ConnectionError, ssl.SSLError):
        while piece := await reader.read(PIECE_BYTES):
            writer.write(piece)
            await writer.drain()


def new_certificates(host: str, python: Path, folder: Path) -> Sequence[str]:
    """Make an authority, a certificate for a host, and its key; return their files."""
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [str(python), "-c", MAKE_CERTIFICATES, str(folder), host],
        env={**os.environ, "PYTHONPATH": str(tests), "PYTHONWARNINGS": "ignore"},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines()


def why_not() -> str | None:
    """Say why a host cannot be stood in for here; None where it can."""
    if PYTHON not in os.environ:
        return f"{PYTHON} names no Python of an environment with mitmproxy"
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "--mount", "true"], check=False, capture_output=True).returncode:
        return "a host cannot be stood in for here: that needs a mount namespace"
    try:
        socket.create_server((HERE, PORT)).close()
    except OSError:
        return f"a host cannot be stood in for here: nobody may listen at port {PORT}"
    return None
