"""What a real engine tells of itself over a replay: its counters grow by what its answers said, its slots are full."""

from __future__ import annotations

from pathlib import Path

from engine.llama_server import FOUR_SLOTS, llama_server

from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.reading import read_results
from rotoscope.replayer.run import replay
from rotoscope.testing import make_trace

SLOTS = 4


def test_samples_of_a_replay_are_those_of_its_requests(tiny_model: Path, tmp_path: Path) -> None:
    with llama_server(tiny_model, FOUR_SLOTS, tmp_path / "log") as url:
        options = ReplayOptions(
            url=url, sessions=16, concurrency=2 * SLOTS, folder=tmp_path / "results", max_batch=SLOTS, timeout_s=60
        )
        summary = replay([make_trace(turns=2, isl=600, osl=60)], options)
    results = read_results(tmp_path / "results")

    side = summary.server
    assert side is not None
    print(f"\n{len(results.server)} samples, batch fill {side.batch_fill}, queueing {summary.queueing}")
    last = results.server[-1]
    assert last.prompt == summary.cache.prompt_tokens
    assert last.found == summary.cache.cached_tokens
    assert last.output_tokens == sum(one.completion_tokens or 0 for one in results.requests)
    assert sum(part.counted_prompt or 0.0 for part in results.timeline) > 0.99 * summary.cache.prompt_tokens
    assert summary.queueing is not None
    assert summary.queueing.told == "prefill"
    assert side.running is None or side.running.max <= SLOTS
