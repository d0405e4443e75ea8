"""Servers by TLS for the tests: their certificates, and the front that is one for whatever a test serves."""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from loopback import Handler, serving
from mitmproxy import certs

FRONT = Path(__file__).with_name("front.py")


@dataclass(frozen=True)
class Certificates:
    """An authority of the tests, and a certificate of it for servers of this machine."""

    authority: Path
    certificate: Path
    key: Path

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the servers' certificate."""
        first = self.certificate.read_text().partition("-----END CERTIFICATE-----")
        return fingerprint(ssl.PEM_cert_to_DER_cert(first[0] + first[1]))


@dataclass(frozen=True)
class Front:
    """A server by TLS that passes all on to the origin that is written down in a file."""

    port: int
    certificates: Certificates
    origin_file: Path

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    @contextlib.asynccontextmanager
    async def of(self, handler: Handler) -> AsyncIterator[None]:
        """Let one handler answer as long as the block runs."""
        async with serving(handler) as origin:
            self.origin_file.write_text(origin)
            yield


def fingerprint(certificate: bytes) -> str:
    """Return the SHA-256 of a certificate in DER."""
    return hashlib.sha256(certificate).hexdigest()


def new_certificates(folder: Path, names: Sequence[str] = ("localhost",)) -> Certificates:
    """Make an authority and a certificate in a folder."""
    folder.mkdir()
    certs.CertStore.create_store(folder, "tests", 2048, organization="tests", cn="authority of the tests")
    store = certs.CertStore.from_store(folder, "tests", 2048)
    alternatives = [*map(x509.DNSName, names), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    entry = store.get_cert(names[0], alternatives, None)
    made = Certificates(folder / "tests-ca-cert.pem", folder / "server.pem", folder / "server.key")
    made.certificate.write_bytes(entry.cert.to_pem())
    made.key.write_bytes(
        entry.privatekey.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        )
    )
    return made


@contextlib.contextmanager
def front(python: Path, certificates: Certificates, folder: Path) -> Iterator[Front]:
    """Run a front with the Python of an environment that has hypercorn."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        descriptor, origin_file = listening.fileno(), folder / "origin"
        command = [str(python), str(FRONT), str(descriptor)]
        command += [str(certificates.certificate), str(certificates.key), str(origin_file)]
        process = subprocess.Popen(command, pass_fds=[descriptor], stdin=subprocess.DEVNULL)
        try:
            yield Front(listening.getsockname()[1], certificates, origin_file)
        finally:
            process.kill()
            process.wait()
