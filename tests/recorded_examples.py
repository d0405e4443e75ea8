"""An agent of examples/ as a person records it: offline, by the command in its README."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rotoscope.traces import Trace, load

ROOT = Path(__file__).parents[1]
OFFLINE = (sys.executable, "-m", "examples.offline", "--speed", "max", "--")


def recorded(folder: Path, agent: str, *options: str) -> Trace:
    """Record one run of an agent and return its trace."""
    record = ("rotoscope", "record", "-o", str(folder), "--", "python", "-m", f"examples.{agent}", *options)
    done = subprocess.run((*OFFLINE, *record), cwd=ROOT, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return load(folder / "run-0001.trace.json")
