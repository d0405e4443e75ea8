"""Tests that are left out where what they need is not installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest


def leave_out(items: Sequence[pytest.Item], conftest: str, reason: str) -> None:
    """Skip those of these tests that are in the folder of this `conftest`."""
    for item in items:
        if Path(conftest).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=reason))
