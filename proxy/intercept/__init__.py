"""Recording of programs whose server cannot be changed: mitmproxy opens what they say, a recorder hears it.

mitmproxy is in the extra `intercept`. It ties what it needs to old versions, so it belongs into an environment apart from
those of agents; what needs it here is imported late.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from rotoscope.traces.errors import UnusableInput


def need_mitmproxy() -> None:
    """Raise UnusableInput where mitmproxy is not installed."""
    if importlib.util.find_spec("mitmproxy") is None:
        raise UnusableInput(
            "--intercept needs mitmproxy, which is not in this environment: install rotoscope[intercept] in one of its "
            "own, apart from the agent's, and take the rotoscope in there"
        )


def refuse_beside(options: Mapping[str, object]) -> None:
    """Raise UnusableInput where options are given that are about a gateway."""
    given = [name for name, value in options.items() if value]
    if given:
        raise UnusableInput(f"{' and '.join(given)} cannot go with --intercept: leave one of them out")
