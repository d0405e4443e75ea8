"""What `--intercept` needs, and what cannot go with it; told before mitmproxy is imported."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from rotoscope.traces.errors import UnusableInput


def need_mitmproxy() -> None:
    """Raise UnusableInput where mitmproxy is not installed."""
    if importlib.util.find_spec("mitmproxy") is None:
        raise UnusableInput(
            "--intercept needs mitmproxy, which is not in this environment: install '.[intercept]' of the checkout in one of its "
            "own, apart from the agent's, and take the rotoscope in there"
        )


def refuse_beside(options: Mapping[str, object]) -> None:
    """Raise UnusableInput where options are given that are about a gateway."""
    given = [name for name, value in options.items() if value]
    if given:
        raise UnusableInput(f"{' and '.join(given)} cannot go with --intercept: leave one of them out")
