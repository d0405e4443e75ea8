"""Loading what a command needs, at less cost than importing it as it comes.

A replay of a few hundred requests takes about a second of CPU, half of it to load 600 modules. Looking for garbage among
what they leave, while they are loaded, in every large collection of the run and once more at the exit, takes another
tenth; so does the wait of numpy's linear algebra, which nothing here uses, for work for its threads.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

BLAS_THREADS = "OPENBLAS_NUM_THREADS"


@contextmanager
def loading() -> Iterator[None]:
    """Import inside this, in a process that is the command's own: what is alive at its end is never looked at again."""
    os.environ.setdefault(BLAS_THREADS, "1")
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
