"""The clock of a run: monotonic seconds and sleeping, as the event loop has them."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Clock(Protocol):
    """Tell the time and let time pass."""

    def now(self) -> float:
        """Return monotonic seconds."""

    async def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""


class LoopClock:
    """The running event loop's own time, in which its timeouts are counted too."""

    def __init__(self) -> None:
        self.now = asyncio.get_running_loop().time

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
