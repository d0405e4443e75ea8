"""The simulator's counters as Prometheus text, under the names that vLLM gives them. Times are modelled seconds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rotoscope.replayer.simulator.scheduler import Generation, Scheduler

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_BOUNDS_S = (
    0.001,
    0.005,
    0.01,
    0.02,
    0.04,
    0.06,
    0.08,
    0.1,
    0.25,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
    20.0,
    40.0,
    80.0,
)


@dataclass(slots=True)
class Histogram:
    """Counts of seconds in buckets, as Prometheus keeps them."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(_BOUNDS_S) + 1))
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(_BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    def add_all(self, seconds: NDArray[np.float64]) -> None:
        """Count many observations."""
        places = np.bincount(np.searchsorted(_BOUNDS_S, seconds), minlength=len(self.counts))
        self.counts = [count + more for count, more in zip(self.counts, places.tolist(), strict=True)]
        self.sum_s += float(seconds.sum())

    def samples(self, name: str, labels: str) -> Iterator[str]:
        """Return the lines of this histogram."""
        total = 0
        for bound, count in zip((*map(str, _BOUNDS_S), "+Inf"), self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {total}'
        yield f"{name}_count{{{labels}}} {total}"
        yield f"{name}_sum{{{labels}}} {self.sum_s}"


class Latencies:
    """What is measured of each request that ends by itself."""

    def __init__(self) -> None:
        self.histograms = {
            "vllm:time_to_first_token_seconds": Histogram(),
            "vllm:inter_token_latency_seconds": Histogram(),
            "vllm:e2e_request_latency_seconds": Histogram(),
            "vllm:request_queue_time_seconds": Histogram(),
            "vllm:request_prefill_time_seconds": Histogram(),
        }

    def observe(self, generation: Generation) -> None:
        """Count a finished generation."""
        times, arrived_s = generation.token_times_s, generation.arrived_s
        self.histograms["vllm:time_to_first_token_seconds"].add(times[0] - arrived_s)
        self.histograms["vllm:inter_token_latency_seconds"].add_all(np.diff(times))
        self.histograms["vllm:e2e_request_latency_seconds"].add(times[-1] - arrived_s)
        self.histograms["vllm:request_queue_time_seconds"].add(generation.admitted_s - arrived_s)
        self.histograms["vllm:request_prefill_time_seconds"].add(times[0] - generation.admitted_s)


def render(engines: Sequence[tuple[Scheduler, Latencies]], model: str) -> str:
    """Return the text of /metrics: of each metric one series an engine, under its index as vLLM's data parallel ranks."""
    families: dict[str, list[str]] = {}
    for index, (scheduler, latencies) in enumerate(engines):
        labels = f'model_name="{_escape(model)}",engine="{index}"'
        for name, samples in _samples(scheduler, latencies, labels, index):
            families.setdefault(name, []).extend(samples)
    lines = [line for name, samples in families.items() for line in _family(name, samples)]
    return "\n".join(lines) + "\n"


def _samples(scheduler: Scheduler, latencies: Latencies, labels: str, index: int) -> Iterator[tuple[str, list[str]]]:
    """Yield the names of the metrics and their lines for one engine."""
    for name, value in _values(scheduler).items():
        yield name, [f"{name}{{{labels}}} {value}"]
    name = "vllm:request_success_total"
    ended = scheduler.counts.ended.items()
    yield name, [f'{name}{{{labels},finished_reason="{reason}"}} {count}' for reason, count in ended]
    name = "vllm:prompt_tokens_cached_by_source_total"
    found = {"device": scheduler.counts.hit_tokens, "host": scheduler.counts.host_tokens}
    yield name, [f'{name}{{{labels},source="{source}"}} {tokens}' for source, tokens in found.items()]
    name = "vllm:cache_config_info"
    sizes = f'block_size="{scheduler.profile.block_size}",num_gpu_blocks="{scheduler.cache.blocks}",engine="{index}"'
    yield name, [f"{name}{{{sizes}}} 1"]
    for name, histogram in latencies.histograms.items():
        yield name, list(histogram.samples(name, labels))


def _values(scheduler: Scheduler) -> dict[str, float]:
    """Return the metrics that are one number."""
    counts, cache = scheduler.counts, scheduler.cache
    values = {
        "vllm:num_requests_running": len(scheduler.running),
        "vllm:num_requests_waiting": len(scheduler.waiting),
        "vllm:kv_cache_usage_perc": cache.held / cache.blocks,
        "vllm:prefix_cache_queries_total": counts.queried_tokens,
        "vllm:prefix_cache_hits_total": counts.hit_tokens,
        "vllm:prompt_tokens_total": counts.prompt_tokens,
        "vllm:prompt_tokens_cached_total": counts.hit_tokens + counts.host_tokens,
        "vllm:generation_tokens_total": counts.generated_tokens,
        "vllm:num_preemptions_total": 0,
    }
    if cache.host is not None:
        values["vllm:external_prefix_cache_queries_total"] = counts.queried_tokens - counts.hit_tokens
        values["vllm:external_prefix_cache_hits_total"] = counts.host_tokens
        values["vllm:cpu_cache_usage_perc"] = len(cache.host) / cache.host.blocks
    return values


_HELP = {
    "vllm:num_requests_running": "Requests in the batch.",
    "vllm:num_requests_waiting": "Requests in the queue.",
    "vllm:kv_cache_usage_perc": "Share of the KV cache blocks that running requests hold; 1 means all.",
    "vllm:prefix_cache_queries_total": "Prompt tokens looked up in the prefix cache.",
    "vllm:prefix_cache_hits_total": "Prompt tokens found in the prefix cache, those of the host tier left out.",
    "vllm:cpu_cache_usage_perc": "Share of the host tier's blocks that hold something; 1 means all.",
    "vllm:external_prefix_cache_queries_total": "Prompt tokens looked up in the host tier: all not found before.",
    "vllm:external_prefix_cache_hits_total": "Prompt tokens found in the host tier.",
    "vllm:prompt_tokens_total": "Prompt tokens of completed prompts, cached ones included.",
    "vllm:prompt_tokens_cached_total": "Prompt tokens that were not computed.",
    "vllm:prompt_tokens_cached_by_source_total": "Prompt tokens that were not computed, by tier.",
    "vllm:generation_tokens_total": "Output tokens.",
    "vllm:num_preemptions_total": "Preemptions; blocks are reserved, so there are none.",
    "vllm:request_success_total": "Requests by how they ended.",
    "vllm:cache_config_info": "Block size and number of blocks of the simulated cache.",
    "vllm:time_to_first_token_seconds": "Modelled seconds from arrival to first token.",
    "vllm:inter_token_latency_seconds": "Modelled seconds between tokens.",
    "vllm:e2e_request_latency_seconds": "Modelled seconds from arrival to last token.",
    "vllm:request_queue_time_seconds": "Modelled seconds from arrival to admission.",
    "vllm:request_prefill_time_seconds": "Modelled seconds from admission to first token.",
}


def _family(name: str, samples: Iterable[str]) -> list[str]:
    kind = "counter" if name.endswith("_total") else "histogram" if name.endswith("_seconds") else "gauge"
    return [f"# HELP {name} {_HELP[name]} Simulated.", f"# TYPE {name} {kind}", *samples]


def _escape(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
