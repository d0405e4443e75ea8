"""API keys: they are named on the command line, never given there."""

from __future__ import annotations

import os

from rotoscope.traces.errors import UnusableInput


def api_key_in(variable: str | None) -> str | None:
    """Return the key that an environment variable holds; None where no variable is named."""
    if variable is None:
        return None
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UnusableInput(f"the environment variable {variable!r} is not set: export the API key in it")
    return key
