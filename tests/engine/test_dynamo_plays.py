"""Weka files as agentic Mooncake version 2: Dynamo performs what is written, and as it performs the Weka files themselves.

Tried where `make bench-engine` has installed it. Dynamo's package has nothing that writes the format.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest
from engine.dynamo_replay import BLOCK_SIZE, Json, best, best_share, performed

from rotoscope.traces import Trace
from rotoscope.traces.corpus import Member
from rotoscope.traces.formats.fidelity import Fidelity
from rotoscope.traces.formats.mooncake_plays_writer import write_plays
from rotoscope.traces.formats.recognise import open_trace
from rotoscope.traces.formats.weka_writer import write_trace

NAMES = ("trace_0277", "trace_0028", "trace_0426")
"""The first has sub-agents that join."""


def plays(traces: list[Trace], folder: Path) -> Path:
    path = folder / "plays.jsonl"
    members = [Member(name=str(index), trace=trace) for index, trace in enumerate(traces)]
    path.write_bytes(b"".join(write_plays(members, Fidelity(), block_size=BLOCK_SIZE)))
    return path


def weka(trace: Trace, folder: Path) -> Path:
    """The file as its reader takes it: it says which models there are."""
    path = folder / "weka.json"
    path.write_bytes(write_trace(trace, Fidelity(), block_size=BLOCK_SIZE))
    return path


def said(request: Json) -> tuple[int, int, int]:
    return request["input_length"], request["output_length"], request["reused_input_tokens"]


def by_session(requests: list[Json]) -> Counter[tuple[tuple[int, int, int], ...]]:
    """What Dynamo says of the requests of each session, in their order, without names and times."""
    sessions: dict[str, list[Json]] = defaultdict(list)
    for request in sorted(requests, key=lambda request: request["arrival_time_ms"]):
        sessions[request["session_id"]].append(request)
    return Counter(tuple(map(said, session)) for session in sessions.values())


@pytest.mark.parametrize("name", NAMES)
def test_dynamo_reuses_what_is_best_of_a_weka_file(name: str, tmp_path: Path, data_dir: Path) -> None:
    trace = open_trace(data_dir / "weka" / f"{name}.json")

    summary, requests = performed(plays([trace], tmp_path), "agentic_mooncake")

    calls = list(trace.calls())
    assert summary["completed_requests"] == len(calls)
    assert summary["total_input_tokens"] == sum(call.prompt_tokens for call in calls)
    assert summary["total_output_tokens"] == sum(call.completion_tokens for call in calls)
    assert summary["prefix_cache_reused_ratio"] == pytest.approx(best_share(trace))
    found = sorted((one["input_length"], one["reused_input_tokens"]) for one in requests)
    assert found == sorted(zip((call.prompt_tokens for call in calls), best(trace), strict=True))


def test_dynamo_performs_several_plays_of_one_file(tmp_path: Path, data_dir: Path) -> None:
    traces = [open_trace(data_dir / "weka" / f"{name}.json") for name in NAMES]

    summary, _ = performed(plays(traces, tmp_path), "agentic_mooncake")

    assert summary["total_trajectories"] == len(NAMES)
    assert summary["total_input_tokens"] == sum(call.prompt_tokens for trace in traces for call in trace.calls())


@pytest.mark.parametrize("name", NAMES)
def test_dynamo_performs_the_weka_file_itself_with_the_same_requests_and_reuse(
    name: str, tmp_path: Path, data_dir: Path
) -> None:
    trace = open_trace(data_dir / "weka" / f"{name}.json")

    _, imported = performed(weka(trace, tmp_path), "weka")
    _, requests = performed(plays([trace], tmp_path), "agentic_mooncake")

    assert Counter(map(said, requests)) == Counter(map(said, imported))


def test_sub_agents_are_the_sessions_that_dynamo_finds_in_the_weka_file(tmp_path: Path, data_dir: Path) -> None:
    """Where a prompt of a line begins anew Dynamo's importer makes a session of its own; there is none here."""
    trace = open_trace(data_dir / "weka" / "trace_0277.json")

    _, imported = performed(weka(trace, tmp_path), "weka")
    _, requests = performed(plays([trace], tmp_path), "agentic_mooncake")

    assert len(by_session(requests)) == 5
    assert by_session(requests) == by_session(imported)
