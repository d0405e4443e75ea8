from __future__ import annotations

import pytest

from rotoscope.replayer.load.rate import rate_per_h
from rotoscope.traces import UnusableInput


@pytest.mark.parametrize(("text", "an_hour"), [("720/h", 720.0), ("12/min", 720.0), ("0.2/s", 720.0), ("0.5/h", 0.5)])
def test_a_rate_has_a_unit(text: str, an_hour: float) -> None:
    assert rate_per_h(text) == pytest.approx(an_hour)


@pytest.mark.parametrize("text", ["", "720", "720/d", "/h", "-1/h", "0/h", "0.0/s", "nan/h", "1e3/h", " 1/h", "1 /h"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UnusableInput, match="with its unit"):
        rate_per_h(text)
