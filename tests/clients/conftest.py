"""Fixtures of the tests with real clients, each of which has an environment of its own (`make test-clients`)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = "ROTOSCOPE_CLIENTS"
"""The folder of the clients' environments, set by `make test-clients`."""
NAMES = "ROTOSCOPE_CLIENT_NAMES"
"""Which of them to test."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Test each client that is named, all tests of one in one process: it is recorded once."""
    if "recorded" in metafunc.fixturenames:
        names = os.environ.get(NAMES, "").split()
        clients = [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in names]
        metafunc.parametrize("recorded", clients, indirect=True, scope="module")


@pytest.fixture(scope="session")
def environments() -> Path:
    """The folder that holds an environment for each client."""
    return Path(os.environ[FOLDER]).absolute()
