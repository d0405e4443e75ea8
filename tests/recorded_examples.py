"""An agent of examples/ as a person records it: by the command in its README that runs it offline, recorded."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from rotoscope.traces import Trace, load

ROOT = Path(__file__).parents[1]


def recorded(folder: Path, agent: str, *options: str) -> Trace:
    """Record one run of an agent and return its trace."""
    before, behind = offline_command(agent)
    before[before.index("--") :] = ["--speed", "max", "--"]
    command = [*before, "rotoscope", "record", "-o", str(folder), "--", *behind, *options]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=120, env={**os.environ, "PATH": path}
    )
    assert done.returncode == 0, done.stderr
    return load(folder / "run-0001.trace.json")


def offline_command(agent: str) -> tuple[list[str], list[str]]:
    """Return the command in an agent's README, up to and with the dashes, and behind them, without its options."""
    readme = (ROOT / "examples" / agent / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^(python -m examples\.offline .*?-- )(python -m examples\.\w+)", readme, re.MULTILINE)
    assert found, f"the README of {agent} has no command that runs it offline"
    return shlex.split(found[1]), shlex.split(found[2])
