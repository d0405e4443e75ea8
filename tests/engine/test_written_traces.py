"""Programs that read what is converted take it, and reuse what this program says they can.

Dynamo's own replay performs a request trace on a simulated engine that forgets nothing. Tried where `make bench-engine` has
installed it.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from rotoscope.testing import make_trace
from rotoscope.traces import Trace
from rotoscope.traces.analysis.optimum import Assumptions, planned_hits
from rotoscope.traces.analysis.profiles import profile_named
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.dynamo_writer import write_corpus
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.recognise import open_trace

DYNAMO = Path(__file__).parents[2] / ".venv-dynamo" / "bin" / "python"
BLOCK_SIZE = 64
REPLAY = """
import json, sys
from dynamo.replay import run_trace_replay
engine = {"engine": {"block_size": 64, "num_gpu_blocks": 100000}}
report = run_trace_replay(
    [sys.argv[1]], trace_format="dynamo", trace_block_size=64, execution_model="any", extra_engine_args=json.dumps(engine)
)
print(json.dumps({name: report.summary[name] for name in (
    "completed_requests", "total_input_tokens", "total_output_tokens", "prefix_cache_reused_ratio", "total_trajectories",
)}))
"""


def replayed_by_dynamo(traces: list[Trace], folder: Path) -> dict[str, float]:
    if not DYNAMO.exists():
        pytest.skip(f"{DYNAMO} is not installed; `make bench-engine` installs it")
    members = [Member(name=str(index), trace=trace) for index, trace in enumerate(traces)]
    path = folder / "trace.jsonl"
    path.write_bytes(b"".join(write_corpus(members, Fidelity(), block_size=BLOCK_SIZE)))
    done = subprocess.run([DYNAMO, "-c", REPLAY, path], capture_output=True, text=True, check=True, timeout=120)
    summary: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return summary


def best(trace: Trace) -> float:
    """The optimal share of input that is reused, in whole blocks and without outputs."""
    profile = profile_named("dynamo-mocker", block_size=BLOCK_SIZE)
    hits = planned_hits(trace, Assumptions(profile=profile, preload=False))
    return sum(hits) / sum(call.prompt_tokens for call in trace.calls())


def test_dynamo_performs_a_session_and_reuses_what_is_best(tmp_path: Path) -> None:
    trace = make_trace(turns=6, isl=900, system=640, osl=100, new=333, tool_ms=2000.0, call_ms=1500.0)

    found = replayed_by_dynamo([trace], tmp_path)

    assert (found["completed_requests"], found["total_trajectories"]) == (6, 1)
    assert found["total_input_tokens"] == sum(call.prompt_tokens for call in trace.calls())
    assert found["prefix_cache_reused_ratio"] == pytest.approx(best(trace))


def test_dynamo_performs_a_session_with_sub_agents(tmp_path: Path, data_dir: Path) -> None:
    trace = open_trace(data_dir / "weka" / "trace_0277.json")

    found = replayed_by_dynamo([trace], tmp_path)

    assert found["completed_requests"] == len(list(trace.calls()))
    assert found["total_output_tokens"] == sum(call.completion_tokens for call in trace.calls())
    assert found["prefix_cache_reused_ratio"] == pytest.approx(best(trace))
