"""Servers that want a certificate of their client."""

from __future__ import annotations

import contextlib
import datetime
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from event_loops import in_event_loop
from intercept.asking import connected
from intercept.fronts import Certificates, Front, new_certificates
from intercept.opened import Opened, opened
from loopback import CHAT, WHOLE, chat_answer

from rotoscope.proxy.intercept.record import _check
from rotoscope.traces.errors import UnusableInput

TLS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return new_certificates(tmp_path_factory.mktemp("servers") / "made")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The certificate of a client, and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a client")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    certificate = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    pem = serialization.Encoding.PEM
    own = tmp_path_factory.mktemp("client") / "own.pem"
    own.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.sign(key, hashes.SHA256()).public_bytes(pem)
    )
    return own


@contextlib.contextmanager
def wanting(own: Path, certificates: Certificates, version: ssl.TLSVersion, tmp_path: Path) -> Iterator[Front]:
    """Serve clients that have a certificate; asyncio would end the connections of others without saying why."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=own)
    context.load_cert_chain(certificates.certificate, certificates.key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.maximum_version = version
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=serve, args=(listening, context), daemon=True).start()
        try:
            yield Front(listening.getsockname()[1], certificates, tmp_path)
        finally:
            listening.shutdown(socket.SHUT_RDWR)


def serve(listening: socket.socket, context: ssl.SSLContext) -> None:
    """Answer one request on each connection."""
    body = json.dumps(chat_answer()).encode()
    while True:
        with contextlib.suppress(ssl.SSLError, ConnectionError):
            try:
                plain, _ = listening.accept()
            except OSError:
                return
            with plain, context.wrap_socket(plain, server_side=True) as connection:
                while b"}]}" not in connection.recv(1 << 16):
                    pass
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                connection.sendall(head.encode() + body)
                connection.recv(1)


async def status_of_a_call(one: Opened) -> int:
    async with one.connected("1.1") as client:
        answer = await client.ask_whole(
            "POST", CHAT, [("content-type", "application/json")], json.dumps(WHOLE).encode()
        )
    return answer.status


@pytest.mark.parametrize("version", TLS)
@in_event_loop
async def test_it_is_shown(own: Path, certificates: Certificates, tmp_path: Path, version: ssl.TLSVersion) -> None:
    with wanting(own, certificates, version, tmp_path) as front:
        async with opened(front, tmp_path / "journal", client_cert=own) as one:
            status = await status_of_a_call(one)
            calls = await one.calls()

    assert (status, len(calls), one.notices) == (200, 1, [])


@pytest.mark.parametrize("version", TLS)
@in_event_loop
async def test_without_it_the_server_is_left_to_its_clients(
    own: Path, certificates: Certificates, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    with wanting(own, certificates, version, tmp_path) as front:
        async with opened(front, tmp_path / "journal") as one:
            assert await status_of_a_call(one) == 502
            async with connected(front.url, "1.1", trusted=certificates.authority, proxy=one.proxy, own=own) as client:
                left = await client.ask_whole("POST", CHAT, [], json.dumps(WHOLE).encode())

    assert left.status == 200
    assert [line for line in one.notices if line.endswith("; --intercept-client-cert FILE shows one")] != []


def test_what_is_none_is_refused(own: Path, tmp_path: Path) -> None:
    half = tmp_path / "half.pem"
    half.write_bytes(own.read_bytes().partition(b"-----BEGIN CERT")[0])
    for path in (half, tmp_path / "missing.pem"):
        with pytest.raises(UnusableInput, match="this is no certificate to show to servers"):
            _check(path)
    _check(own)
