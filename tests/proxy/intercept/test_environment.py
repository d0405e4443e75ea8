"""The environment of a command that is led through an interception."""

from __future__ import annotations

import pytest

from rotoscope.proxy.intercept.environment import PROXY_VARIABLES, led_through, proxy_of
from rotoscope.proxy.intercept.hosts import Hosts, chosen_hosts


def test_all_that_clients_read_leads_to_the_proxy() -> None:
    led = led_through({"PATH": "/bin", "http_proxy": "http://other:1"}, "127.0.0.1", 8080, hosts=Hosts())

    assert {led[name] for name in PROXY_VARIABLES} == {"http://127.0.0.1:8080"}
    assert (led["PATH"], led["NODE_USE_ENV_PROXY"]) == ("/bin", "1")


def test_what_is_left_out_of_proxies_stays_left_out() -> None:
    led = led_through({"NO_PROXY": "localhost", "no_proxy": "internal"}, "127.0.0.1", 8080, hosts=Hosts())

    assert led["NO_PROXY"] == "localhost,127.0.0.1,::1"
    assert led["no_proxy"] == "internal,localhost,127.0.0.1,::1"


def test_servers_of_this_machine_are_left_out_but_those_that_are_opened() -> None:
    led = led_through({"no_proxy": "internal,"}, "127.0.0.1", 8080, hosts=chosen_hosts(["localhost:8000", "[::1]"]))

    assert (led["NO_PROXY"], led["no_proxy"]) == ("internal,127.0.0.1", "internal,127.0.0.1")


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        ({}, None),
        ({"https_proxy": "http://a:1", "HTTPS_PROXY": "http://b:2"}, "http://a:1"),
        ({"HTTPS_PROXY": "http://b:2", "ALL_PROXY": "http://c:3"}, "http://b:2"),
        ({"https_proxy": "", "all_proxy": "http://c:3"}, "http://c:3"),
        ({"http_proxy": "http://d:4"}, None),
    ],
)
def test_the_proxy_of_an_environment_is_the_one_that_clients_take(
    environment: dict[str, str], proxy: str | None
) -> None:
    assert proxy_of(environment) == proxy
