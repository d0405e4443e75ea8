from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

PROJECT = Path(__file__).resolve().parents[1]
DATA_VARIABLE = "ROTOSCOPE_DATA"

# No test asks a server that strangers vouch for, and to read whom this machine trusts takes each client 30 ms.
os.environ.setdefault("SSL_CERT_FILE", str(PROJECT / "tests" / "data" / "nobody.pem"))

# A busy machine makes an example slow, not wrong. Continuous integration tries the same examples each time, so that a
# failure is that of the change; everybody else's run tries new ones.
settings.register_profile(
    "any-speed",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("CI") == "true",
)
settings.load_profile("any-speed")


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
