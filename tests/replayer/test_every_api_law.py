"""Law: on a cold server with room for everything, each call finds in the cache what it can, in whatever API it is sent."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine.agent_shapes import forking, parallel, rewinding, single_branch, thinking_dropped
from event_loops import in_event_loop

from rotoscope.replayer.backends.apis import APIS
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.run import replay_async
from rotoscope.replayer.schedule import Gaps
from rotoscope.replayer.simulator.server import SimulatorOptions, running_simulator

TRACES = [single_branch(4), thinking_dropped(), forking(), rewinding(), parallel()]


@pytest.mark.parametrize("profile", ["token", "vllm"])
@pytest.mark.parametrize("api", APIS)
@in_event_loop
async def test_measured_is_the_optimum_and_lengths_are_the_recorded_ones(
    api: str, profile: str, tmp_path: Path
) -> None:
    async with running_simulator(SimulatorOptions(speed=0, profile=profile, blocks=100_000)) as url:
        options = ReplayOptions(url=url, api=api, folder=tmp_path / "results", gaps=Gaps(scale=0.0))
        summary = await replay_async(TRACES, options)

    assert summary.requests.ok == summary.requests.planned == sum(len(list(trace.calls())) for trace in TRACES)
    assert summary.isl_mismatches == summary.osl_mismatches == summary.without_ids == 0
    cached = [request.cached_tokens for request in summary.request_results]
    assert cached == list(summary.optimal_tokens)
    assert sum(summary.optimal_tokens) > 0
