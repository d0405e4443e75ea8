"""The authority of a recording: good for little, for a while, and with no key in any file."""

from __future__ import annotations

import datetime
import os
import ssl
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from mitmproxy import certs

from rotoscope.proxy.intercept.authority import authority
from rotoscope.proxy.intercept.hosts import Hosts, chosen_hosts
from rotoscope.proxy.intercept.interception import OwnAuthority
from rotoscope.traces.errors import UnusableInput


def is_trusted(store: certs.CertStore, certificate: Path, name: str, entry: certs.CertStoreEntry | None = None) -> bool:
    """Tell whether a client takes a certificate of the store, or that one, for a name."""
    entry = entry or store.get_cert(name, [x509.DNSName(name)], None)
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=certificate)
    own = certificate.with_name("own.pem")
    key = entry.privatekey.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    own.write_bytes(key + entry.cert.to_pem())
    server.load_cert_chain(own)
    own.unlink()
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for side in [*sides, *sides, *sides]:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLCertVerificationError:
            return False
    return True


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("api.openai.com", True),
        ("eu.api.openai.com", True),
        ("mine.openai.azure.com", True),
        ("llm.example.com", True),
        ("other.example.com", False),
        ("bank.example", False),
    ],
)
def test_it_is_good_for_the_hosts_that_are_opened_alone(name: str, expected: bool) -> None:
    with authority({}, hosts=chosen_hosts(["llm.example.com:8443", "127.0.0.1"])) as made:
        assert is_trusted(made.store, made.certificate, name) is expected


@pytest.mark.parametrize("address", ["192.0.2.7", "::1"])
def test_it_is_good_for_a_server_that_is_an_address(address: str) -> None:
    with authority({}, hosts=chosen_hosts([f"[{address}]:8443" if ":" in address else address])) as made:
        client = SimpleNamespace(sni=None, sockname=("127.0.0.1", 1))
        asked = SimpleNamespace(client=client, server=SimpleNamespace(address=(address, 8443)))
        entry = OwnAuthority(made).get_cert(asked)

        assert is_trusted(made.store, made.certificate, address, entry)


def test_it_is_good_for_any_where_any_may_be_opened() -> None:
    assert Hosts(("*-llm",)).domains == []
    assert Hosts(("*.example.com", "[::1]:8443", "127.0.0.1", "Other.example:1")).domains == [
        "example.com",
        "127.0.0.1",
        "other.example",
    ]


def test_a_file_of_no_certificates_is_left_out(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    with authority({"SSL_CERT_FILE": str(empty), "NODE_EXTRA_CA_CERTS": str(empty)}) as made:
        own = made.certificate.read_bytes()

        assert ssl.create_default_context(cafile=made.trusted).cert_store_stats()["x509_ca"] > 0
        assert Path(made.variables["SSL_CERT_FILE"]).read_bytes() == made.trusted.read_bytes() + own
        assert Path(made.variables["NODE_EXTRA_CA_CERTS"]).read_bytes() == own


def test_it_ends_by_itself() -> None:
    with authority({}) as made:
        certificate = made.store.default_ca

        assert certificate.notafter - datetime.datetime.now(datetime.UTC) <= datetime.timedelta(days=30)


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_everybody_may_read_its_files_that_none_but_us_may_write_and_no_key_is_in_them(umask: int) -> None:
    before = os.umask(umask)
    try:
        with authority({}) as made:
            files = list(made.certificate.parent.iterdir())

            assert made.certificate.parent.stat().st_mode & 0o777 == 0o755
            assert all(b"PRIVATE KEY" not in file.read_bytes() for file in files)
            assert {file.stat().st_mode & 0o777 for file in files} == {0o644}
    finally:
        os.umask(before)
    assert not made.certificate.parent.exists()


def test_that_its_files_cannot_be_written_is_said_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))

    with pytest.raises(UnusableInput, match="cannot be written to a temporary folder: No such file"), authority({}):
        pass
