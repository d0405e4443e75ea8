"""Law: every call that is answered is in exactly one trace, whichever runs begin and end meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from itertools import count
from pathlib import Path

import aiohttp
from aiohttp import web
from loopback import CHAT, chat_answer, serving

from rotoscope.proxy.standing import Standing, standing
from rotoscope.proxy.upstream import upstream_given
from rotoscope.recorder.campaigns import Campaign
from rotoscope.recorder.recorded_run import Finished

CLIENTS, CALLS, NAMES = 8, 15, 4


def test_every_answered_call_is_in_one_trace(tmp_path: Path) -> None:
    numbers, ended = count(1), list[Finished]()
    answered = Counter[int]()

    async def upstream(request: web.Request) -> web.StreamResponse:
        await request.read()
        return web.json_response(chat_answer(completion_tokens=next(numbers)))

    async def client(session: aiohttp.ClientSession, draw: random.Random) -> None:
        for number in range(CALLS):
            name = draw.randrange(NAMES)
            if draw.random() < 0.2:
                await (await session.post(f"/_rotoscope/runs/{name}/end")).read()
            body = {"model": "m", "messages": [{"role": "user", "content": f"{number} of {draw.random()}"}]}
            async with session.post(f"/run/{name}{CHAT}", json=body) as answer:
                answered[(await answer.json())["usage"]["completion_tokens"]] += 1

    async def run() -> None:
        async with serving(upstream) as origin:
            how = Standing(upstream_given(origin), tmp_path, Campaign(), idle_s=0.02)
            async with (
                standing(how, finished=lambda one, _: ended.append(one)) as stood,
                aiohttp.ClientSession(stood.gateway.origin) as session,
                asyncio.TaskGroup() as clients,
            ):
                for seed in range(CLIENTS):
                    clients.create_task(client(session, random.Random(seed)))

    asyncio.run(run())

    assert Counter(call.completion_tokens for one in ended if one.trace for call in one.trace.calls()) == answered
    assert len(answered) == CLIENTS * CALLS
    assert not any(one.trouble for one in ended)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(one.path.name for one in ended if one.path)
