from __future__ import annotations

import numpy as np
import pytest

from rotoscope.replayer.server_metrics.families import read_metrics
from rotoscope.replayer.simulator.block_cache import BlockCache
from rotoscope.replayer.simulator.host_tier import HostTier
from rotoscope.replayer.simulator.metrics import Histogram, Latencies, render
from rotoscope.replayer.simulator.scheduler import Counts, Generation, Scheduler
from rotoscope.replayer.simulator.timing import Timing
from rotoscope.traces.analysis.profiles import profile_named

TIMING = Timing(prefill_tokens_per_s=100.0, decode_step_s=((1, 0.1),))


def make_scheduler() -> Scheduler:
    return Scheduler(BlockCache(100), TIMING, profile_named("vllm"), max_batch=1)


def text_of(scheduler: Scheduler, model: str = "m") -> list[str]:
    return render([(scheduler, Latencies())], model).splitlines()


def test_each_sample_stands_below_its_help_and_type() -> None:
    known = ""
    for line in text_of(make_scheduler()):
        if line.startswith("# HELP "):
            known = line.split()[2]
            assert line.endswith("Simulated.")
        elif line.startswith("# TYPE "):
            assert line.split()[2] == known
            assert line.split()[3] in ("counter", "gauge", "histogram")
        else:
            assert line.startswith((f"{known}{{", f"{known}_"))


def test_running_waiting_and_usage_are_those_of_the_moment() -> None:
    scheduler = make_scheduler()
    for first in (0, 500):
        prompt = np.arange(first, first + 150, dtype=np.uint32)
        scheduler.submit(Generation(prompt, np.arange(10, dtype=np.uint32)), 0.0)
    scheduler.next_stretch(0.0)

    text = text_of(scheduler)

    assert 'vllm:num_requests_running{model_name="m",engine="0"} 1' in text
    assert 'vllm:num_requests_waiting{model_name="m",engine="0"} 1' in text
    assert 'vllm:kv_cache_usage_perc{model_name="m",engine="0"} 0.1' in text
    assert 'vllm:cache_config_info{block_size="16",num_gpu_blocks="100",engine="0"} 1' in text


def test_the_host_tier_has_counters_of_its_own_where_there_is_one() -> None:
    host = HostTier(10)
    host.store([1, 2, 3])
    scheduler = Scheduler(BlockCache(100, host), TIMING, profile_named("vllm"), max_batch=1)
    scheduler.counts = Counts(queried_tokens=100, hit_tokens=32, host_tokens=48)

    text = text_of(scheduler)

    assert 'vllm:prefix_cache_queries_total{model_name="m",engine="0"} 100' in text
    assert 'vllm:prefix_cache_hits_total{model_name="m",engine="0"} 32' in text
    assert 'vllm:external_prefix_cache_queries_total{model_name="m",engine="0"} 68' in text
    assert 'vllm:external_prefix_cache_hits_total{model_name="m",engine="0"} 48' in text
    assert 'vllm:prompt_tokens_cached_total{model_name="m",engine="0"} 80' in text
    assert 'vllm:prompt_tokens_cached_by_source_total{model_name="m",engine="0",source="device"} 32' in text
    assert 'vllm:prompt_tokens_cached_by_source_total{model_name="m",engine="0",source="host"} 48' in text
    assert 'vllm:cpu_cache_usage_perc{model_name="m",engine="0"} 0.3' in text
    assert "external" not in "".join(text_of(make_scheduler()))


def test_each_replica_has_its_own_series_which_readers_sum_and_of_gauges_take_the_highest() -> None:
    schedulers = make_scheduler(), make_scheduler()
    for rank, scheduler in enumerate(schedulers):
        scheduler.submit(Generation(np.arange(150 + 160 * rank, dtype=np.uint32), np.arange(10, dtype=np.uint32)), 0.0)
        scheduler.next_stretch(0.0)
    text = render([(scheduler, Latencies()) for scheduler in schedulers], "m")

    counted = read_metrics(text)

    assert 'vllm:prefix_cache_queries_total{model_name="m",engine="1"} 310' in text.splitlines()
    assert text.count("# TYPE vllm:prefix_cache_queries_total") == 1
    assert counted is not None
    assert counted.prompt is not None
    assert (counted.prompt.total, counted.running, counted.waiting, counted.kv_usage) == (460, 2, 0, 0.2)


def test_a_model_name_is_escaped() -> None:
    assert 'vllm:num_requests_running{model_name="a\\"b\\\\c\\n",engine="0"} 0' in text_of(
        make_scheduler(), model='a"b\\c\n'
    )


def test_a_histogram_counts_what_is_at_most_its_bound() -> None:
    histogram = Histogram()
    for seconds in (0.001, 0.004, 0.3, 1000.0):
        histogram.add(seconds)
    samples = list(histogram.samples("t", 'x="1"'))

    assert samples[0] == 't_bucket{x="1",le="0.001"} 1'
    assert samples[1] == 't_bucket{x="1",le="0.005"} 2'
    assert 't_bucket{x="1",le="0.25"} 2' in samples
    assert 't_bucket{x="1",le="0.5"} 3' in samples
    assert samples[-3] == 't_bucket{x="1",le="+Inf"} 4'
    assert samples[-2] == 't_count{x="1"} 4'
    assert samples[-1].startswith('t_sum{x="1"} 1000.305')


def test_latencies_are_measured_from_arrival() -> None:
    generation = Generation(np.arange(3, dtype=np.uint32), np.arange(3, dtype=np.uint32))
    generation.arrived_s, generation.admitted_s = 10.0, 11.0
    generation.token_times_s = [12.0, 12.5, 13.5]
    latencies = Latencies()
    latencies.observe(generation)

    sums = {name: histogram.sum_s for name, histogram in latencies.histograms.items()}
    assert sums == pytest.approx(
        {
            "vllm:time_to_first_token_seconds": 2.0,
            "vllm:inter_token_latency_seconds": 1.5,
            "vllm:e2e_request_latency_seconds": 3.5,
            "vllm:request_queue_time_seconds": 1.0,
            "vllm:request_prefill_time_seconds": 1.0,
        }
    )


def test_many_observations_are_counted_as_one_by_one() -> None:
    seconds = np.array([0.0005, 0.001, 0.0011, 0.5, 80.0, 81.0, 0.02])
    together, singly = Histogram(), Histogram()

    together.add_all(seconds)
    together.add_all(seconds[:0])
    for one in seconds.tolist():
        singly.add(one)

    assert together.counts == singly.counts
    assert together.sum_s == pytest.approx(singly.sum_s)
