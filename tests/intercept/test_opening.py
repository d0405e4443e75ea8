"""Which connections are opened after all, as mitmproxy tells of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rotoscope.proxy.intercept.hosts import Hosts
from rotoscope.proxy.intercept.opening import Opening

PYTHON, NODE = (0x1301, 0x1302), (0x1301, 0xC02F)
HOST = "api.openai.com"


class World:
    """Handshakes with one host."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        self.passed: list[tuple[str, int]] = []
        self.opening = Opening(Hosts(), notice=self.notices.append, passes=lambda *address: self.passed.append(address))
        self._number = 0

    def is_opened(
        self, suites: tuple[int, ...], *, error: str = "", server_error: str = "", asks: bool = True, sni: str = HOST
    ) -> bool:
        """Let a client connect, and ask for something or not; tell whether the connection is opened."""
        self._number += 1
        client = SimpleNamespace(id=str(self._number), sni=sni, error=error)
        server = SimpleNamespace(address=(HOST, 443), error=server_error)
        context = SimpleNamespace(client=client, server=server)
        hello = SimpleNamespace(sni=sni, cipher_suites=list(suites), alpn_protocols=[b"http/1.1"])
        data: Any = SimpleNamespace(context=context, client_hello=hello, ignore_connection=False)
        self.opening.tls_clienthello(data)
        if not data.ignore_connection:
            of_server: Any = SimpleNamespace(context=context, conn=server)
            of_client: Any = SimpleNamespace(context=context, conn=client)
            (self.opening.tls_failed_server if server_error else self.opening.tls_established_server)(of_server)
            (self.opening.tls_failed_client if error else self.opening.tls_established_client)(of_client)
            if asks and not (error or server_error):
                flow: Any = SimpleNamespace(client_conn=client)
                self.opening.requestheaders(flow)
        self.opening.client_disconnected(client)
        return not data.ignore_connection


@pytest.mark.parametrize(
    "error", ["OpenSSL Error([('SSL routines', '', 'tlsv1 alert unknown ca')])", "connection closed"]
)
def test_a_client_that_refuses_keeps_no_other_from_being_recorded(error: str) -> None:
    world = World()
    world.is_opened(PYTHON, error=error)

    assert not world.is_opened(PYTHON)
    assert world.is_opened(NODE)
    (line,) = world.notices
    assert line.startswith(
        f"connections to {HOST} are no longer opened, so its calls are not recorded: its client pins"
    )


def test_a_client_is_known_again_whatever_it_draws_anew() -> None:
    world = World()
    world.is_opened((0x0A0A, *PYTHON), error="connection closed")

    assert not world.is_opened((0xFAFA, *PYTHON))


def test_a_client_that_leaves_early_refuses_nothing() -> None:
    world = World()
    world.is_opened(PYTHON, error="connection closed early")

    assert world.is_opened(PYTHON)
    assert world.notices == []


def test_a_server_that_is_not_trusted_is_left_to_all_its_clients() -> None:
    world = World()
    world.is_opened(PYTHON, server_error="Certificate verify failed: self-signed certificate")

    assert not world.is_opened(NODE)
    assert "its certificate is not trusted here" in world.notices[0]


def test_a_server_that_breaks_off_once_is_tried_again() -> None:
    world = World()
    world.is_opened(PYTHON, server_error="connection closed")

    assert world.is_opened(PYTHON)
    world.is_opened(PYTHON, server_error="connection closed")
    assert world.is_opened(PYTHON, server_error="connection closed")
    assert not world.is_opened(PYTHON)


def test_a_server_that_wants_a_certificate_is_left_to_its_client() -> None:
    world = World()
    world.is_opened(PYTHON, server_error="OpenSSL Error([('SSL routines', '', 'ssl/tls alert handshake failure')])")

    assert not world.is_opened(PYTHON)
    assert "which may have a certificate of its own" in world.notices[0]


def test_a_client_that_never_says_a_word_looks_at_certificates_behind_the_handshake() -> None:
    world = World()

    assert [world.is_opened(PYTHON, asks=False) for _ in range(4)] == [True, True, True, False]
    assert world.is_opened(NODE, asks=False)
    (line,) = world.notices
    assert "its client pins a certificate" in line


def test_a_client_that_said_something_may_be_silent() -> None:
    world = World()
    world.is_opened(PYTHON)

    assert [world.is_opened(PYTHON, asks=False) for _ in range(4)] == [True] * 4
    assert world.notices == []


def test_a_client_that_asks_an_opened_host_for_another_server_is_left_alone() -> None:
    world = World()

    assert not world.is_opened(PYTHON, sni="other.example")
    assert world.is_opened(PYTHON)
    assert (world.passed, world.notices) == ([("other.example", 443)], [])
