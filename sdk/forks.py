"""How often this process was forked off: what had begun before goes on, and ends, in the process that began it."""

from __future__ import annotations

import os

depth = 0
"""Read it as `forks.depth`; asking for the number of the process costs more than a span may."""


def _in_child() -> None:
    global depth
    depth += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
