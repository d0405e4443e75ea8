"""Fixtures of the tests with Phoenix, which is installed in an environment of its own (`make test-otlp`)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from left_out import leave_out

from examples.tracing.phoenix import Phoenix, running

VARIABLE = "ROTOSCOPE_PHOENIX"
"""The folder of Phoenix's environment, set by `make test-otlp`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not os.environ.get(VARIABLE):
        leave_out(items, __file__, "Phoenix is not named here; `make test-otlp` installs it and runs this")


@pytest.fixture(scope="session")
def programs() -> Path:
    """The programs of the environment that has Phoenix."""
    return Path(os.environ[VARIABLE]).absolute() / "bin"


@pytest.fixture(scope="module")
def phoenix(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phoenix]:
    """A tracing backend without spans."""
    with running(programs / "phoenix", tmp_path_factory.mktemp("phoenix")) as started:
        yield started
