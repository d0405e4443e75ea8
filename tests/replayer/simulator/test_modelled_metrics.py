from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from rotoscope.replayer.server_metrics.counts import Counter, ServerMetrics
from rotoscope.replayer.server_metrics.families import read_metrics
from rotoscope.replayer.simulator.block_cache import BlockCache
from rotoscope.replayer.simulator.host_tier import HostTier
from rotoscope.replayer.simulator.metrics import Latencies, render
from rotoscope.replayer.simulator.modelled_metrics import told
from rotoscope.replayer.simulator.scheduler import Generation, Scheduler
from rotoscope.replayer.simulator.timing import Timing
from rotoscope.traces.analysis.profiles import profile_named

TIMING = Timing(prefill_tokens_per_s=100.0, decode_step_s=((1, 0.1),))


def worked(host_blocks: int, *, prompts: int) -> tuple[Scheduler, Latencies]:
    """Return an engine that has answered so many prompts, the first again last, and has two more."""
    host = HostTier(host_blocks) if host_blocks else None
    scheduler = Scheduler(BlockCache(30, host), TIMING, profile_named("vllm"), max_batch=1)
    latencies = Latencies()
    now_s = 0.0
    for number in [*range(prompts), 0]:
        scheduler.submit(generation_of(number), now_s)
        while scheduler.running or scheduler.waiting:
            now_s += 1.0
            if (stretch := scheduler.next_stretch(now_s)) is not None:
                now_s = stretch.end_s
                for ended in [each for each in scheduler.complete() if each.finished]:
                    latencies.observe(ended)
    for number in (7, 8):
        scheduler.submit(generation_of(number), now_s)
    scheduler.next_stretch(now_s + 1.0)
    return scheduler, latencies


def generation_of(number: int) -> Generation:
    return Generation(np.arange(1000 * number, 1000 * number + 150, dtype=np.uint32), np.arange(10, dtype=np.uint32))


def values_of(metrics: ServerMetrics) -> dict[str, object]:
    """Return what is told, but for what the text of a tier says beside and what the engines do not tell."""
    values = {one.name: getattr(metrics, one.name) for one in fields(metrics) if one.name != "external_prompt"}
    return {name: value.total if isinstance(value, Counter) else value for name, value in values.items()}


@pytest.mark.parametrize("host_blocks", [0, 20])
def test_engines_tell_what_is_read_from_their_text(host_blocks: int) -> None:
    engines = [worked(host_blocks, prompts=4), worked(host_blocks, prompts=2)]
    read = read_metrics(render(engines, "m"))

    assert read is not None
    assert values_of(told(engines)) == pytest.approx(values_of(read))
    assert read.prompt is not None
    assert read.prompt.total > 1000
    assert read.queue_s is not None
    assert read.queue_s.total > 0
    assert (read.running, read.waiting) == (2, 2)
