from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from rotoscope.traces import Forest, Trace, dumps, loads, normalise, validate
from rotoscope.traces.analysis.optimum import Assumptions, planned_hits
from rotoscope.traces.formats.recognise import open_trace
from rotoscope.traces.formats.weka_requests import parse_weka
from rotoscope.traces.formats.weka_schedule import Schedule

WEKA = ("0028", "0057", "0091", "0142", "0187", "0192", "0233", "0277", "0291", "0326", "0426", "0707")
SYNTHETIC = (
    *("block_boundary", "compaction_new_conversation", "drop_kv_cache_at_end", "fork_same_conversation"),
    *("parallel_tools_in_one_yield", "reasoning_dropped", "retry_after_pop", "rewind_overwrite"),
    *("subagents_shared_template", "tot_explicit_branch_path", "unknown_system_id", "canary_full_shape.full"),
)
FILES = (
    *(f"weka/trace_{number}.json" for number in WEKA),
    *(f"trtllm/{name}.trace.json" for name in ("matplotlib__matplotlib-23412", "django__django-16801")),
    *(f"trtllm/synthetic/{name}.trace.json" for name in SYNTHETIC),
)


def test_every_trace_of_the_data_is_here(data_dir: Path) -> None:
    found = {str(path.relative_to(data_dir)) for path in data_dir.glob("*/**/*.json")}

    assert {name for name in found if "oracle" not in name and "canaries" not in name} == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_a_trace_keeps_the_rules_of_the_model_and_survives_its_own_file(data_dir: Path, name: str) -> None:
    trace = open_trace(data_dir / name)

    validate(trace)
    assert normalise(trace) == trace
    assert loads(dumps(trace)) == trace
    assert [call.call for call in trace.calls()] == list(range(len(list(trace.calls()))))


@pytest.mark.parametrize("name", FILES)
def test_a_prefix_is_the_longest_that_the_forest_knows(data_dir: Path, name: str) -> None:
    trace = open_trace(data_dir / name)
    forest, calls = Forest.of_trace(trace), list(trace.calls())

    for call in calls:
        earlier = [other.call for other in calls[: call.call] if other.domain == call.domain]
        nodes: list[int | str] = [*(shared.id for shared in trace.shared_prefixes), *earlier]
        longest = max((min(forest.common_prefix(call.call, node), call.prompt_tokens) for node in nodes), default=0)
        assert call.prefix.tokens == longest


@pytest.mark.parametrize("name", FILES)
def test_the_planned_optimum_is_the_best_donor_by_brute_force(data_dir: Path, name: str) -> None:
    trace = open_trace(data_dir / name)

    assert planned_hits(trace) == best_donors(trace, decode_reuse=True)
    assert planned_hits(trace, Assumptions(decode_reuse=False)) == best_donors(trace, decode_reuse=False)


def best_donors(trace: Trace, *, decode_reuse: bool) -> list[int]:
    forest, calls = Forest.of_trace(trace), list(trace.calls())
    hits = []
    for call in calls:
        preloaded = [forest.common_prefix(call.call, shared.id) for shared in trace.shared_prefixes]
        donors = [
            min(forest.common_prefix(call.call, x.call), x.stream_tokens if decode_reuse else x.prompt_tokens)
            for x in calls[: call.call]
            if x.domain == call.domain
        ]
        hits.append(min(max([0, *preloaded, *donors]), call.prompt_tokens))
    return hits


@pytest.mark.parametrize("number", WEKA)
def test_common_prefixes_of_all_pairs_are_those_of_the_block_ids(data_dir: Path, number: str) -> None:
    path = data_dir / "weka" / f"trace_{number}.json"
    sent = Schedule.of(parse_weka(path.read_bytes())).calls()
    models = [one["model"] for one in in_numbered_order(path)]
    forest = Forest.of_trace(open_trace(path))

    assert [one.request.model for one in sent] == models
    ids = [np.array(one["hash_ids"]) for one in in_numbered_order(path)]
    for a, b in combinations(range(len(ids)), 2):
        blocks = common_blocks(ids[a], ids[b]) if models[a] == models[b] else 0
        assert forest.common_prefix(a, b) == 64 * blocks


def in_numbered_order(path: Path) -> list[dict[str, object]]:
    """Return the requests of a file in the order of the calls, told from length and time, without the reader."""
    raw = json.loads(path.read_bytes())["requests"]
    timed = []
    for entry in raw:
        if entry["type"] == "subagent":
            start = entry["t"] - entry["duration_ms"] / 1000
            timed += [(start + inner["t"], inner) for inner in entry["requests"]]
        else:
            timed.append((entry["t"], entry))
    return [entry for _, entry in sorted(timed, key=lambda item: item[0])]


def common_blocks(a: np.ndarray, b: np.ndarray) -> int:
    length = min(len(a), len(b))
    different = np.flatnonzero(a[:length] != b[:length])
    return int(different[0]) if len(different) else length
