"""What an event loop finds wrong outside any call, told without what passed."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any

_log = logging.getLogger(__name__)


def kinds_of_errors_told() -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], None]:
    """Return what tells once of each kind of error outside any call, without its text, which may hold what passed."""
    told: set[str] = set()

    def tell(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        number = error.errno if isinstance(error, OSError) else None
        kind = os.strerror(number).lower() if number else type(error).__name__
        if kind not in told:
            told.add(kind)
            _log.warning("an error outside any call, told once: %s", kind)

    return tell
