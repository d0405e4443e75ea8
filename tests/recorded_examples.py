"""The agents of examples/ as a person records them: by the commands in their READMEs that run them offline, recorded."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rotoscope.traces import Trace, load

ROOT = Path(__file__).parents[1]


def recorded(folder: Path, runs: Mapping[str, Sequence[str]]) -> dict[str, Trace]:
    """Record one run of each agent with its options, all in front of one scripted model; traces go to the folder."""
    (before,) = {offline_command(agent)[0] for agent in runs}
    lines = [shlex.join([*shlex.split(offline_command(agent)[1]), *options]) for agent, options in runs.items()]
    (folder / "runs.txt").write_text("\n".join(lines))
    record = ["rotoscope", "record", "--jobs", "2", "--each", str(folder / "runs.txt"), "-o", str(folder / "traces")]
    command = [*shlex.split(before), "--speed", "max", "--", *record, "--names", str(folder / "names.jsonl")]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(
        [*command, "--", "sh", "-c", "exec {}"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 0, done.stderr
    told = map(json.loads, (folder / "names.jsonl").read_text().splitlines())
    files = {int(line["run"]): line["trace"] for line in told}
    return {agent: load(folder / "traces" / files[number]) for number, agent in enumerate(runs, 1)}


def offline_command(agent: str) -> tuple[str, str]:
    """Return the command in an agent's README that runs it offline, up to the dashes and behind them, without options."""
    readme = (ROOT / "examples" / agent / "README.md").read_text(encoding="utf-8")
    found = re.search(r"^(python -m examples\.offline) .*?-- (python -m examples\.\w+)", readme, re.MULTILINE)
    assert found, f"the README of {agent} has no command that runs it offline"
    return found[1], found[2]
