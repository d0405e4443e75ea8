"""Fixtures of the tests with real instrumentations, which have environments of their own (`make test-otlp`)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from clients.stage import result
from otlp_clients.plays import PLAYS, Told, play_all

FOLDER = "ROTOSCOPE_OTLP_CLIENTS"
"""The folder of the environments, set by `make test-otlp`."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Test each play whose environment is there."""
    if "told" in metafunc.fixturenames:
        folder = os.environ.get(FOLDER)
        names = [name for name, play in PLAYS.items() if folder and Path(folder, play.environment).is_dir()]
        metafunc.parametrize("told", names, indirect=True, scope="session")


@pytest.fixture(scope="session")
def all_told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Told | BaseException]:
    """One run of each play, or the error that it ended with."""
    folder = Path(os.environ[FOLDER]).absolute()
    names = [name for name, play in PLAYS.items() if (folder / play.environment).is_dir()]
    return play_all(folder, names, tmp_path_factory.mktemp("otlp"))


@pytest.fixture(scope="session")
def told(request: pytest.FixtureRequest, all_told: dict[str, Told | BaseException]) -> Told:
    """One run of one play."""
    return result(all_told[request.param])
