"""What was lost, told as the process ends: to the gateway where there is one, else in one line; nothing where nothing was.

The line goes to the logger, and where the program has set up no logging to standard error, by Python's last resort.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping

from rotoscope.recorder.losses import Loss, phrased
from rotoscope.sdk import forks

_log = logging.getLogger(__name__)

_numbers: dict[Loss, Callable[[], int]] = {}
_told: Counter[Loss] = Counter()
"""What somebody else tells the person who records."""
_is_registered = False
_finalized: set[int] = set()
"""The forks, by their depth, that are processes of `multiprocessing` and have been registered."""


def count_at_exit(loss: Loss, number: Callable[[], int]) -> None:
    """Tell how many there are of something that there should be none of."""
    _numbers[loss] = number
    _register()


def untold() -> dict[Loss, int]:
    """Return what there is to tell, and nobody else tells."""
    counted = {loss: number() - _told[loss] for loss, number in list(_numbers.items())}
    return {loss: number for loss, number in counted.items() if number > 0}


def has_told(losses: Mapping[Loss, int]) -> None:
    """Leave some of it to somebody else, who has been told."""
    _told.update(losses)


def warn(line: str, *words: object) -> None:
    """Tell the person who runs the agent that something is lost, be logging set up or not; never more than a few lines."""
    _log.warning(line, *words)
    if logging.lastResort is not None and _log.isEnabledFor(logging.WARNING) and not _is_handled():
        record = logging.LogRecord(_log.name, logging.WARNING, __file__, 0, f"rotoscope: {line}", words, None)
        with contextlib.suppress(Exception):  # whatever standard error is by now
            logging.lastResort.handle(record)


def _is_handled() -> bool:
    """Tell whether a handler takes what is logged, other than that of a library that has no say in it."""
    logger: logging.Logger | None = _log
    while logger is not None:
        if any(not isinstance(handler, logging.NullHandler) for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False


def _tell() -> None:
    """Tell what is still to be told, once: from Python 3.13 on processes of `multiprocessing` end in both ways."""
    if lost := untold():
        has_told(lost)
        warn("as the process ends: %s", phrased(lost))


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


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_told.clear)
