"""Replays in each dialect through the gateway to the simulator: what is recorded is what was replayed."""

from __future__ import annotations

import asyncio
from itertools import combinations
from pathlib import Path

import pytest
from engine.agent_shapes import SHAPES
from loopback import PATIENCE_S, recording

from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.run import replay_async
from rotoscope.replayer.schedule import Gaps
from rotoscope.replayer.simulator.server import SimulatorOptions, running_simulator
from rotoscope.replayer.summary import Summary
from rotoscope.traces import Trace
from rotoscope.traces.bounds import PromptBounds
from rotoscope.traces.forest import Forest


async def replayed(trace: Trace, api: str, folder: Path) -> tuple[Summary, Trace]:
    """Replay a trace through a gateway; return its results, and the trace that was recorded of it."""
    async with (
        running_simulator(SimulatorOptions(speed=0.0, blocks=4096)) as url,
        recording(url, folder / "journal") as gateway,
    ):
        options = ReplayOptions(url=gateway.origin, api=api, folder=folder / "results", gaps=Gaps(scale=0.0))
        summary = await replay_async([trace], options)
        await gateway.gateway.stop(drain_s=PATIENCE_S)
        recorded = gateway.recorder.close()
    assert recorded is not None
    assert gateway.recorder.trouble == []
    return summary, recorded


@pytest.mark.parametrize("api", ["messages", "responses"])
@pytest.mark.parametrize("trace", [pytest.param(trace, id=name) for name, trace in SHAPES if name != "single branch"])
def test_what_is_recorded_is_what_was_replayed(trace: Trace, api: str, tmp_path: Path) -> None:
    summary, recorded = asyncio.run(replayed(trace, api, tmp_path))
    results = sorted(summary.request_results, key=lambda one: (one.prompt_tokens or 0, one.start_s or 0.0))
    calls = sorted(list(recorded.calls())[-len(results) :], key=lambda call: (call.prompt_tokens, call.call))
    played = list(trace.calls())
    bounds, forest = PromptBounds(recorded), Forest.of_trace(trace)

    assert summary.is_complete
    assert [call.prompt_tokens for call in calls] == [played[one.call].prompt_tokens for one in results]
    assert [call.cached_tokens for call in calls] == [one.cached_tokens for one in results]
    assert {call.prompt_tokens_source for call in calls} == {None}
    for a, b in combinations(range(len(results)), 2):
        low, high = bounds.common_prefix(calls[a].call, calls[b].call)
        true = forest.common_prefix(results[a].call, results[b].call)
        assert low <= min(true, calls[a].prompt_tokens, calls[b].prompt_tokens) <= high
