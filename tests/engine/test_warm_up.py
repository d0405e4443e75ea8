"""What is preloaded before a replay is found by its first session on a real engine, and the optimum knows of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from engine.llama_server import ONE_SLOT, llama_server

from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.run import replay
from rotoscope.replayer.schedule import NO_GAPS
from rotoscope.testing import make_trace

SYSTEM_TOKENS = 320


@pytest.fixture(scope="module")
def tiny(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(tiny_model, ONE_SLOT, tmp_path_factory.mktemp("tiny") / "log") as url:
        yield url


@pytest.mark.parametrize("api", ["completions", "chat", "messages"])
def test_the_first_session_finds_the_system_prompt(tiny: str, tmp_path: Path, api: str) -> None:
    trace = make_trace(turns=2, isl=400, system=SYSTEM_TOKENS)
    options = ReplayOptions(
        url=tiny, api=api, salt=f"warm-{api}", profile="llama.cpp", folder=tmp_path, gaps=NO_GAPS, warm_up="auto"
    )

    summary = replay([trace], options)

    first, second = summary.request_results
    assert summary.warm_up is not None
    assert (summary.warm_up.tokens, summary.warm_up.failed) == (SYSTEM_TOKENS, 0)
    assert first.cached_tokens == summary.optimal_tokens[0] == SYSTEM_TOKENS
    assert second.cached_tokens == summary.optimal_tokens[1]
