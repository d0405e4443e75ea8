from __future__ import annotations

import pytest

from rotoscope.replayer.times import seconds
from rotoscope.traces.errors import UnusableInput


@pytest.mark.parametrize(
    ("text", "expected"), [("2s", 2.0), ("50ms", 0.05), ("1.5min", 90.0), ("1h", 3600.0), ("0.25s", 0.25)]
)
def test_times_have_units(text: str, expected: float) -> None:
    assert seconds(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["2", "", "s", "0s", "-1s", "2 s", "1e3s", "2S", "2sec", ".5s", "nan s", "٣s"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UnusableInput, match="such as 50ms"):
        seconds(text)
