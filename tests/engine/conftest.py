"""Fixtures of the tests against a real engine; they run where it is installed (`make test-engine`)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from engine.llama_server import engine_version, program
from engine.real_model import write_real_model
from engine.tiny_model import write_tiny_model
from left_out import leave_out

REQUIRED_VARIABLE = "ROTOSCOPE_ENGINE"
"""Set by `make test-engine`: a missing engine is then a failure, not a skip."""
MODELS = Path(__file__).parents[2] / "build" / "engine"


def pytest_report_header() -> str:
    return f"engine: {engine_version() or 'none installed'}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if program() is None and not os.environ.get(REQUIRED_VARIABLE):
        leave_out(items, __file__, "no engine is installed here; `make test-engine` installs one and runs this")


@pytest.fixture(scope="session")
def tiny_model() -> Path:
    return _built("tiny.gguf", write_tiny_model)


@pytest.fixture(scope="session")
def real_model() -> Path:
    return _built("smollm2-135m-instruct-f16.gguf", write_real_model)


def _built(name: str, write: Callable[[Path], None]) -> Path:
    """Return a model, built once a checkout; a build that is cut off leaves nothing under its name."""
    path = MODELS / name
    if not path.exists():
        MODELS.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        write(unfinished)
        unfinished.rename(path)
    return path
