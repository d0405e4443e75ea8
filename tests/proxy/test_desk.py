"""The gateway's own paths, on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web
from loopback import CHAT, WHOLE, chat_answer, serving

from rotoscope import __version__
from rotoscope.proxy.standing import Standing, Stood, standing
from rotoscope.proxy.upstream import upstream_given
from rotoscope.recorder.campaigns import Campaign
from rotoscope.recorder.recorded_run import Finished

NAME = "secret-run-name"


async def answer(request: web.Request) -> web.StreamResponse:
    await request.read()
    return web.json_response(chat_answer())


def played(folder: Path, play: Callable[[aiohttp.ClientSession, Stood], Awaitable[None]]) -> list[Finished]:
    """Play with a gateway in front of a server; return its runs."""
    ended: list[Finished] = []

    async def run() -> None:
        async with serving(answer) as origin:
            how = Standing(upstream_given(origin), folder, Campaign())
            async with (
                standing(how, finished=lambda one, _: ended.append(one)) as stood,
                aiohttp.ClientSession(stood.gateway.origin) as client,
            ):
                await play(client, stood)

    asyncio.run(run())
    return ended


async def asked(client: aiohttp.ClientSession, method: str, path: str) -> tuple[int, Any]:
    async with client.request(method, path) as answer:
        return answer.status, await answer.json()


def test_health_tells_counts_and_no_names(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, _: Stood) -> None:
        await (await client.post(f"/run/{NAME}{CHAT}", json=WHOLE)).read()
        await (await client.get("/v1/models")).read()
        status, health = await asked(client, "GET", "/_rotoscope/health")

        assert status == 200
        assert health == {
            "status": "ok",
            "version": __version__,
            "runs": {"open": 1, "written": 0, "unwritten": 0},
            "requests": 2,
            "in_flight": 0,
            "calls": 1,
            "failed": 0,
            "marks": 0,
            "unrecorded": 1,
            "waiting": {"texts": 0, "prompts": 0},
        }

    played(tmp_path, play)


def test_runs_are_told_by_the_names_of_their_traces(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, _: Stood) -> None:
        await (await client.post(f"/run/{NAME}{CHAT}", json=WHOLE)).read()
        status, told = await asked(client, "GET", "/_rotoscope/runs")

        assert status == 200
        (run,) = told["runs"]
        assert run.pop("idle_s") < 60
        assert run == {"run": "run-0001", "calls": 1, "in_flight": 0}

    played(tmp_path, play)


def test_run_ends_by_name_and_tells_its_trace(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, _: Stood) -> None:
        await (await client.post(f"/run/a%20b{CHAT}", json=WHOLE)).read()
        told = await asked(client, "POST", "/_rotoscope/runs/a%20b/end")

        assert told == (200, {"trace": "run-0001.trace.json", "calls": 1, "failed": False})
        assert (tmp_path / "run-0001.trace.json").exists()
        assert (await asked(client, "POST", "/_rotoscope/runs/a%20b/end"))[0] == 404

    assert len(played(tmp_path, play)) == 1


def test_own_paths_never_reach_the_upstream(tmp_path: Path) -> None:
    async def play(client: aiohttp.ClientSession, stood: Stood) -> None:
        for method, path in (
            ("GET", "/_rotoscope/x"),
            ("POST", "/_rotoscope/health"),
            ("GET", "/_rotoscope/runs/x/end"),
        ):
            status, error = await asked(client, method, path)
            assert (status, error["error"]["type"]) == (404, "gateway_error")
        assert stood.gateway.requests == 0

    played(tmp_path, play)
