"""A temporary folder that is removed at the end, or by the next recording after a kill.

Whoever uses one holds a lock on a file in it, so that it can be told from one that is left.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

_PREFIX = "rotoscope-ca-"
_LOCK = "lock"
_NEW_S = 60
"""Seconds in which the lock on a folder may be still to come."""


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Have a folder for as long as the block runs, and remove those that killed recordings left. Raises OSError."""
    _take_away_leftovers(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as name, Path(name, _LOCK).open("w") as lock:
        _try_to_lock(lock)
        yield Path(name)


def _take_away_leftovers(folder: Path) -> None:
    for path in folder.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            status = path.lstat()
            is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
            if is_ours and time.time() - status.st_mtime > _NEW_S:
                with (path / _LOCK).open() as lock:
                    if _try_to_lock(lock):
                        shutil.rmtree(path)


def _try_to_lock(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
