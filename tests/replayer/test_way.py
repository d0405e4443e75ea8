from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from completion_server import good_answer, serving_completions, stream
from event_loops import in_event_loop
from raw_server import Handler, serving

from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.run import replay_async
from rotoscope.replayer.schedule import NO_GAPS
from rotoscope.replayer.simulator.server import SimulatorOptions, running_simulator
from rotoscope.replayer.summary import Summary
from rotoscope.testing import make_trace
from rotoscope.traces import RunFailed


async def refuse(request: web.Request) -> web.StreamResponse:
    return web.json_response({"error": {"message": "prompt must be a string"}}, status=400)


def all_but_completions(simulator: str, http: aiohttp.ClientSession, cards: Any = None) -> dict[str, Handler]:
    """Return handlers that pass requests on to a simulator, as a gateway that takes no token ids."""

    async def pass_on(request: web.Request) -> web.StreamResponse:
        url = simulator + request.path
        async with http.request(request.method, url, data=await request.read()) as answer:
            return web.Response(
                body=await answer.read(), status=answer.status, headers={"Content-Type": answer.headers["Content-Type"]}
            )

    async def models(request: web.Request) -> web.StreamResponse:
        return web.json_response({"data": cards})

    paths = ("/v1/models", "/v1/chat/completions", "/tokenize", "/detokenize", "/apply-template", "/metrics")
    handlers: dict[str, Handler] = {**dict.fromkeys(paths, pass_on), "/v1/completions": refuse}
    return handlers | ({"/v1/models": models} if cards else {})


async def replayed(folder: Path, cards: Any = None, **options: Any) -> Summary:
    given: dict[str, Any] = {"folder": folder, "gaps": NO_GAPS, "timeout_s": 60.0} | options
    async with (
        running_simulator(SimulatorOptions(speed=0)) as simulator,
        aiohttp.ClientSession() as http,
        serving(all_but_completions(simulator, http, cards)) as url,
    ):
        trace = make_trace(turns=2, isl=200, osl=10, new=50, system=0)
        return await replay_async([trace], ReplayOptions(url=url, **given))


@in_event_loop
async def test_where_ids_are_refused_prompts_are_made_of_words(tmp_path: Path) -> None:
    summary = await replayed(tmp_path)

    assert (summary.setup.api, summary.requests.ok, summary.is_complete) == ("chat", 2, True)
    assert [note for note in summary.notes if "they are made of words, as with --api chat" in note]
    assert b"prompt must be a string" not in (tmp_path / "summary.json").read_bytes()


@in_event_loop
async def test_an_api_that_was_asked_for_is_not_changed(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="--api chat"):
        await replayed(tmp_path, api="completions")

    assert (await replayed(tmp_path, api="chat")).requests.ok == 2


@in_event_loop
async def test_hosted_endpoints_are_not_asked_for_what_they_do_not_take(tmp_path: Path) -> None:
    summary = await replayed(tmp_path, cards=[{"id": "rotoscope-simulator", "owned_by": "openai"}])

    assert summary.setup.api == "chat"
    assert not [note for note in summary.notes if "made of words" in note]


@in_event_loop
async def test_the_native_api_is_tried_too(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="--api generate"):
        await replayed(tmp_path, api="generate")


def choosy(field: str | None) -> Callable[[web.Request, dict[str, Any]], Awaitable[web.StreamResponse]]:
    """Return a server of completions that refuses fields it does not know, but for one that makes it return ids."""
    known = {"model", "stream", "stream_options", "temperature", "ignore_eos", "max_tokens", "min_tokens", "prompt"}

    async def answer(request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        if set(body) - known - {field}:
            return web.json_response({"error": {"message": "extra fields not permitted"}}, status=400)
        return await stream(request, good_answer(body))

    return answer


@pytest.mark.parametrize(("field", "engine"), [("detokenize", "trtllm"), ("return_token_ids", "any")])
@in_event_loop
async def test_a_server_that_does_not_tell_its_engine_is_asked_as_others_are(
    field: str, engine: str, tmp_path: Path
) -> None:
    async with serving_completions(choosy(field)) as server:
        options = ReplayOptions(url=server.url, folder=tmp_path, gaps=NO_GAPS)
        summary = await replay_async([make_trace(turns=2)], options)

    assert (summary.setup.api, summary.setup.engine, summary.is_complete) == ("completions", engine, True)
    assert summary.without_ids == 0
    assert any("--engine trtllm" in note for note in summary.notes) is (engine == "trtllm")


@in_event_loop
async def test_an_engine_that_is_told_is_not_doubted(tmp_path: Path) -> None:
    async with serving_completions(choosy("detokenize"), cards=[{"id": "m", "owned_by": "vllm"}]) as server:
        options = ReplayOptions(url=server.url, folder=tmp_path, api="completions")
        with pytest.raises(RunFailed, match="extra fields not permitted"):
            await replay_async([make_trace()], options)

    assert len(server.bodies) == 1
