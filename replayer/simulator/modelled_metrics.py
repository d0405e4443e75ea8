"""What engines in this process tell of themselves, as a reader of their Prometheus text would understand it.

Text is what a server over HTTP gives; to write and read it takes a hundred times as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from rotoscope.replayer.server_metrics.counts import Counter, Series, ServerMetrics
from rotoscope.replayer.simulator.metrics import Latencies
from rotoscope.replayer.simulator.scheduler import Scheduler


def told(engines: Sequence[tuple[Scheduler, Latencies]]) -> ServerMetrics:
    """Return the metrics of all engines together; times are modelled seconds."""
    schedulers = [scheduler for scheduler, _ in engines]
    counts = [scheduler.counts for scheduler in schedulers]
    queues = [latencies.histograms["vllm:request_queue_time_seconds"] for _, latencies in engines]
    prefills = [latencies.histograms["vllm:request_prefill_time_seconds"] for _, latencies in engines]
    hosts = [scheduler.cache.host for scheduler in schedulers]
    return ServerMetrics(
        family="vllm",
        prompt=_counter([each.queried_tokens for each in counts]),
        cached=_counter([each.hit_tokens for each in counts]),
        host_cached=_counter([each.host_tokens for each in counts]),
        output_tokens=_counter([each.generated_tokens for each in counts]),
        preemptions=_counter([0 for _ in counts]),
        queue_s=_counter([each.sum_s for each in queues]),
        queued_requests=_counter([sum(each.counts) for each in queues]),
        prefill_s=_counter([each.sum_s for each in prefills]),
        prefilled_requests=_counter([sum(each.counts) for each in prefills]),
        kv_usage=max(scheduler.cache.held / scheduler.cache.blocks for scheduler in schedulers),
        host_usage=max((len(host) / host.blocks for host in hosts if host is not None), default=None),
        running=float(sum(len(scheduler.running) for scheduler in schedulers)),
        waiting=float(sum(len(scheduler.waiting) for scheduler in schedulers)),
        block_size=schedulers[0].profile.block_size,
        capacity_tokens=schedulers[0].cache.blocks * schedulers[0].profile.block_size,
        replicas=len(engines),
    )


def _counter(values: Sequence[float]) -> Counter:
    """Return a counter with a series for each engine."""
    series: dict[Series, float] = {("", (("engine", str(index)),)): float(one) for index, one in enumerate(values)}
    return Counter(MappingProxyType(series))
