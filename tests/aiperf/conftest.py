"""Fixtures of the tests with AIPerf, which is installed in an environment of its own (`make test-aiperf`)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from left_out import leave_out

VARIABLE = "ROTOSCOPE_AIPERF"
"""The folder of AIPerf's environment, set by `make test-aiperf`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not os.environ.get(VARIABLE):
        leave_out(items, __file__, "AIPerf is not named here; `make test-aiperf` installs it and runs this")


@pytest.fixture(scope="session")
def aiperf_python() -> Path:
    """The Python that has AIPerf."""
    return Path(os.environ[VARIABLE]).absolute() / "bin" / "python"
