"""Run a command and measure what it and all its descendants take: processor time, memory, time. Linux only.

Memory is the proportional set size (PSS): pages that several processes share are counted once between them. The highest
sum over all descendants of the samples is kept; sampling takes at most a twentieth of the time, since the kernel walks
page tables for it. Processor time is that of the command and of whatever it started, orphans too, which this process
adopts.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SET_CHILD_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2)."""
_SHORTEST_INTERVAL_S = 0.05
_SHARE_OF_SAMPLING = 20


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command took."""

    exit_code: int
    started_s: float
    """Monotonic."""
    wall_s: float
    cpu_s: float
    """User and system, of all processes."""
    peak_mib: float
    """Highest sum of PSS."""
    processes: int
    """Most at one time."""


def measure(
    command: Sequence[str],
    *,
    log: Path,
    cwd: Path,
    environment: Mapping[str, str],
    spare: Sequence[int] = (),
    longest_s: float = 900.0,
) -> Cost:
    """Run a command to its end with its output in a file; what still runs after `longest_s` is killed.

    `spare` are other children of this process.
    """
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with log.open("wb") as output:
        started_s = time.monotonic()
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=cwd, env=environment)
        cpu_s, peak, most, status = 0.0, 0, 0, 0
        while tree := _descendants(os.getpid(), spare):
            began_s = time.monotonic()
            peak, most = max(peak, sum(map(_pss_bytes, tree))), max(most, len(tree))
            time.sleep(max(_SHORTEST_INTERVAL_S, _SHARE_OF_SAMPLING * (time.monotonic() - began_s)))
            if time.monotonic() - started_s > longest_s:
                _kill(tree)
            for pid in [pid for pid in _children(os.getpid()) if pid not in spare]:
                ended, code, usage = os.wait4(pid, os.WNOHANG)
                if ended:
                    cpu_s += usage.ru_utime + usage.ru_stime
                    status = code if pid == process.pid else status
    wall_s = time.monotonic() - started_s
    process.returncode = os.waitstatus_to_exitcode(status)
    return Cost(process.returncode, started_s, wall_s, cpu_s, peak / 2**20, most)


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _descendants(root: int, spare: Sequence[int]) -> list[int]:
    found = [pid for pid in _children(root) if pid not in spare]
    for pid in found:
        found += _children(pid)
    return found


def _children(pid: int) -> list[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        return [
            int(child)
            for thread in threads
            for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split()
        ]
    except OSError:
        return []  # it has ended


def _pss_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0  # it has ended
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
