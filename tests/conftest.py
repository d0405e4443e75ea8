from __future__ import annotations

import gc
import logging
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

PROJECT = Path(__file__).resolve().parents[1]
DATA_VARIABLE = "ROTOSCOPE_DATA"

# No test asks a server that strangers vouch for, and to read whom this machine trusts takes each client 30 ms.
os.environ.setdefault("SSL_CERT_FILE", str(PROJECT / "tests" / "data" / "nobody.pem"))

# A busy machine makes an example slow, not wrong. Continuous integration tries the same examples each time, so that a
# failure is that of the change; everybody else's run tries new ones. Fewer than by default, since making them is most of
# what the laws take; `--hypothesis-profile=thorough` tries many more where a law gives no number of its own.
settings.register_profile(
    "any-speed",
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("CI") == "true",
)
settings.register_profile("thorough", settings.get_profile("any-speed"), max_examples=1_000, derandomize=False)
settings.load_profile("any-speed")

# Bytecode is kept, also that of tests with rewritten assertions: without it every worker rewrites every test file, and
# every process that a test starts compiles the project anew.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

gc.set_threshold(20_000, 20, 20)


def pytest_collection_finish() -> None:
    """Let the garbage collector leave alone what was collected: all of it lives as long as the session."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    """Let nobody be told what tests have lost on purpose."""
    logging.lastResort = None


def find_data() -> Path | None:
    """Return the folder of reference data: the one named by ROTOSCOPE_DATA, else shared/data beside the project."""
    named = os.environ.get(DATA_VARIABLE)
    folder = Path(named) if named else PROJECT.parent / "shared" / "data"
    return folder if folder.is_dir() else None


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of reference data; a test that needs it is skipped where it is absent, and fails in CI."""
    folder = find_data()
    if folder is not None:
        return folder
    reason = f"no reference data: set {DATA_VARIABLE} to the folder that holds trtllm/ and weka/"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
