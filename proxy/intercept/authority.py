"""The certificate authority of one recording: clients trust it for as long as that lasts, and its key is on no disk.

The certificate alone is in files, which are removed at the end. mitmproxy makes the key in files of its own; they are
taken away as soon as it has read them, and stand in memory (`/dev/shm`) where the system has that.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import certifi
from mitmproxy import certs

BUNDLE_VARIABLES = (
    "SSL_CERT_FILE",  # OpenSSL and what is built on it: Python's ssl, httpx, Go, Ruby, curl
    "REQUESTS_CA_BUNDLE",  # requests
    "CURL_CA_BUNDLE",  # curl
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",
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

_KEY_BITS = 2048
_MEMORY = Path("/dev/shm")
_BASENAME = "mitmproxy"  # as mitmproxy's own; people know to look for it


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
def authority(environment: Mapping[str, str]) -> Iterator[Authority]:
    """Make an authority for as long as the block runs; `environment` says what its clients trust already."""
    with tempfile.TemporaryDirectory(prefix="rotoscope-ca-") as name:
        folder = Path(name)
        store, own = _new_store()
        certificate = _written(folder / "authority.pem", own)
        trusted = _written(folder / "trusted.pem", _trusted_here(environment))
        variables = {CA_FILE_VARIABLE: str(certificate)}
        for variable in BUNDLE_VARIABLES:
            known = _contents(environment.get(variable)) or trusted.read_bytes()
            variables[variable] = str(_written(folder / f"{variable.lower()}.pem", known + own))
        for variable in EXTRA_VARIABLES:
            known = _contents(environment.get(variable))
            variables[variable] = str(_written(folder / f"{variable.lower()}.pem", known + own))
        yield Authority(store, certificate, trusted, variables)


def _new_store() -> tuple[certs.CertStore, bytes]:
    """Return a store with a new authority, and the authority's certificate."""
    memory = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as name:
        certs.CertStore.create_store(
            Path(name), _BASENAME, _KEY_BITS, organization="rotoscope", cn="rotoscope recording"
        )
        store = certs.CertStore.from_store(name, _BASENAME, _KEY_BITS)
        return store, (Path(name) / f"{_BASENAME}-ca-cert.pem").read_bytes()


def _trusted_here(environment: Mapping[str, str]) -> bytes:
    """Return the authorities that Python trusts here: those of SSL_CERT_FILE, of the system, or else of certifi."""
    paths = ssl.get_default_verify_paths()
    candidates = (environment.get("SSL_CERT_FILE"), paths.cafile, "/etc/ssl/certs/ca-certificates.crt", certifi.where())
    return next(filter(None, map(_contents, candidates)), b"")


def _contents(path: str | None) -> bytes:
    """Return what is in a file of certificates, with a line break at its end; nothing where it cannot be read."""
    if not path:
        return b""
    try:
        return Path(path).read_bytes().rstrip() + b"\n"
    except OSError:
        return b""


def _written(path: Path, contents: bytes) -> Path:
    path.write_bytes(contents)
    return path
