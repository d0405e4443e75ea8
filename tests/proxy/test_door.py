from __future__ import annotations

import pytest
from multidict import CIMultiDict

from rotoscope.proxy.door import Door, Refusal

TOKEN = "a-token-of-some-length"


def refusal(door: Door = Door(), *, token: str = "", **headers: str) -> Refusal | None:  # noqa: B008
    return door.refusal(CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()}), token)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8484",
        "localhost:8484",
        "LOCALHOST",
        "localhost.",
        "api.localhost:1",
        "[::1]:8484",
        "10.0.0.7:8484",
        "host.docker.internal:8484",
        "",
    ],
)
def test_host_that_can_only_lead_here_may_pass(host: str) -> None:
    assert refusal(Host=host) is None


@pytest.mark.parametrize(
    "host", ["evil.example:8484", "localhost.evil.example", "127.0.0.1.evil.example", "[::1", "a b"]
)
def test_host_that_a_name_server_can_let_lead_here_is_refused(host: str) -> None:
    assert refusal(Host=host) == Refusal(403, "the name in Host is none of this machine's: use 127.0.0.1 or localhost")


@pytest.mark.parametrize(
    "origin",
    ["http://localhost:3000", "http://127.0.0.1", "http://[::1]:3000", "vscode-webview://abc", "app://obsidian.md"],
)
def test_pages_of_this_machine_and_programs_built_like_pages_may_pass(origin: str) -> None:
    assert refusal(Host="localhost", Origin=origin) is None


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://localhost.evil.example", "null", "", "http://[", "http://10.0.0.7"]
)
def test_pages_of_other_sites_are_refused(origin: str) -> None:
    assert refusal(Host="localhost", Origin=origin) == Refusal(403, "web pages of other sites may not use the gateway")


def test_what_a_page_of_another_site_asks_for_without_an_origin_is_refused() -> None:
    assert refusal(Host="localhost", Sec_Fetch_Site="cross-site") is not None
    assert refusal(Host="localhost", Sec_Fetch_Site="none") is None
    assert refusal(Host="localhost", Origin="vscode-webview://abc", Sec_Fetch_Site="cross-site") is None


def test_with_a_token_it_alone_decides() -> None:
    door = Door(TOKEN)

    assert refusal(door, Host="any.example", Origin="https://any.example", x_rotoscope_token=TOKEN) is None
    assert refusal(door, Host="any.example", token=TOKEN) is None
    assert refusal(door, Host="localhost", X_ROTOSCOPE_TOKEN=TOKEN) is None


@pytest.mark.parametrize("given", ["", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "\udcff"])
def test_without_the_token_nobody_passes(given: str) -> None:
    for refused in (refusal(Door(TOKEN), token=given), refusal(Door(TOKEN), x_rotoscope_token=given)):
        assert refused is not None
        assert refused.status == 401
        assert TOKEN not in refused.reason


def test_token_is_not_shown() -> None:
    assert TOKEN not in repr(Door(TOKEN))
