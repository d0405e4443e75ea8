from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from foreign_traces import call, fork, join, message, trtllm

from rotoscope.traces import UnusableInput
from rotoscope.traces.analysis.reference import (
    Analyzer,
    ReferenceResult,
    ReferenceSettings,
    analyse_as_reference,
    replay_as_reference,
)
from rotoscope.traces.formats.trtllm import read_trtllm

TRACES = ("matplotlib__matplotlib-23412", "django__django-16801", "django__django-16801+injected_system_prompt_id")
CASES = (
    *("fork_same_conversation", "subagents_shared_template", "rewind_overwrite", "retry_after_pop"),
    *("compaction_new_conversation", "reasoning_dropped", "block_boundary", "parallel_tools_in_one_yield"),
    *("tot_explicit_branch_path", "unknown_system_id", "drop_kv_cache_at_end"),
)


def oracle(data_dir: Path, name: str) -> dict[str, Any]:
    folder = data_dir / "trtllm"
    if name in CASES:
        figures = json.loads((folder / "oracle_synthetic_cases.json").read_bytes())["cases"][name]
    else:
        figures = json.loads((folder / "oracle_cache_hit.json").read_bytes())["traces"][name]
    assert isinstance(figures, dict)
    return figures


def trace(data_dir: Path, name: str) -> bytes:
    folder = data_dir / "trtllm"
    if name in CASES:
        return (folder / "synthetic" / f"{name}.trace.json").read_bytes()
    name, _, injected = name.partition("+")
    raw = json.loads((folder / f"{name}.trace.json").read_bytes())
    if injected:
        raw["events"][0]["system_prompt_id"] = "a template"
    return json.dumps(raw).encode()


def analyse(data: bytes, figures: dict[str, Any]) -> ReferenceResult:
    analyzer: Analyzer = figures["analyzer"]
    return analyse_as_reference(data, analyzer, ReferenceSettings(**figures["settings"]))


@pytest.mark.parametrize("name", [*TRACES, *CASES])
def test_every_figure_of_both_analyzers_is_reproduced(data_dir: Path, name: str) -> None:
    data = trace(data_dir, name)
    results = oracle(data_dir, name)["results"]

    for figures in results:
        if "error" in figures:
            with pytest.raises(UnusableInput) as caught:
                analyse(data, figures)
            assert str(caught.value) == figures["error"]
            continue
        result = analyse(data, figures)
        expected = {key: value for key, value in figures.items() if key not in NOT_TOTALS}
        assert {key: getattr(result, key) for key in expected} == expected
        assert len(result.requests) == figures["requests_count"]
        for request, per_request in zip(result.requests, figures["per_request"], strict=True):
            found = {key: request_figure(key, request, result) for key in per_request}
            assert found == per_request

    assert results


NOT_TOTALS = ("analyzer", "settings", "is_default", "requests_count", "per_request")


def request_figure(key: str, request: Any, result: ReferenceResult) -> object:
    if key == "cacheable_prompt_tokens":
        return request.total_blocks * result.settings.tokens_per_block
    return getattr(request, key)


@pytest.mark.parametrize("name", [*TRACES, *CASES])
def test_the_prompts_of_the_replay_engine_are_reproduced(data_dir: Path, name: str) -> None:
    figures = oracle(data_dir, name)

    replay = replay_as_reference(trace(data_dir, name))

    assert list(replay.prompt_tokens) == figures["replay_engine_prompt_tokens"]
    assert replay.error == figures["replay_engine_error"]


def test_the_known_shares_of_matplotlib_are_system_history_and_fresh(data_dir: Path) -> None:
    result = analyse_as_reference(trace(data_dir, "matplotlib__matplotlib-23412"))

    system = 2827 * len(result.requests)
    assert len(result.requests) == 23
    assert round(100 * system / result.total_prompt_tokens, 1) == 33.8
    assert round(100 * (result.total_hit_tokens - system) / result.total_prompt_tokens, 1) == 63.2
    assert round(100 * (1 - result.token_hit_rate), 2) == 2.99


@pytest.mark.parametrize(("preload", "decode_reuse", "rate"), [(1, 1, 0.97009), (1, 0, 0.9533), (0, 1, 0.9554)])
def test_the_known_hit_rates_of_matplotlib(data_dir: Path, preload: int, decode_reuse: int, rate: float) -> None:
    result = analyse_as_reference(
        trace(data_dir, "matplotlib__matplotlib-23412"),
        settings=ReferenceSettings(decode_kv_reuse=bool(decode_reuse)),
    )

    first_system = 0 if preload else 2827  # only the first request finds nothing when it is not preloaded
    assert (result.total_hit_tokens - first_system) / result.total_prompt_tokens == pytest.approx(rate, abs=2e-5)


def prompts_and_prefixes(data: bytes) -> list[tuple[int, int]]:
    return [(one.prompt_tokens, one.prefix.tokens) for one in read_trtllm(data).calls()]


def reference_prompts_and_hits(data: bytes) -> list[tuple[int, int]]:
    return [(request.prompt_tokens, request.hit_tokens) for request in analyse_as_reference(data).requests]


def test_a_rewind_leaves_the_tail_in_the_references_prompt_though_the_run_had_cut_it(data_dir: Path) -> None:
    data = trace(data_dir, "rewind_overwrite")

    # The last prompt really had 132 tokens: system 64, user 32, answer 16, new user 20.
    assert reference_prompts_and_hits(data)[-1] == (204, 112)
    assert replay_as_reference(data).prompt_tokens[-1] == 204
    assert prompts_and_prefixes(data) == [(96, 64), (160, 112), (224, 184), (132, 112)]


def test_a_retry_has_the_discarded_answer_in_the_references_prompt_though_the_run_had_popped_it(data_dir: Path) -> None:
    data = trace(data_dir, "retry_after_pop")

    # The second prompt was the first one again.
    assert reference_prompts_and_hits(data)[1] == (112, 112)
    assert replay_as_reference(data).prompt_tokens[1] == 112
    assert prompts_and_prefixes(data) == [(96, 64), (96, 96), (124, 114)]


def test_a_fork_starts_from_nothing_in_the_references_replay_though_the_children_had_the_history(
    data_dir: Path,
) -> None:
    data = trace(data_dir, "fork_same_conversation")

    # Both children went on from 170 tokens: prompt 150 and answer 20.
    assert replay_as_reference(data).prompt_tokens == (150, 30, 40, 195)
    assert prompts_and_prefixes(data) == [(150, 100), (200, 170), (210, 170), (195, 170)]


def test_a_path_that_no_fork_announced_stops_the_references_replay_and_not_ours(data_dir: Path) -> None:
    data = trace(data_dir, "tot_explicit_branch_path")

    assert replay_as_reference(data).error == "KeyError: no queue for branch_path [2] (event 4)"
    assert prompts_and_prefixes(data) == [(96, 64), (84, 64)]


@pytest.mark.parametrize("name", ["unknown_system_id", "drop_kv_cache_at_end", "django__django-16801"])
def test_traces_that_the_reference_refuses_are_read(data_dir: Path, name: str) -> None:
    data = trace(data_dir, name)

    with pytest.raises(UnusableInput):
        analyse_as_reference(data)
    assert prompts_and_prefixes(data)


def test_seeded_history_stops_the_references_replay_and_not_ours() -> None:
    data = trtllm(message("user", 0, 5), message("assistant", 1, None), message("user", 2, 5), call(3, 20))

    assert replay_as_reference(data).error == "ValueError: assistant without completion_tokens (event 1)"
    assert prompts_and_prefixes(data) == [(20, 0)]


def test_siblings_with_overlapping_regions_close_each_others_queues_in_the_references_replay_only() -> None:
    inner = message("user", 0, 5, path=[1, 0])
    data = trtllm(fork(2), fork(1, 0), fork(1, 1), join(0), inner, call(1, 5, path=[1, 0]), join(1), join())

    assert replay_as_reference(data).error == "KeyError: no queue for branch_path [1, 0] (event 4)"
    assert prompts_and_prefixes(data) == [(5, 0)]


def test_an_answer_that_is_all_reasoning_shifts_the_references_slots() -> None:
    start = [message("user", 0, 10), call(1, 10, 5, 5), message("tool", 2, 7), call(3, 17, 4)]
    data = trtllm(*start, message("tool", 2, 3), call(3, 13))

    # The run rewound to the tool: user 10, new result 3.
    assert [prompt for prompt, _ in reference_prompts_and_hits(data)] == [10, 17, 20]
    assert replay_as_reference(data).prompt_tokens == (10, 17, 17)
    assert prompts_and_prefixes(data) == [(10, 0), (17, 10), (13, 10)]


def test_a_system_prompt_that_grew_parts_from_its_shorter_render_for_the_reference_too() -> None:
    start = [message("system", 0, 100, system_prompt_id="a"), message("user", 1, 50), call(2, 150, 9)]
    data = trtllm(*start, message("system", 0, 120, system_prompt_id="a"), call(2, 170))

    assert analyse_as_reference(data).requests[1].hit_tokens == 120, "what is preloaded, and no more"


def test_a_branch_has_the_list_of_its_nearest_ancestor_for_the_analyzer() -> None:
    start = [message("user", 0, 10), call(1, 10, 5), fork(1), message("user", 2, 7, path=[0]), call(3, 22, 4, path=[0])]
    data = trtllm(*start, fork(1, 0), message("user", 4, 2, path=[0, 0]), call(5, 28, path=[0, 0]))

    assert reference_prompts_and_hits(data)[-1] == (28, 26)
    assert prompts_and_prefixes(data)[-1] == (28, 26)
