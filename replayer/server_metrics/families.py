"""What each engine calls its counts: one function a family, from samples to the one value that all share.

A family is known by the names of its metrics. Names were taken from captured bodies (vLLM 0.32, llama.cpp's server
10434, Dynamo 1.6) and from documentation (SGLang, TensorRT-LLM); older names stand behind newer ones.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import TypeAlias

from rotoscope.replayer.server_metrics.counts import Counter, ServerMetrics, share
from rotoscope.replayer.server_metrics.samples import Samples, read_samples

Adapter: TypeAlias = Callable[[Samples], ServerMetrics]


def read_metrics(text: str) -> ServerMetrics | None:
    """Return the counts that a body of Prometheus text tells, None where no family is recognised.

    Raises NotPrometheus where a line of a family cannot be read.
    """
    samples = read_samples(text, tuple(FAMILIES))
    return next((adapt(samples) for prefix, adapt in FAMILIES.items() if prefix in samples), None)


def vllm(samples: Samples) -> ServerMetrics:
    """Read vLLM's metrics, and the simulator's, which has the same names.

    What a connector finds is told by tier where there are counters by source, else as external only.
    """
    by_tier = samples.counter("vllm:prompt_tokens_cached_by_source")
    elsewhere = samples.counter("vllm:prompt_tokens_cached_by_source", source=("p2p", "disk", "external"))
    block_size = _positive(samples.label("vllm:cache_config_info", "block_size"))
    return ServerMetrics(
        family="vllm",
        prompt=samples.counter("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"),
        cached=samples.counter("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"),
        external_prompt=samples.counter("vllm:external_prefix_cache_queries"),
        host_cached=samples.counter("vllm:prompt_tokens_cached_by_source", source=("host",)),
        external_cached=elsewhere if by_tier else samples.counter("vllm:external_prefix_cache_hits"),
        output_tokens=samples.counter("vllm:generation_tokens"),
        preemptions=samples.counter("vllm:num_preemptions"),
        queue_s=samples.counter("vllm:request_queue_time_seconds_sum"),
        queued_requests=samples.counter("vllm:request_queue_time_seconds_count"),
        prefill_s=samples.counter("vllm:request_prefill_time_seconds_sum"),
        prefilled_requests=samples.counter("vllm:request_prefill_time_seconds_count"),
        kv_usage=samples.highest("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        host_usage=samples.highest("vllm:cpu_cache_usage_perc"),
        running=samples.over_replicas("vllm:num_requests_running"),
        waiting=samples.over_replicas("vllm:num_requests_waiting"),
        block_size=block_size,
        capacity_tokens=_tokens(samples.label("vllm:cache_config_info", "num_gpu_blocks"), block_size),
        replicas=samples.replicas("vllm:num_requests_running"),
    )


def sglang(samples: Samples) -> ServerMetrics:
    """Read SGLang's metrics; its gauge `cache_hit_rate` is that of the last batch and says nothing about a run."""
    everywhere = samples.counter("sglang:cached_tokens")
    host = samples.counter("sglang:cached_tokens", cache_source=("host",))
    elsewhere = samples.counter("sglang:cached_tokens", cache_source=("storage",))
    prompt = samples.counter("sglang:prompt_tokens")
    stages = {"stage": ("prefill_forward",)}
    page_size = _positive(samples.label("sglang:cache_config_info", "page_size"))
    return ServerMetrics(
        family="sglang",
        prompt=prompt,
        # a series appears with its first hit, so none beside prompts means none was found
        cached=_without(everywhere, host, elsewhere) if everywhere else _none_yet(prompt),
        host_cached=host,
        external_cached=elsewhere,
        output_tokens=samples.counter("sglang:generation_tokens"),
        preemptions=samples.counter("sglang:num_retracted_requests"),
        queue_s=samples.counter("sglang:queue_time_seconds_sum"),
        queued_requests=samples.counter("sglang:queue_time_seconds_count"),
        prefill_s=samples.counter("sglang:per_stage_req_latency_seconds_sum", **stages),
        prefilled_requests=samples.counter("sglang:per_stage_req_latency_seconds_count", **stages),
        kv_usage=samples.highest("sglang:token_usage"),
        host_usage=share(
            samples.over_replicas("sglang:hicache_host_used_tokens"),
            samples.over_replicas("sglang:hicache_host_total_tokens"),
        ),
        running=samples.over_replicas("sglang:num_running_reqs"),
        waiting=samples.over_replicas("sglang:num_queue_reqs"),
        block_size=page_size,
        capacity_tokens=_tokens(samples.label("sglang:cache_config_info", "num_pages"), page_size),
        replicas=samples.replicas("sglang:num_running_reqs"),
    )


def tensorrt_llm(samples: Samples) -> ServerMetrics:
    """Read TensorRT-LLM's metrics; without a counter of cached tokens the rate is one of blocks."""
    prompt, cached = samples.counter("trtllm_prompt_tokens"), samples.counter("trtllm_prompt_cached_tokens")
    reused = samples.counter("trtllm_kv_cache_reused_blocks")
    missed = samples.counter("trtllm_kv_cache_missed_blocks")
    in_blocks = cached is None and reused is not None and missed is not None
    if in_blocks and reused is not None and missed is not None:
        prompt, cached = reused.with_those_of(missed), reused
    by_tier = samples.counter("trtllm_prompt_cache_hit_tokens")
    host = samples.counter("trtllm_prompt_cache_hit_tokens", cache_tier=("host",))
    disk = samples.counter("trtllm_prompt_cache_hit_tokens", cache_tier=("disk",))
    if by_tier is not None and not in_blocks:
        cached = _without(by_tier, host, disk)
    return ServerMetrics(
        family="trtllm",
        unit="blocks" if in_blocks else "tokens",
        prompt=prompt,
        cached=cached,
        host_cached=None if in_blocks else host,
        external_cached=None if in_blocks else disk,
        output_tokens=samples.counter("trtllm_generation_tokens"),
        queue_s=samples.counter("trtllm_request_queue_time_seconds_sum"),
        queued_requests=samples.counter("trtllm_request_queue_time_seconds_count"),
        prefill_s=samples.counter("trtllm_request_prefill_time_seconds_sum"),
        prefilled_requests=samples.counter("trtllm_request_prefill_time_seconds_count"),
        kv_usage=samples.highest("trtllm_kv_cache_utilization"),
        host_usage=samples.highest("trtllm_kv_cache_host_utilization"),
        running=samples.over_replicas("trtllm_num_requests_running"),
        waiting=samples.over_replicas("trtllm_num_requests_waiting"),
        max_batch=_positive(samples.over_replicas("trtllm_max_batch_size_runtime", "trtllm_max_batch_size_static")),
        block_size=_positive(samples.highest("trtllm_kv_cache_tokens_per_block")),
        replicas=samples.replicas("trtllm_num_requests_running"),
    )


def dynamo(samples: Samples) -> ServerMetrics:
    """Read the metrics of Dynamo's frontend, whose token counts are the sums of histograms; workers tell theirs apart.

    It sees no batch: its requests in flight are those whose answer has begun and those, called queued, whose has not.
    It tells what the cache of one worker holds, but not how many workers there are.
    """
    in_flight = samples.over_replicas("dynamo_frontend_inflight_requests")
    queued = samples.over_replicas("dynamo_frontend_queued_requests")
    block_size = _positive(samples.highest("dynamo_frontend_model_kv_cache_block_size"))
    return ServerMetrics(
        family="dynamo",
        prompt=samples.counter("dynamo_frontend_input_sequence_tokens_sum"),
        cached=samples.counter("dynamo_frontend_cached_tokens_sum"),
        output_tokens=samples.counter("dynamo_frontend_output_tokens", "dynamo_frontend_output_sequence_tokens_sum"),
        running=None if in_flight is None else max(in_flight - (queued or 0.0), 0.0),
        waiting=queued,
        block_size=block_size,
        capacity_tokens=_tokens(samples.highest("dynamo_frontend_model_total_kv_blocks"), block_size),
    )


def llamacpp(samples: Samples) -> ServerMetrics:
    """Read the metrics of llama.cpp's server, whose prompt tokens leave out the cached ones; older ones tell no cached."""
    computed, cached = samples.counter("llamacpp:prompt_tokens"), samples.counter("llamacpp:prompt_tokens_cached")
    return ServerMetrics(
        family="llama.cpp",
        prompt=computed.with_those_of(cached) if computed and cached else None,
        cached=cached,
        output_tokens=samples.counter("llamacpp:tokens_predicted"),
        prefill_s=samples.counter("llamacpp:prompt_seconds"),
        kv_usage=samples.highest("llamacpp:kv_cache_usage_ratio"),
        running=samples.highest("llamacpp:requests_processing"),
        waiting=samples.highest("llamacpp:requests_deferred"),
        block_size=1,
        replicas=1,
    )


FAMILIES: dict[str, Adapter] = {
    "dynamo_frontend_": dynamo,
    "vllm:": vllm,
    "sglang:": sglang,
    "trtllm_": tensorrt_llm,
    "llamacpp:": llamacpp,
}
"""By how the names of its metrics begin. Dynamo passes on the metrics of the engines behind it, so it comes first."""


def _without(all_series: Counter, *others: Counter | None) -> Counter:
    for other in others:
        all_series = all_series if other is None else all_series.without_those_of(other)
    return all_series


def _none_yet(prompt: Counter | None) -> Counter | None:
    return None if prompt is None else Counter(MappingProxyType({}))


def _tokens(blocks: str | float | None, block_size: int | None) -> int | None:
    number = _positive(blocks)
    return None if number is None or block_size is None else number * block_size


def _positive(value: str | float | None) -> int | None:
    """Return a number of tokens; the label of a block size that is not set is a word."""
    try:
        number = int(value) if value is not None else 0
    except ValueError:
        return None
    return number if number > 0 else None
