"""How modes of interception are spelled, and what they mean."""

from __future__ import annotations

import pytest

from rotoscope.proxy.intercept.modes import Mode, chosen_mode
from rotoscope.traces.errors import UnusableInput


@pytest.mark.parametrize(
    ("given", "mode"),
    [
        ("regular", Mode("regular")),
        ("regular@8080", Mode("regular", port=8080)),
        ("regular@localhost:8080", Mode("regular", "localhost", 8080)),
        ("regular@[::1]:8080", Mode("regular", "::1", 8080)),
        ("transparent@8080", Mode("transparent", port=8080)),
        ("transparent@0.0.0.0:8080", Mode("transparent", "0.0.0.0", 8080)),
        ("local:curl", Mode("local:curl")),
    ],
)
def test_a_mode_is_where_it_listens_and_what_mitmproxy_calls_it(given: str, mode: Mode) -> None:
    assert chosen_mode(given, {}) == mode


@pytest.mark.parametrize(
    ("given", "spec", "port", "auth"),
    [
        ("upstream:http://proxy:3128", "upstream:http://proxy:3128", 0, None),
        ("upstream:proxy:3128", "upstream:http://proxy:3128", 0, None),
        ("upstream:https://proxy", "upstream:https://proxy", 0, None),
        ("upstream:http://proxy:3128@8080", "upstream:http://proxy:3128", 8080, None),
        ("upstream:http://me:a%20b@127.0.0.1:3128", "upstream:http://127.0.0.1:3128", 0, "me:a b"),
        ("upstream:http://me@proxy:3128", "upstream:http://proxy:3128", 0, "me:"),
        ("upstream:http://me:p@proxy:3128@8080", "upstream:http://proxy:3128", 8080, "me:p"),
    ],
)
def test_another_proxy_is_gone_through(given: str, spec: str, port: int, auth: str | None) -> None:
    mode = chosen_mode(given, {})

    assert (mode.spec, mode.host, mode.port, mode.upstream_auth) == (spec, "127.0.0.1", port, auth)
    assert mode.is_asked


def test_the_proxy_of_the_environment_is_gone_through() -> None:
    environment = {"https_proxy": "http://me:p@proxy:3128"}

    assert chosen_mode("regular", environment).spec == "upstream:http://proxy:3128"
    assert chosen_mode("regular", environment).behind == "http://me:p@proxy:3128"
    assert chosen_mode("transparent@8080", environment) == Mode("transparent", port=8080)


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(chosen_mode("upstream:http://me:secret@proxy:3128", {}))


@pytest.mark.parametrize(
    "given", ["", "reverse:http://a", "upstream", "upstream:", "regular@", "regular@host", "Regular"]
)
def test_what_is_no_mode_is_refused(given: str) -> None:
    with pytest.raises(UnusableInput):
        chosen_mode(given, {})


@pytest.mark.parametrize("url", ["socks5://proxy:1080", "http://", "http://proxy:port", "http://proxy:70000"])
def test_a_proxy_that_is_none_of_http_is_refused_without_its_url(url: str) -> None:
    with pytest.raises(UnusableInput, match="the proxy to go through is none of HTTP") as caught:
        chosen_mode(f"upstream:{url}", {})

    assert repr(url) not in str(caught.value)


def test_all_programs_of_the_machine_are_refused() -> None:
    with pytest.raises(UnusableInput, match="local mode alone would be about every program of this machine"):
        chosen_mode("local", {})


def test_a_place_that_nobody_could_lead_connections_to_is_refused() -> None:
    with pytest.raises(UnusableInput, match=r"name the place, as in transparent@172\.30\.0\.1:8443"):
        chosen_mode("transparent", {})


def test_a_proxy_for_everybody_is_refused() -> None:
    with pytest.raises(UnusableInput, match=r"in regular mode 0\.0\.0\.0 would be a proxy for everybody"):
        chosen_mode("regular@0.0.0.0:8080", {})
