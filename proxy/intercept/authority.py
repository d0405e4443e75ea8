"""The certificate authority of one recording: clients trust it for as long as that lasts, and its key is in no file.

The certificate alone is in files, which are removed at the end; anybody may read them, as the command may run as somebody
else. It is one for the opened hosts and no others (name constraints, RFC 5280, 4.2.1.10), and for a month.
"""

from __future__ import annotations

import contextlib
import datetime
import inspect
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import certifi
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from mitmproxy import certs

from rotoscope.proxy.intercept.hosts import Hosts
from rotoscope.proxy.intercept.leftovers import temporary_folder
from rotoscope.traces.errors import UnusableInput

BUNDLE_VARIABLES = (
    "SSL_CERT_FILE",  # OpenSSL and what is built on it, Python's ssl, httpx, Go, rustls-native-certs
    "REQUESTS_CA_BUNDLE",  # requests
    "CURL_CA_BUNDLE",  # curl
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "PIP_CERT",
    "CODEX_CA_CERTIFICATE",  # Codex
)
"""Where clients look for all the authorities that they trust; each is given those it had and ours."""
EXTRA_VARIABLES = (
    "NODE_EXTRA_CA_CERTS",  # Node.js, and Bun
    "DENO_CERT",
)
"""Where clients look for authorities that they trust besides."""
CA_FILE_VARIABLE = "ROTOSCOPE_CA_FILE"
"""Our authority alone, for clients that are told of it in another way."""

LIFETIME = datetime.timedelta(days=30)
"""Longer than any recording takes: what is still running when it ends is no longer trusted by its clients."""

_SLOW_CLOCK = datetime.timedelta(days=2)
_KEY_BITS = 2048


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority, and the files with its certificate."""

    store: certs.CertStore = field(repr=False)
    certificate: Path
    trusted: Path
    """What this process trusts itself: the authorities that servers are verified by."""
    variables: Mapping[str, str]
    """What a client's environment needs to trust it."""


@contextlib.contextmanager
def authority(environment: Mapping[str, str], *, hosts: Hosts | None = None) -> Iterator[Authority]:
    """Make an authority for as long as the block runs; `environment` says what its clients trust already.

    Where hosts are given it is good for no others. Raises UnusableInput where its files cannot be written.
    """
    with contextlib.ExitStack() as until_the_end:
        try:
            folder = until_the_end.enter_context(temporary_folder())
            made = _made(folder, environment, [] if hosts is None else hosts.domains)
            _let_read(folder)
        except OSError as error:
            raise UnusableInput(
                f"certificates for the command cannot be written to a temporary folder: {error.strerror}; "
                "TMPDIR names another one"
            ) from error
        yield made


def _made(folder: Path, environment: Mapping[str, str], domains: list[str]) -> Authority:
    store, own = _new_store(folder / "parameters.pem", domains)
    certificate = _written(folder / "authority.pem", own)
    trusted = _written(folder / "trusted.pem", _trusted_here(environment))
    variables = {CA_FILE_VARIABLE: str(certificate)}
    for variable in BUNDLE_VARIABLES:
        known = _contents(environment.get(variable)) or trusted.read_bytes()
        variables[variable] = str(_written(folder / f"{variable.lower()}.pem", known + own))
    for variable in EXTRA_VARIABLES:
        known = _contents(environment.get(variable))
        variables[variable] = str(_written(folder / f"{variable.lower()}.pem", known + own))
    return Authority(store, certificate, trusted, variables)


def _let_read(folder: Path) -> None:
    """Let everybody read what is in a folder and nobody else write it, whatever the umask: it says who is trusted."""
    for path in folder.iterdir():
        path.chmod(0o644)
    folder.chmod(0o755)


def _new_store(parameters: Path, domains: list[str]) -> tuple[certs.CertStore, bytes]:
    """Return a store with a new authority, and the authority's certificate; `parameters` is a file that it needs."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    certificate = _certificate(key, domains)
    more = {"default_crl": b""} if "default_crl" in inspect.signature(certs.CertStore).parameters else {}  # version 12
    store = certs.CertStore(
        key, certs.Cert(certificate), None, dhparams=certs.CertStore.load_dhparam(parameters), **more
    )
    return store, certificate.public_bytes(serialization.Encoding.PEM)


def _certificate(key: rsa.RSAPrivateKey, domains: list[str]) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "rotoscope recording")])
    public, now = key.public_key(), datetime.datetime.now(datetime.UTC)
    usage = dict.fromkeys(("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"), False)
    usage |= dict.fromkeys(("key_agreement", "encipher_only", "decipher_only"), False)
    builder = (
        x509.CertificateBuilder(name, name, public, x509.random_serial_number())
        .not_valid_before(now - _SLOW_CLOCK)
        .not_valid_after(now + LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**usage, key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )
    if domains:
        names = [x509.DNSName(domain) for domain in domains]
        builder = builder.add_extension(x509.NameConstraints(names, None), critical=True)
    return builder.sign(key, hashes.SHA256())


def _trusted_here(environment: Mapping[str, str]) -> bytes:
    """Return the authorities that Python trusts here: those of SSL_CERT_FILE, of the system, or else of certifi."""
    paths = ssl.get_default_verify_paths()
    candidates = (environment.get("SSL_CERT_FILE"), paths.cafile, "/etc/ssl/certs/ca-certificates.crt", certifi.where())
    return next(filter(None, map(_contents, candidates)), b"")


def _contents(path: str | None) -> bytes:
    """Return what is in a file of certificates, with a line break at its end; nothing where it is none."""
    if not path:
        return b""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
        return Path(path).read_bytes().rstrip() + b"\n"
    except OSError:
        return b""


def _written(path: Path, contents: bytes) -> Path:
    path.write_bytes(contents)
    return path
