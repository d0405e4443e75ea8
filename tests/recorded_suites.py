"""Several runs of an agent of examples/, recorded by one `rotoscope record` in front of its scripted model."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rotoscope_process import Ended, ended, rotoscope

from examples.scripted_model import answer
from rotoscope.replayer.simulator.model import ScriptedModel
from rotoscope.replayer.simulator.server import SimulatorOptions, running_simulator
from rotoscope.traces import Trace, load


def record_suite(agent: str, runs: Sequence[int], folder: Path, *options: str) -> list[Trace]:
    """Record runs of an agent, two at once, and return their traces; the number of a run is its task and its seed."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "runs.txt").write_text("".join(f"{run}\n" for run in runs))
    done = asyncio.run(_record((sys.executable, "-m", f"examples.{agent}", *options), folder))
    assert done.status == 0, done.err
    told = map(json.loads, (folder / "names.jsonl").read_text().splitlines())
    files = {int(line["run"]): line["trace"] for line in told}
    return [load(folder / "traces" / files[number]) for number in range(1, len(runs) + 1)]


async def _record(command: Sequence[str], folder: Path) -> Ended:
    options = ("--measure", "--each", str(folder / "runs.txt"), "--jobs", "2")
    files = ("--names", str(folder / "names.jsonl"), "-o", str(folder / "traces"))
    async with (
        running_simulator(SimulatorOptions(port=0, speed=0), ScriptedModel(answer)) as url,
        rotoscope(
            *("record", "--upstream", f"{url}/v1", *options, *files),
            *("--", *command, "--task", "{}", "--seed", "{}"),
        ) as process,
    ):
        return await ended(process)
