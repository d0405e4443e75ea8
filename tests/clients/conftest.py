"""Fixtures of the tests with real clients, each of which has an environment of its own (`make test-clients`)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from clients.recorded import ALONE, Recorded, record_clients
from clients.stage import result

FOLDER = "ROTOSCOPE_CLIENTS"
"""The folder of the clients' environments, set by `make test-clients`."""
NAMES = "ROTOSCOPE_CLIENT_NAMES"
"""Which of them to test."""
OTHER_PROGRAMS = {f"{ALONE}aider"}
"""Whose agents run a command line, which records nothing by itself."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Test each client that is named."""
    if "recorded" in metafunc.fixturenames:
        metafunc.parametrize("recorded", _named(), indirect=True, scope="session")


def _named() -> list[str]:
    """Return the clients to test: each behind a gateway, and recorded by itself."""
    names = os.environ.get(NAMES, "").split()
    return [f"{how}{name}" for name in names for how in ("", ALONE) if how + name not in OTHER_PROGRAMS]


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recorded | BaseException]:
    """One recorded run of each client, or the error that it ended with."""
    return record_clients(Path(os.environ[FOLDER]).absolute(), _named(), tmp_path_factory.mktemp("clients"))


@pytest.fixture(scope="session")
def recorded(request: pytest.FixtureRequest, recordings: dict[str, Recorded | BaseException]) -> Recorded:
    """The recorded run of one client."""
    return result(recordings[request.param])
