"""Dynamo's own replay, in the environment that `make bench-engine` makes: files it performs, and what it reports."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from rotoscope.traces.analysis.optimum import Assumptions, planned_hits
from rotoscope.traces.analysis.profiles import profile_named
from rotoscope.traces.model import Trace

Json: TypeAlias = dict[str, Any]

ROOT = Path(__file__).parents[2]
DYNAMO = ROOT / ".venv-dynamo" / "bin" / "python"
BLOCK_SIZE = 64
_REPLAY = """
import json, sys
from dynamo.replay import run_trace_replay
path, trace_format, *sized = sys.argv[1:]
engine = {"engine": {"block_size": 64, "num_gpu_blocks": 100000}}
report = run_trace_replay(
    [path], trace_format=trace_format, trace_block_size=int(sized[0]) if sized else None, execution_model="any",
    extra_engine_args=json.dumps(engine), capture_per_request=True,
)
print(json.dumps({"summary": report.summary, "requests": report.per_request}))
"""


def skip_without_dynamo() -> None:
    if not DYNAMO.exists():
        pytest.skip(f"{DYNAMO} is not installed; `make bench-engine` installs it")


def performed(path: Path, trace_format: str) -> tuple[Json, list[Json]]:
    """Return the summary of a replay of a file, and what it says of each request."""
    skip_without_dynamo()
    size = () if trace_format == "weka" else (str(BLOCK_SIZE),)
    command = [DYNAMO, "-c", _REPLAY, path, trace_format, *size]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found: Json = json.loads(done.stdout.splitlines()[-1])
    return found["summary"], found["requests"]


def best(trace: Trace) -> list[int]:
    """Return the tokens of each prompt that can be reused, in whole blocks and without outputs."""
    profile = profile_named("dynamo-mocker", block_size=BLOCK_SIZE)
    return planned_hits(trace, Assumptions(profile=profile, preload=False))


def best_share(trace: Trace) -> float:
    """Return the share of all input that can be reused."""
    return sum(best(trace)) / sum(call.prompt_tokens for call in trace.calls())
