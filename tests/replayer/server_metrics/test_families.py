from __future__ import annotations

import json
from pathlib import Path

import pytest

from rotoscope.replayer.server_metrics.counts import Counter, ServerMetrics, growth
from rotoscope.replayer.server_metrics.families import read_metrics

FIXTURES = Path(__file__).parents[2] / "data" / "metrics"


def of_file(name: str) -> ServerMetrics:
    return of((FIXTURES / name).read_text())


def of(text: str) -> ServerMetrics:
    metrics = read_metrics(text)
    assert metrics is not None
    return metrics


def total(counter: Counter | None) -> float | None:
    return None if counter is None else counter.total


def test_sglang_tells_hits_by_tier() -> None:
    metrics = of_file("sglang.txt")

    assert metrics.family == "sglang"
    assert (total(metrics.prompt), total(metrics.cached)) == (12000, 7000)
    assert (total(metrics.host_cached), total(metrics.external_cached)) == (1000, 500)
    assert (total(metrics.output_tokens), total(metrics.preemptions)) == (480, 2)
    assert (total(metrics.queue_s), total(metrics.queued_requests)) == (3.0, 12)
    assert (total(metrics.prefill_s), total(metrics.prefilled_requests)) == (0.6, 12)
    assert metrics.host_usage == 0.25
    assert (metrics.kv_usage, metrics.running, metrics.waiting, metrics.block_size) == (0.28, 3, 1, 1)


def test_sglang_without_a_hit_has_no_series_of_hits_yet() -> None:
    before = of('sglang:prompt_tokens_total{model_name="m"} 1000')
    after = of('sglang:prompt_tokens_total{model_name="m"} 3000\nsglang:cached_tokens_total{cache_source="device"} 500')

    assert total(before.cached) == 0
    assert growth(before, after).hit_rate == 0.25


def test_tensorrt_llm_counts_blocks() -> None:
    metrics = of_file("trtllm.txt")

    assert (metrics.family, metrics.unit) == ("trtllm", "blocks")
    assert (total(metrics.prompt), total(metrics.cached)) == (376, 240)
    assert (total(metrics.output_tokens), metrics.preemptions) == (480, None)
    assert (metrics.kv_usage, metrics.running, metrics.waiting, metrics.block_size) == (0.125, 4, 0, 32)


def test_tensorrt_llm_tells_times_its_host_tier_and_the_size_of_its_batch() -> None:
    metrics = of(
        """\
trtllm_prompt_tokens_total 12000
trtllm_prompt_cached_tokens_total 7000
trtllm_prompt_cache_hit_tokens_total{cache_level="0",cache_tier="gpu"} 4000
trtllm_prompt_cache_hit_tokens_total{cache_level="1",cache_tier="host"} 2000
trtllm_prompt_cache_hit_tokens_total{cache_level="2",cache_tier="disk"} 1000
trtllm_request_queue_time_seconds_sum 6.0
trtllm_request_queue_time_seconds_count 12
trtllm_request_prefill_time_seconds_sum 3.0
trtllm_request_prefill_time_seconds_count 12
trtllm_kv_cache_host_utilization 0.5
trtllm_max_batch_size_static 256
trtllm_max_batch_size_runtime 128
"""
    )

    assert (total(metrics.cached), total(metrics.host_cached), total(metrics.external_cached)) == (4000, 2000, 1000)
    assert (total(metrics.queue_s), total(metrics.queued_requests)) == (6.0, 12)
    assert (total(metrics.prefill_s), total(metrics.prefilled_requests)) == (3.0, 12)
    assert (metrics.host_usage, metrics.max_batch) == (0.5, 128)


def test_tensorrt_llm_counts_tokens_where_it_has_a_counter_of_cached_ones() -> None:
    metrics = of((FIXTURES / "trtllm.txt").read_text() + 'trtllm_prompt_cached_tokens_total{model_name="m"} 7680\n')

    assert (metrics.unit, total(metrics.prompt), total(metrics.cached)) == ("tokens", 12000, 7680)


def test_vllm_tells_tokens_and_the_external_tier_apart() -> None:
    metrics = of(
        """\
vllm:prefix_cache_queries_total{engine="0"} 100
vllm:prefix_cache_queries_total{engine="1"} 300
vllm:prefix_cache_hits_total{engine="0"} 80
vllm:prefix_cache_hits_total{engine="1"} 100
vllm:external_prefix_cache_queries_total{engine="0"} 20
vllm:external_prefix_cache_hits_total{engine="0"} 10
vllm:num_preemptions_total{engine="0"} 3
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:kv_cache_usage_perc{engine="1"} 0.75
vllm:num_requests_running{engine="0"} 2
vllm:num_requests_running{engine="1"} 3
vllm:num_requests_waiting{engine="0"} 0
vllm:cache_config_info{block_size="16",engine="0"} 1
"""
    )

    assert (total(metrics.prompt), total(metrics.cached)) == (400, 180)
    assert (total(metrics.external_prompt), total(metrics.external_cached)) == (20, 10)
    assert (total(metrics.preemptions), metrics.kv_usage) == (3, 0.75)
    assert (metrics.running, metrics.waiting, metrics.block_size) == (5, 0, 16)


def test_vllm_tells_host_memory_apart_where_it_counts_by_source() -> None:
    metrics = of(
        """\
vllm:external_prefix_cache_hits_total 60
vllm:prompt_tokens_cached_by_source_total{source="device"} 100
vllm:prompt_tokens_cached_by_source_total{source="host"} 40
vllm:prompt_tokens_cached_by_source_total{source="p2p"} 5
vllm:prompt_tokens_cached_by_source_total{source="disk"} 10
vllm:prompt_tokens_cached_by_source_total{source="external_unspecified"} 5
"""
    )

    assert (total(metrics.host_cached), total(metrics.external_cached)) == (40, 20)


def test_vllm_tells_how_long_requests_were_queued_and_computed() -> None:
    metrics = of(
        """\
vllm:request_queue_time_seconds_bucket{engine="0",le="0.3"} 3
vllm:request_queue_time_seconds_sum{engine="0"} 1.5
vllm:request_queue_time_seconds_count{engine="0"} 3
vllm:request_queue_time_seconds_sum{engine="1"} 0.5
vllm:request_queue_time_seconds_count{engine="1"} 1
vllm:request_prefill_time_seconds_sum{engine="0"} 4.0
vllm:request_prefill_time_seconds_count{engine="0"} 3
"""
    )

    assert (total(metrics.queue_s), total(metrics.queued_requests)) == (2.0, 4)
    assert (total(metrics.prefill_s), total(metrics.prefilled_requests)) == (4.0, 3)


def test_vllm_of_the_first_kind_is_understood() -> None:
    metrics = of("vllm:gpu_prefix_cache_queries_total 100\nvllm:gpu_prefix_cache_hits_total 40\n")

    assert (total(metrics.prompt), total(metrics.cached)) == (100, 40)


def test_llama_cpp_counts_cached_tokens_apart_from_prompt_tokens() -> None:
    metrics = of("llamacpp:prompt_tokens_total 2003\nllamacpp:prompt_tokens_cached_total 1999\n")

    assert (metrics.family, total(metrics.prompt), total(metrics.cached)) == ("llama.cpp", 4002, 1999)


def test_an_old_llama_cpp_tells_no_cached_tokens_and_so_no_prompt_tokens() -> None:
    metrics = of("llamacpp:prompt_tokens_total 2003\nllamacpp:kv_cache_usage_ratio 0.5\n")

    assert (metrics.prompt, metrics.cached, metrics.kv_usage) == (None, None, 0.5)


def test_dynamo_is_recognised_before_the_engine_behind_it() -> None:
    metrics = of(
        """\
vllm:kv_cache_usage_perc 0.5
dynamo_frontend_input_sequence_tokens_sum{model="m"} 4002
dynamo_frontend_input_sequence_tokens_count{model="m"} 3
dynamo_frontend_cached_tokens_sum{model="m"} 1984
dynamo_frontend_model_kv_cache_block_size{model="m"} 16
"""
    )

    assert (metrics.family, total(metrics.prompt), total(metrics.cached)) == ("dynamo", 4002, 1984)
    assert metrics.block_size == 16


def test_a_frontend_of_dynamo_sees_whose_answer_has_begun_and_whose_has_not() -> None:
    metrics = of("dynamo_frontend_inflight_requests 7\ndynamo_frontend_queued_requests 3\n")

    assert (metrics.running, metrics.waiting) == (4, 3)


def test_a_block_size_that_is_not_set_is_unknown() -> None:
    assert of('vllm:cache_config_info{block_size="None"} 1').block_size is None


def test_what_the_cache_of_one_engine_holds_is_told_in_tokens() -> None:
    vllm, dynamo = of_file("vllm-before.txt"), of_file("dynamo-before.txt")
    sglang, trtllm = of_file("sglang.txt"), of_file("trtllm.txt")
    llamacpp = of_file("llamacpp-before.txt")

    assert [(one.capacity_tokens, one.replicas) for one in (vllm, dynamo, sglang, trtllm, llamacpp)] == [
        (512 * 32, 1),
        (1024 * 16, None),
        (4096, 1),
        (None, 1),
        (None, 1),
    ]


def test_engines_behind_one_address_are_replicas() -> None:
    metrics = of('vllm:num_requests_running{engine="0"} 2\nvllm:num_requests_running{engine="1"} 3\n')

    assert (metrics.replicas, metrics.capacity_tokens) == (2, None)


@pytest.mark.parametrize("text", ["", "process_cpu_seconds_total 5", '[{"iterLatencyMS": 3}]', "<html></html>"])
def test_nothing_else_is_recognised(text: str) -> None:
    assert read_metrics(text) is None


@pytest.mark.parametrize("engine", ["vllm", "llamacpp", "dynamo"])
def test_captured_counters_grow_by_what_the_answers_said(engine: str) -> None:
    requests = json.loads((FIXTURES / f"{engine}-requests.json").read_text())
    counted = growth(of_file(f"{engine}-before.txt"), of_file(f"{engine}-after.txt"))

    assert counted.prompt == sum(request["prompt_tokens"] for request in requests)
    assert counted.cached == sum(request["cached_tokens"] for request in requests)
    assert counted.output_tokens == sum(request["completion_tokens"] for request in requests)
    assert not counted.restarted


@pytest.mark.parametrize(("engine", "block_size"), [("vllm", 32), ("llamacpp", 1), ("dynamo", 16)])
def test_captured_gauges_show_the_request_that_decodes(engine: str, block_size: int) -> None:
    during = of_file(f"{engine}-during.txt")

    assert (during.running, during.waiting, during.block_size) == (1, 0, block_size)
    assert (of_file(f"{engine}-after.txt").running) == 0
    assert (during.kv_usage is not None) == (engine == "vllm")


def test_captured_vllm_tells_its_tiers_and_llama_cpp_its_prefill() -> None:
    vllm, llamacpp = of_file("vllm-after.txt"), of_file("llamacpp-after.txt")

    assert (total(vllm.cached), total(vllm.host_cached), total(vllm.external_cached)) == (6944, 0, 0)
    assert total(llamacpp.prefill_s) == 0.285085
    assert llamacpp.prefilled_requests is None
