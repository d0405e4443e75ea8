"""Claim: `rotoscope --help` and the help of each command take at most 0.25 s of CPU.

The least of several runs counts, since what else the machine does can only add to it. Exits 1 when the claim does not
hold.

Run: python benchmarks/start.py
"""

from __future__ import annotations

import os
import subprocess
import sys

LIMIT_S = 0.25
RUNS = 5


def cpu_seconds(arguments: list[str]) -> float:
    """Return the processor time, user and system, that one run of the command takes."""
    with subprocess.Popen([sys.executable, "-m", "rotoscope", *arguments], stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"rotoscope {' '.join(arguments)} exited with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def command_names() -> list[str]:
    """Return the names of the commands as the command line knows them."""
    from typer.main import get_command

    from rotoscope.cli import app

    return sorted(getattr(get_command(app), "commands", {}))


def main() -> int:
    slow = 0
    for arguments in [["--version"], ["--help"], *([name, "--help"] for name in command_names())]:
        least = min(cpu_seconds(arguments) for _ in range(RUNS))
        slow += least > LIMIT_S
        print(f"rotoscope {' '.join(arguments):<20} {least:.3f} s CPU (limit {LIMIT_S} s)")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
