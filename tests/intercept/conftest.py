"""Fixtures of the tests with mitmproxy, which run in an environment that has it (`make test-intercept`)."""

from __future__ import annotations

import importlib.util
import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from intercept.fronts import Front

FOLDER = "ROTOSCOPE_INTERCEPT_CLIENTS"
"""The environment of the clients, set by `make test-intercept`."""

if FOLDER not in os.environ or importlib.util.find_spec("mitmproxy") is None:
    if os.environ.get("CI") == "true":
        raise RuntimeError("the tests with mitmproxy need their environments: run them by `make test-intercept`")
    collect_ignore_glob = ["test_*.py"]
else:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what mitmproxy ties to old versions warns when it is loaded
        importlib.import_module("mitmproxy.addons")
    # The processes of a test are not in the group of who runs it, so that they are to be ended before that ends.
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let mitmproxy use what is deprecated in the old versions that it is tied to."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:Passing pyOpenSSL:DeprecationWarning"))


@pytest.fixture(scope="session")
def python() -> Path:
    """The Python of the clients."""
    return Path(os.environ[FOLDER]).absolute() / "bin/python"


@pytest.fixture(scope="session")
def front(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    """A server by TLS."""
    from intercept import fronts

    folder = tmp_path_factory.mktemp("front")
    with fronts.front(python, fronts.new_certificates(folder / "certificates"), folder) as one:
        yield one
