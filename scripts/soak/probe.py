"""`rotoscope` as it is, with a signal handler beside it: SIGUSR1 appends to a file what only the process itself can count.

python -m scripts.soak.probe FILE proxy --upstream ...
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from types import FrameType

from rotoscope.cli import main


def watch(path: str) -> None:
    """Let the signal append a line with tasks and allocated blocks."""

    def tell(_: int, __: FrameType | None) -> None:
        try:
            tasks = len(asyncio.all_tasks())
        except RuntimeError:
            tasks = 0
        gc.collect()
        line = json.dumps([tasks, sys.getallocatedblocks()]) + "\n"
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, line.encode())
        os.close(file)

    signal.signal(signal.SIGUSR1, tell)


if __name__ == "__main__":
    watch(sys.argv[1])
    sys.argv = ["rotoscope", *sys.argv[2:]]
    main()
