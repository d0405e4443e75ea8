"""Rates as people write them: 720/h, 12/min, 0.2/s."""

from __future__ import annotations

import re

from rotoscope.traces.errors import UnusableInput

_A_HOUR = {"h": 1.0, "min": 60.0, "s": 3600.0}
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)/(h|min|s)")


def rate_per_h(text: str) -> float:
    """Return a rate an hour; raise UnusableInput for one without its unit, which would be taken for another's."""
    found = _RATE.fullmatch(text)
    if found is None or not float(found[1]):
        raise UnusableInput(
            f"a rate is a number more than 0 with its unit, such as 720/h, 12/min or 0.2/s, not {text!r}"
        )
    return float(found[1]) * _A_HOUR[found[2]]
