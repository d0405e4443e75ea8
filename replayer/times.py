"""Times as people write them: 50ms, 2s, 1.5min, 1h."""

from __future__ import annotations

import re

from rotoscope.traces.errors import UnusableInput

_IN_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
_TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|min|h)")


def seconds(text: str) -> float:
    """Return a time in seconds; raise UnusableInput for one without its unit, which would be taken for another's."""
    found = _TIME.fullmatch(text)
    if found is None or not float(found[1]):
        raise UnusableInput(f"a time is a number more than 0 with its unit, such as 50ms, 2s or 1.5min, not {text!r}")
    return float(found[1]) * _IN_SECONDS[found[2]]
