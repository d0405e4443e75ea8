"""Replays as messages against the simulator, whose tokenizer and template are its own: lengths and hits are exact."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from aiohttp import web
from completion_server import DONE, event, serving_completions, stream, usage_event
from engine.agent_shapes import SHAPES
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import grown_by, traces

from rotoscope.replayer.candidates import COMMON
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.run import replay_async
from rotoscope.replayer.schedule import Gaps
from rotoscope.replayer.simulator.model import Message
from rotoscope.replayer.simulator.server import Simulator, SimulatorOptions, running_simulator
from rotoscope.replayer.simulator.template import render
from rotoscope.replayer.simulator.tokenizer import encode
from rotoscope.replayer.summary import Summary
from rotoscope.testing import make_call, make_trace, trace_of
from rotoscope.traces import Prefix, Trace

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def replayed(trace: Trace, folder: Path, *, sessions: int = 1, concurrency: int = 1) -> Summary:
    async with running_simulator(SimulatorOptions(speed=0.0, blocks=4096)) as url:
        options = ReplayOptions(
            url=url, api="chat", sessions=sessions, concurrency=concurrency, folder=folder, gaps=Gaps(scale=0.0)
        )
        return await replay_async([trace], options)


@pytest.mark.parametrize(("name", "trace"), SHAPES)
def test_lengths_are_exact_and_hits_are_the_optimum(name: str, trace: Trace, tmp_path: Path) -> None:
    summary = asyncio.run(replayed(trace, tmp_path))

    assert summary.is_complete
    assert summary.isl_error is None
    assert summary.without_ids == summary.osl_mismatches == 0
    assert [one.cached_tokens for one in summary.request_results] == list(summary.optimal_tokens)
    assert (summary.setup.api, summary.setup.tokens_from) == ("chat", "tokenizer")


def test_concurrent_sessions_never_hit_more_than_the_optimum(tmp_path: Path) -> None:
    summary = asyncio.run(replayed(dict(SHAPES)["forking"], tmp_path, sessions=6, concurrency=3))

    assert summary.is_complete
    assert summary.isl_error is None
    pairs = [
        (one.cached_tokens or 0, best)
        for one, best in zip(summary.request_results, summary.optimal_tokens, strict=True)
    ]
    assert all(cached <= best for cached, best in pairs)
    assert sum(cached for cached, _ in pairs) > 0


@asynccontextmanager
async def simulator_without_tokenizer() -> AsyncIterator[str]:
    """Run a simulator that tells of its tokens by usage only, as hosted endpoints do."""

    @web.middleware
    async def refuse(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path in ("/tokenize", "/apply-template"):
            raise web.HTTPNotFound
        return await handler(request)

    simulator = Simulator(SimulatorOptions(speed=0.0))
    app = simulator.application()
    app.middlewares.insert(0, refuse)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    engine = asyncio.create_task(simulator.fleet.run())
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        engine.cancel()
        await runner.cleanup()


@pytest.mark.parametrize(("name", "trace"), SHAPES)
def test_a_server_that_tells_usage_only_is_measured_out_as_well(name: str, trace: Trace, tmp_path: Path) -> None:
    async def perform() -> Summary:
        async with simulator_without_tokenizer() as url:
            options = ReplayOptions(url=url, api="chat", folder=tmp_path, gaps=Gaps(scale=0.0))
            return await replay_async([trace], options)

    summary = asyncio.run(perform())

    assert summary.is_complete
    assert (summary.setup.tokens_from, summary.setup.words) == ("usage", len(COMMON))
    assert summary.isl_error is None
    assert [one.cached_tokens for one in summary.request_results] == list(summary.optimal_tokens)
    assert any("is assumed" in note for note in summary.notes)


@settings(max_examples=20, deadline=None)
@given(traces(), st.sampled_from([3, 12]), st.integers(1, 3), st.sampled_from(["token", "prompt-only", "vllm"]))
def test_measured_is_never_above_the_realised_optimum(trace: Trace, factor: int, sessions: int, profile: str) -> None:
    grown = grown_by(trace, factor)
    assume(list(grown.calls()))

    async def perform(folder: Path) -> Summary:
        simulated = SimulatorOptions(speed=0.0, profile=profile, block_size=2)
        async with running_simulator(simulated) as url:
            options = ReplayOptions(
                url=url, api="chat", sessions=sessions, concurrency=2, folder=folder, gaps=Gaps(scale=0.0)
            )
            return await replay_async([grown], options)

    with TemporaryDirectory() as folder:
        summary = asyncio.run(perform(Path(folder)))

    assert summary.is_complete
    least = len(encode(render([Message("user", "")]))) + 1
    assert summary.isl_mismatches == sessions * sum(call.prompt_tokens < least for call in grown.calls())
    for one, optimum in zip(summary.request_results, summary.optimal_tokens, strict=True):
        assert one.cached_tokens is not None
        assert one.cached_tokens <= optimum


def test_what_messages_cannot_hold_is_told(tmp_path: Path) -> None:
    first = make_call(0, isl=100, osl=20)
    inside_the_template, too_short = make_call(1, isl=120, prefix=Prefix(0, 98, "ids")), make_call(2, isl=4)

    summary = asyncio.run(replayed(trace_of(first, inside_the_template, too_short), tmp_path))

    assert summary.isl_error is not None
    assert summary.isl_mismatches == 1
    assert any("1 prompts are longer than recorded" in note for note in summary.notes)
    assert any("4 prompt tokens cannot be shared" in note for note in summary.notes)
    assert any("1 requests: the server counted another number" in note for note in summary.notes)


def test_answers_without_text_are_said_to_be_missing_and_not_ids(tmp_path: Path) -> None:
    async def think(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        tokens = body["max_tokens"]
        words = sum(len(message["content"].split()) + 4 for message in body["messages"])
        thoughts = [{"choices": [{"delta": {"reasoning": " hm"}, "finish_reason": None}]}] * tokens
        return await stream(request, [*map(event, thoughts), usage_event(words, tokens), DONE])

    async def perform() -> Summary:
        async with serving_completions(think) as server:
            options = ReplayOptions(url=server.url, api="chat", folder=tmp_path, gaps=Gaps(scale=0.0))
            return await replay_async([make_trace(turns=2)], options)

    summary = asyncio.run(perform())

    assert summary.is_complete
    assert any("cannot be sent back as text" in note for note in summary.notes)
    assert not any("output ids" in note for note in summary.notes)
