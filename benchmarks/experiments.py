"""Repeat the experiments of agentic serving on real engines: where hits go as more agents run at once, and who helps.

    make bench-experiments

Each is one `rotoscope sweep`, whose command is printed: agents of six turns that begin at 1,000 tokens and grow by 300 a
turn, four for each place, with no time between turns. A server with a cache of 16,384 tokens holds six and a half of
them. Tables and pictures are in the folder, results/NAME if not given; one that was broken off goes on.

vllm-cliff      vLLM on the processor, 512 blocks of 32 tokens
llama-cliff     llama-server with four slots of 4,096 tokens and 0, 8, 16 or 64 MiB of host memory behind them
mocker-routers  two mocked workers of Dynamo, 512 blocks of 16 tokens each, behind its round-robin and its KV router

Servers have the lowest priority, so that the client is not late where both share few cores.
The engines are those of `make bench-engine`, in environments of their own; one that is not installed is left out. The
models are random and tiny.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.llama_server import PROGRAM
from engine.tiny_model import write_tiny_model
from engine.tiny_model_folder import write_tiny_model_folder

from rotoscope.testing import make_trace
from rotoscope.traces import save

BUILT = Path("build/engine")
SIX_TURNS = make_trace(turns=6, isl=1000, osl=8, new=292, system=0, tool_ms=0)
SESSIONS_PER_USER = 4


@dataclass(frozen=True)
class Experiment:
    """A sweep over a server."""

    program: Path
    server: str
    """The server's command, with a place for the program."""
    concurrency: Sequence[int]
    options: Sequence[str]


def experiments(*, vllm: Path, dynamo: Path) -> dict[str, Experiment]:
    """Return all, by name; `vllm` and `dynamo` are virtual environments, llama-server is sought in this one."""
    llama_server = Path(sysconfig.get_path("scripts")) / PROGRAM
    return {
        "vllm-cliff": Experiment(
            vllm / "bin" / "python",
            "benchmarks/servers/vllm_cpu.sh {program} build/engine/tiny-hf {{port}}",
            (2, 4, 6, 8, 10, 12, 16, 24),
            ("--profile", "vllm", "--block-size", "32", "--gpus", "1"),
        ),
        "llama-cliff": Experiment(
            llama_server,
            "benchmarks/servers/lowest_priority.sh {program} -m build/engine/tiny.gguf --host 127.0.0.1 --port {{port}} "
            "-t 1 -np 4 -c 16384 --no-kv-unified --cache-ram {{cache_ram}} --metrics --no-ui",
            (2, 4, 6, 8, 10, 12, 16, 24),
            ("--profile", "llama.cpp", "--gpus", "1", "--set", "cache_ram=0,8,16,64"),
        ),
        "mocker-routers": Experiment(
            dynamo / "bin" / "python",
            "benchmarks/servers/dynamo_mockers.sh {program} build/engine/tiny-hf {{port}} {{router}}",
            (2, 4, 6, 8, 12, 16),
            (
                *("--profile", "dynamo-mocker", "--block-size", "16", "--gpus", "2", "--vocab", "1000:30000"),
                *("--set", "router=round-robin,kv"),
            ),
        ),
    }


def main() -> int:
    """Prepare what is needed and run the sweeps."""
    arguments = parse()
    trace = prepared()
    worst = 0
    for name, experiment in experiments(vllm=arguments.vllm, dynamo=arguments.dynamo).items():
        if arguments.names and name not in arguments.names:
            continue
        if not experiment.program.exists():
            print(f"{name}: left out, there is no {experiment.program}", file=sys.stderr)
            continue
        command = command_of(experiment, trace=trace, folder=Path("results") / name)
        print(shlex.join(["rotoscope", *command]), file=sys.stderr)
        worst = max(worst, subprocess.run([sys.executable, "-m", "rotoscope", *command], check=False).returncode)
    return worst


def parse() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="vllm-cliff, llama-cliff, mocker-routers; all if none is named")
    parser.add_argument("--vllm", type=Path, default=Path(".venv-vllm"))
    parser.add_argument("--dynamo", type=Path, default=Path(".venv-dynamo"))
    return parser.parse_args()


def prepared() -> Path:
    """Write the models, if they are not there, and the trace, and return the trace's path."""
    BUILT.mkdir(parents=True, exist_ok=True)
    for name, write in (("tiny.gguf", write_tiny_model), ("tiny-hf", write_tiny_model_folder)):
        path, unfinished = BUILT / name, BUILT / f"{name}.part"
        if not path.exists():
            write(unfinished)
            unfinished.rename(path)
    trace = BUILT / "six_turns.trace.json"
    save(SIX_TURNS, trace)
    return trace


def command_of(experiment: Experiment, *, trace: Path, folder: Path) -> list[str]:
    """Return the arguments of `rotoscope`."""
    return [
        *("sweep", str(trace), "-o", str(folder)),
        *("--concurrency", ",".join(map(str, experiment.concurrency)), "--sessions-per-user", str(SESSIONS_PER_USER)),
        *("--server-command", experiment.server.format(program=experiment.program)),
        *experiment.options,
    ]


if __name__ == "__main__":
    sys.exit(main())
