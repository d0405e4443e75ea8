"""AIPerf takes what `rotoscope convert` writes, and its hit rate without limit is ours under its definition.

For Weka files that is found full blocks / full blocks, over all requests, with a cache a file; for Mooncake rows the mean
over requests of found blocks / blocks, with one cache for all. Prompts are the only donors in both: outputs have no
block ids.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rotoscope.traces.analysis.hit_rates import HIT_RATES, RequestHit, request_hits
from rotoscope.traces.analysis.optimum import Assumptions
from rotoscope.traces.formats.convert import Target, convert
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.recognise import LabelledTrace, open_traces
from rotoscope.traces.formats.registry import format_named

LOADERS = Path(__file__).with_name("loaders.py")
TENTH_OF_A_POINT = 0.001
ONLY_PROMPTS = Assumptions(decode_reuse=False, preload=False)
WEKA_BLOCK, MOONCAKE_BLOCK = 64, 512


@dataclass(frozen=True, slots=True)
class Source:
    """Files of the reference data, and the Mooncake dialect that can hold them."""

    files: str
    dialect: str
    together: bool = False
    """Whether all its sessions share one cache."""


SOURCES = {
    "Weka": Source("weka/trace_*.json", "mooncake"),
    "TensorRT-LLM": Source("trtllm/*.trace.json", "mooncake-sessions"),
    "Mooncake conversation": Source("mooncake/conversation_trace.jsonl", "mooncake", together=True),
    "Mooncake synthetic": Source("mooncake/synthetic_trace.jsonl", "mooncake", together=True),
}


def opened(source: Source, data: Path) -> list[LabelledTrace]:
    files = sorted(data.glob(source.files))
    assert files
    return open_traces(files)


def written(traces: Sequence[LabelledTrace], to: str, out: Path) -> Path:
    convert(traces, Target(path=str(out), format=format_named(to)), Fidelity())
    return out


def aiperf_on(kind: str, python: Path, path: Path) -> dict[str, Any]:
    """Return what AIPerf says of files; fail with its error where it refuses them."""
    done = subprocess.run([str(python), str(LOADERS), kind, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def our_rate(name: str, caches: Sequence[Sequence[RequestHit]]) -> float:
    return next(rate for rate in HIT_RATES if rate.name == name).of(caches)


def caches_of(traces: Sequence[LabelledTrace], block_size: int, *, together: bool) -> list[list[RequestHit]]:
    members = [trace.member for trace in traces]
    groups = [members] if together else [[member] for member in members]
    return [request_hits(group, block_size, ONLY_PROMPTS) for group in groups]


@pytest.mark.parametrize("name", SOURCES)
def test_aiperf_loads_our_weka_files_and_finds_our_hit_rate(
    name: str, data_dir: Path, aiperf_python: Path, tmp_path: Path
) -> None:
    traces = opened(SOURCES[name], data_dir)
    calls = sum(1 for trace in traces for _ in trace.trace.calls())

    told = aiperf_on("weka", aiperf_python, written(traces, "weka", tmp_path / "out"))

    theirs = sum(told["hits"]) / sum(told["blocks"])
    ours = our_rate("full-block", caches_of(traces, WEKA_BLOCK, together=False))
    print(f"\n{name} as Weka: {told['requests']} requests, AIPerf {theirs:.5f}, ours {ours:.5f}")
    assert (told["sessions"], told["requests"]) == (len(traces), calls)
    assert abs(theirs - ours) <= TENTH_OF_A_POINT


@pytest.mark.parametrize("name", SOURCES)
def test_aiperf_loads_our_mooncake_rows_and_finds_our_hit_rate(
    name: str, data_dir: Path, aiperf_python: Path, tmp_path: Path
) -> None:
    source = SOURCES[name]
    traces = opened(source, data_dir)
    calls = sum(1 for trace in traces for _ in trace.trace.calls())

    told = aiperf_on("mooncake", aiperf_python, written(traces, source.dialect, tmp_path / "out.jsonl"))

    theirs = told["hit_rate"]
    ours = our_rate("request-mean block", caches_of(traces, MOONCAKE_BLOCK, together=source.together))
    print(f"\n{name} as {source.dialect}: {told['requests']} requests, AIPerf {theirs:.5f}, ours {ours:.5f}")
    assert (told["requests"], told["loaded"]) == (calls, calls)
    assert abs(theirs - ours) <= TENTH_OF_A_POINT


@pytest.mark.parametrize("name", SOURCES)
def test_aiperf_would_send_our_sessions_with_the_prompts_that_they_had(
    name: str, data_dir: Path, aiperf_python: Path, tmp_path: Path
) -> None:
    traces = opened(SOURCES[name], data_dir)
    prompts = [call.prompt_tokens for trace in traces for call in trace.trace.calls()]

    told = aiperf_on("mooncake", aiperf_python, written(traces, "mooncake-delta", tmp_path / "out.jsonl"))

    print(f"\n{name} as mooncake-delta: {len(prompts)} calls in {told['sessions']} sessions of {len(traces)} traces")
    assert told["loaded"] == len(prompts)
    assert told["prompt_tokens"] == sum(prompts)
