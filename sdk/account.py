"""What was lost, told in one line as the process ends; nothing is told where nothing was."""

from __future__ import annotations

import atexit
import logging
import sys
from collections.abc import Callable

from rotoscope.sdk import forks

_log = logging.getLogger(__name__)

_numbers: dict[str, Callable[[], int]] = {}
_is_registered = False
_finalized: set[int] = set()
"""The forks, by their depth, that are processes of `multiprocessing` and have been registered."""


def count_at_exit(what: str, number: Callable[[], int]) -> None:
    """Tell how many there are of something that there should be none of, such as `spans that were lost`."""
    _numbers[what] = number
    _register()


def account() -> str:
    """Return the line; empty where there is nothing to tell."""
    counted = [(what, number()) for what, number in _numbers.items()]
    return "; ".join(f"{what}: {number}" for what, number in counted if number)


def _tell() -> None:
    if line := account():
        _log.warning("as the process ends: %s", line)


def _register() -> None:
    """Be called as the process ends, which processes of `multiprocessing` do in a way of their own."""
    global _is_registered
    if not _is_registered:
        _is_registered = True
        atexit.register(_tell)
    multiprocessing = sys.modules.get("multiprocessing.process")
    if multiprocessing is not None and multiprocessing.parent_process() is not None and forks.depth not in _finalized:
        _finalized.add(forks.depth)
        from multiprocessing.util import Finalize

        Finalize(None, _tell, exitpriority=0)
