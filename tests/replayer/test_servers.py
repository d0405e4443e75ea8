from __future__ import annotations

import sys
from typing import Any

import pytest
import started_server

from rotoscope.replayer.server_process import Patience
from rotoscope.replayer.servers import Servers, Settings
from rotoscope.traces.errors import UnusableInput

COMMAND = f"{sys.executable} {started_server.__file__}"


def servers(url: str | None = None, command: str | None = None, **settings: tuple[str, ...]) -> Servers:
    given: Settings = settings
    return Servers.parse(url=url, command=command, settings=given, patience=Patience(ready_s=120.0))


def test_a_server_that_is_there_is_where_it_is() -> None:
    with servers("http://there:80").running({}, api_key=None, say=print) as url:
        assert url == "http://there:80"


def test_a_server_that_is_started_has_a_port_of_its_own() -> None:
    said: list[str] = []
    started = servers(command=f"{COMMAND} {{port}}")
    with (
        started.running({}, api_key=None, say=said.append) as one,
        started.running({}, api_key=None, say=said.append) as other,
    ):
        assert one != other
        assert one.startswith("http://127.0.0.1:")
    assert len(said) == 2


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "expected the --url of a server"),
        ({"command": COMMAND}, r"has no \{port\}"),
        ({"command": f"{COMMAND} {{port}}", "url": "http://127.0.0.1:8000"}, "in both"),
        ({"command": COMMAND, "url": "http://127.0.0.1:{port}"}, "in both"),
        ({"url": "http://127.0.0.1:8000", "batch": ("8",)}, "give --server-command"),
        ({"command": f"{COMMAND} {{port}}", "batch": ("8",)}, r"no place in the server command: put \{batch\}"),
        ({"command": f"{COMMAND} {{port}}", "gpus": ("1", "two")}, "a number of GPUs, not 'two'"),
    ],
)
def test_what_leads_to_no_server_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UnusableInput, match=says):
        servers(**given)


def test_the_number_of_gpus_needs_no_place_in_the_command() -> None:
    assert servers(command=f"{COMMAND} {{port}}", gpus=("1", "2")).any_url == "http://127.0.0.1:1"
