from __future__ import annotations

from collections.abc import Iterator

import pytest
from sdk_doubles import Spans, provided_by


@pytest.fixture
def spans() -> Iterator[Spans]:
    """The spans that are ended, of a provider."""
    kept = Spans()
    with provided_by(kept.provider):
        yield kept


@pytest.fixture(params=["off", "on"])
def either(request: pytest.FixtureRequest) -> Iterator[None]:
    """Nobody who wants to know, or a provider."""
    with provided_by(Spans().provider if request.param == "on" else None):
        yield
