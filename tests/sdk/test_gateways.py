"""Where a gateway is, and what goes to it."""

from __future__ import annotations

import pytest

from rotoscope.sdk.gateways import Gateway, NoGateway, gateway_at, gateway_of

HERE = "http://127.0.0.1:8484"


@pytest.mark.parametrize(
    ("url", "before", "has_run"),
    [
        (HERE, "", False),
        (f"{HERE}/v1", "", False),
        (f"{HERE}/run/a%20b/v1", "/run/a%20b", True),
        (f"{HERE}/token/secret/run/x", "/token/secret/run/x", True),
        (f"{HERE}/token/secret/v1", "/token/secret", False),
        (f"{HERE}/running/x", "", False),
    ],
)
def test_token_and_run_before_the_path_stay_before_it(url: str, before: str, has_run: bool) -> None:
    gateway = gateway_at(url)

    assert (gateway.host, gateway.port, gateway.before, gateway.has_run) == ("127.0.0.1", 8484, before, has_run)


@pytest.mark.parametrize(
    "url", ["", "8484", "127.0.0.1:8484", "ftp://host", "http://", "http://host:no", "http://[", "http://h:99999"]
)
def test_what_is_no_url_of_a_gateway_is_refused_without_a_word_of_it(url: str) -> None:
    with pytest.raises(NoGateway, match=r"^the gateway has no URL like 'http://127.0.0.1:8484'$"):
        gateway_at(url)


@pytest.mark.parametrize(
    ("url", "is_there"),
    [
        ("http://127.0.0.1:8484/v1/chat/completions", True),
        ("http://localhost:8484/v1", True),
        ("HTTP://LOCALHOST:8484", True),
        ("https://127.0.0.1:8484/v1", False),
        ("http://127.0.0.1:8485/v1", False),
        ("http://127.0.0.1/v1", False),
        ("http://127.0.0.1:8484@example.com/v1", False),
        ("http://example.com:8484/http://127.0.0.1:8484", False),
        ("http://[", False),
        ("", False),
    ],
)
def test_only_what_goes_to_its_origin_goes_to_it(url: str, is_there: bool) -> None:
    assert gateway_at(HERE).is_origin_of(url) == is_there


def test_port_that_is_not_given_is_that_of_the_scheme() -> None:
    assert gateway_at("https://gateway.example/v1").is_origin_of("https://gateway.example:443/v1")


def test_environment_leads_to_the_gateway_of_the_command_before_another() -> None:
    standing = {"ROTOSCOPE_GATEWAY": "http://other:1", "ROTOSCOPE_TOKEN": "t\n"}

    assert gateway_of({}) is None
    assert gateway_of(standing) == Gateway("http", "other", 1, token="t")
    command = gateway_of(standing | {"ROTOSCOPE_BASE_URL": f"{HERE}/v1"})
    assert command == Gateway("http", "127.0.0.1", 8484, is_of_command=True)
    assert command.has_run


def test_token_in_the_path_is_the_one_that_counts() -> None:
    assert gateway_at(f"{HERE}/token/secret", "another").token == ""


def test_token_is_in_no_repr() -> None:
    assert "secret" not in repr(gateway_at(f"{HERE}/token/secret/run/secret", "secret"))
    assert "secret" not in repr(gateway_at(HERE, "secret"))
