"""Law: a recording that is killed at any moment loses at most the calls that are open at that moment."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from loopback import PATIENCE_S, chat_answer, serving
from rotoscope_process import first_line, rotoscope

from rotoscope.proxy.recovery import recover_all
from rotoscope.traces.reader import load

CLIENTS = 5

AGENT = """
import http.client, itertools, json, os
host, _, path = os.environ["OPENAI_BASE_URL"].removeprefix("http://").partition("/")
log = os.open(os.sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for number in itertools.count():
    try:
        connection = http.client.HTTPConnection(host)
        body = {"model": "m", "messages": [{"role": "user", "content": f"call {number} of " + os.sys.argv[2]}]}
        connection.request("POST", f"/{path}/chat/completions", json.dumps(body))
        answer = json.loads(connection.getresponse().read())
    except (OSError, http.client.HTTPException):
        break
    os.write(log, b"%d\\n" % answer["usage"]["completion_tokens"])
"""


class Upstream:
    """Gives each answer a length of its own, and lets something happen at one moment of its life."""

    def __init__(self, moment: int, stage: str) -> None:
        self._numbers = count(1)
        self._moment = moment
        self._stage = stage
        self.reached = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request in two pieces."""
        await request.read()
        number = next(self._numbers)
        self._at("arrived", number)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        body = web.json_response(chat_answer(completion_tokens=number)).body
        assert isinstance(body, bytes)
        await response.write(body[:100])
        self._at("half", number)
        await response.write(body[100:])
        await response.write_eof()
        self._at("answered", number)
        return response

    def _at(self, stage: str, number: int) -> None:
        if number == self._moment and stage == self._stage:
            self.reached.set()


async def client(base_url: str, answered: list[int]) -> None:
    """Make one call after another while there is a gateway; keep what came back whole."""
    async with aiohttp.ClientSession() as session:
        for number in count():
            body = {"model": "m", "messages": [{"role": "user", "content": f"call {number}"}]}
            try:
                async with session.post(f"{base_url}/chat/completions", json=body) as answer:
                    answered.append((await answer.json())["usage"]["completion_tokens"])
            except aiohttp.ClientError:
                return


def recovered(folder: Path) -> Iterator[tuple[list[int], int]]:
    """Yield for each run the lengths of the answers that ended, and how many calls were lost."""
    for outcome in recover_all(folder):
        assert not outcome.is_failure, outcome.reason
        if outcome.path is not None:
            calls = list(load(outcome.path).calls())
            yield (
                [call.completion_tokens for call in calls if call.finish_reason == "stop"],
                sum(call.finish_reason == "lost" for call in calls),
            )


@pytest.mark.parametrize("stage", ["arrived", "half", "answered"])
def test_kill_of_a_proxy_costs_each_run_at_most_its_open_call(stage: str, tmp_path: Path) -> None:
    answered: list[list[int]] = [[] for _ in range(CLIENTS)]

    async def run() -> None:
        upstream = Upstream(random.randint(1, 40), stage)
        options = ("--port", "0", "--tokenizer", "none", "-o", str(tmp_path))
        async with serving(upstream.answer) as origin, rotoscope("proxy", "--upstream", origin, *options) as process:
            base_url = await first_line(process)
            async with asyncio.TaskGroup() as clients:
                for number, kept in enumerate(answered):
                    clients.create_task(client(base_url.replace("/v1", f"/run/{number}/v1"), kept))
                await asyncio.wait_for(upstream.reached.wait(), PATIENCE_S)
                process.kill()

    asyncio.run(run())
    runs = list(recovered(tmp_path))

    in_traces = {length for lengths, _ in runs for length in lengths}
    assert {length for kept in answered for length in kept} <= in_traces
    assert all(lost <= 1 for _, lost in runs)
    for kept in filter(None, answered):
        (lengths,) = [lengths for lengths, _ in runs if kept[0] in lengths]
        assert kept == lengths[: len(kept)]
        assert len(lengths) <= len(kept) + 1


def test_kill_of_a_recording_costs_its_open_call_at_most(tmp_path: Path) -> None:
    (tmp_path / "answered").touch()

    async def run() -> None:
        upstream = Upstream(random.randint(1, 40), random.choice(["arrived", "half", "answered"]))
        command = (sys.executable, "-IS", "-c", AGENT, str(tmp_path / "answered"), "an agent")
        options = ("--tokenizer", "none", "-o", str(tmp_path / "out"))
        async with (
            serving(upstream.answer) as origin,
            rotoscope("record", "--upstream", origin, *options, "--", *command) as process,
        ):
            await asyncio.wait_for(upstream.reached.wait(), PATIENCE_S)
            process.kill()
            await process.communicate()  # the agent has ended too when nobody holds the pipes any more

    asyncio.run(run())
    ((lengths, lost),) = recovered(tmp_path / "out")

    answered = [int(line) for line in (tmp_path / "answered").read_text().split()]
    assert answered == lengths[: len(answered)]
    assert len(lengths) <= len(answered) + 1
    assert lost <= 1
