from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from event_loops import in_event_loop
from loopback import serving

from rotoscope.replayer.backends.engines import ENGINES
from rotoscope.replayer.server import api_url
from rotoscope.replayer.server_version import ask_version
from rotoscope.replayer.simulator.server import SimulatorOptions, running_simulator

PLENTY_S = 60.0


async def version_of(pages: dict[str, Any], engine: str, *, below: str = "") -> tuple[str | None, list[str]]:
    """Return the version that a server with these pages is found to have, and the paths that were asked for."""
    asked: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        page = pages.get(request.path)
        return web.Response(status=404) if page is None else web.json_response(page)

    async with serving(answer) as origin, aiohttp.ClientSession() as http:
        url = api_url(origin + below)
        found = await ask_version(http, url, engine=ENGINES[engine], timeout_s=PLENTY_S)
    return found, asked


@pytest.mark.parametrize(
    ("engine", "pages", "version"),
    [
        ("vllm", {"/version": {"version": "0.32.0"}}, "0.32.0"),
        ("vllm", {"/version": {"version": "0.11.1rc2.dev12+g1a2b3c4.d20261101"}}, "0.11.1rc2.dev12+g1a2b3c4.d20261101"),
        ("trtllm", {"/version": {"version": "1.2.0"}}, "1.2.0"),
        ("any", {"/version": {"version": "v2"}}, "v2"),
        ("llama.cpp", {"/props": {"build_info": "b10434-7e4c0a9", "model_path": "/home/me"}}, "b10434-7e4c0a9"),
        ("llama.cpp", {"/props": {"build_info": "b1-7e4c0a9"}}, "b1-7e4c0a9"),
        ("sglang", {"/server_info": {"version": "0.5.9"}, "/get_server_info": {"version": "0.4"}}, "0.5.9"),
        ("sglang", {"/get_server_info": {"version": "0.4.6"}}, "0.4.6"),
    ],
)
@in_event_loop
async def test_an_engine_tells_its_version_in_its_place(engine: str, pages: dict[str, Any], version: str) -> None:
    assert (await version_of(pages, engine))[0] == version


@in_event_loop
async def test_the_place_is_beside_the_api() -> None:
    found, asked = await version_of({"/base/version": {"version": "1.0"}}, "vllm", below="/base/v1")

    assert (found, asked) == ("1.0", ["/base/version"])


@in_event_loop
async def test_hosted_endpoints_are_not_asked() -> None:
    assert await version_of({}, "openai") == (None, [])


@pytest.mark.parametrize(
    "page",
    [
        {"version": "what somebody wrote"},
        {"version": "what-somebody-wrote"},
        {"version": "1.0\n"},
        {"version": 1.0},
        {"version": "1" * 80},
        {},
        ["version"],
        "1.0",
        None,
    ],
)
@in_event_loop
async def test_what_is_no_version_is_not_taken_for_one(page: Any) -> None:
    assert (await version_of({"/version": page}, "vllm"))[0] is None


@in_event_loop
async def test_a_server_that_does_not_answer_has_no_version() -> None:
    async def hang(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with serving(hang) as origin, aiohttp.ClientSession() as http:
        assert await ask_version(http, api_url(origin), engine=ENGINES["vllm"], timeout_s=0.05) is None


@in_event_loop
async def test_a_simulator_has_the_version_of_rotoscope() -> None:
    async with running_simulator(SimulatorOptions(speed=0.0)) as url, aiohttp.ClientSession() as http:
        found = await ask_version(http, api_url(url), engine=ENGINES["simulator"], timeout_s=PLENTY_S)

    assert found == "0.1.0"
