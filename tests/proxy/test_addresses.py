from __future__ import annotations

import pytest

from rotoscope.proxy.addresses import BARE_VARIABLES, BASE_URL_VARIABLES, chosen_upstream, led_to_gateway
from rotoscope.proxy.upstream import upstream_given
from rotoscope.traces.errors import UnusableInput

GATEWAY = "http://127.0.0.1:5"


def led(environment: dict[str, str], upstream: str = "http://host", gateway: str = GATEWAY) -> dict[str, str]:
    return led_to_gateway(environment, upstream_given(upstream), gateway)


def test_every_client_of_openai_servers_is_led_to_the_gateway() -> None:
    changed = led({"HOME": "/", "OPENAI_API_BASE": "http://old"})

    assert changed == {"HOME": "/", "ROTOSCOPE_BASE_URL": f"{GATEWAY}/v1"} | dict.fromkeys(
        BASE_URL_VARIABLES, f"{GATEWAY}/v1"
    )


def test_clients_of_other_vendors_are_led_there_from_the_upstream_alone() -> None:
    environment = {"ANTHROPIC_BASE_URL": "http://host/anthropic", "GOOGLE_GEMINI_BASE_URL": "http://other"}

    changed = led(environment, "http://host/api/v1", f"{GATEWAY}/run/3")

    assert changed["ANTHROPIC_BASE_URL"] == f"{GATEWAY}/run/3/anthropic"
    assert changed["GOOGLE_GEMINI_BASE_URL"] == "http://other"
    assert changed["OPENAI_BASE_URL"] == f"{GATEWAY}/run/3/api/v1"


@pytest.mark.parametrize("variable", BARE_VARIABLES)
def test_client_without_an_address_is_led_there_from_its_vendors_server(variable: str) -> None:
    changed = led({}, BARE_VARIABLES[variable])

    assert changed[variable] == GATEWAY
    assert not (set(BARE_VARIABLES) - {variable}) & set(changed)


def test_variable_that_is_no_address_is_left_alone() -> None:
    assert led({"ANTHROPIC_BASE_URL": "no address"})["ANTHROPIC_BASE_URL"] == "no address"


@pytest.mark.parametrize(("excepted", "becomes"), [({}, "127.0.0.1"), ({"no_proxy": "inside"}, "inside,127.0.0.1")])
def test_proxy_of_the_environment_does_not_stand_before_the_gateway(excepted: dict[str, str], becomes: str) -> None:
    changed = led({"HTTP_PROXY": "http://proxy", **excepted})

    assert changed["no_proxy"] == becomes
    assert "127.0.0.1" in changed["NO_PROXY"]


def test_upstream_is_the_given_one_then_that_of_the_environment() -> None:
    environment = {"OPENAI_BASE_URL": "http://env:1/api", "ANTHROPIC_BASE_URL": "http://other:3"}

    assert chosen_upstream("http://given:2", environment).base_url("") == "/v1"
    assert chosen_upstream(None, environment).base_url("") == "/api"
    assert chosen_upstream(None, environment | {"OPENAI_BASE_URL": ""}).origin == "http://other:3"
    with pytest.raises(UnusableInput):
        chosen_upstream(None, {"OPENAI_BASE_URL": ""})


def test_command_is_a_run_of_its_own_whatever_its_recorder_is_part_of() -> None:
    changed = led({"ROTOSCOPE_PARENT": "a", "ROTOSCOPE_RUN": "b", "ROTOSCOPE_PROCESS": "d", "ROTOSCOPE_TOKEN": "c"})

    assert {name for name in changed if name.startswith("ROTOSCOPE_")} == {"ROTOSCOPE_BASE_URL", "ROTOSCOPE_TOKEN"}
