"""One thing at a time, whichever thread does it: a recorder is not made for more.

What comes up in the midst of another thing in the same thread, as when the garbage collector closes a response there, is
done behind it. A process that is forked begins anew, as whoever was at it is not there.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Turns:
    """Lets things be done one after another."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._whose = 0
        self._put_off: deque[Callable[[], object]] = deque()
        _all.add(self)

    def take(self, act: Callable[[], T], *, otherwise: T) -> T:
        """Do something when it is its turn and return what comes of it; `otherwise` where it has to be done later."""
        me = threading.get_ident()
        if self._whose == me:
            self._put_off.append(act)
            return otherwise
        with self._lock:
            self._whose = me
            try:
                return act()
            finally:
                try:
                    while self._put_off:
                        self._put_off.popleft()()
                finally:
                    self._whose = 0

    def begin_anew(self) -> None:
        """Forget who is at it, in a process that was forked."""
        self._lock = threading.Lock()
        self._whose = 0
        self._put_off.clear()


_all: weakref.WeakSet[Turns] = weakref.WeakSet()


def _begin_all_anew() -> None:
    for turns in list(_all):
        turns.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all_anew)
