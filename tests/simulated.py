"""Requests to a simulator on loopback, raw and by the openai client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import openai

from rotoscope.replayer.simulator.model import Answer, ModelRequest, ScriptedModel
from rotoscope.replayer.simulator.server import SimulatorOptions, running_simulator


class Client:
    """A raw HTTP client of one server."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def ask(self, path: str, body: Any = None, *, status: int = 200, data: bytes | None = None) -> dict[str, Any]:
        """POST a body, or GET where there is none; return the JSON of the answer, whose status is checked."""
        method = "GET" if body is None and data is None else "POST"
        data = data if body is None else json.dumps(body).encode()
        async with self.session.request(method, self.url + path, data=data) as response:
            assert response.status == status, await response.text()
            assert response.headers["x-rotoscope-simulated"] == "true"
            answer: dict[str, Any] = await response.json()
            return answer

    async def stream(self, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        """POST a body and return the events of the response stream, which must end with [DONE]."""
        async with self.session.post(self.url + path, json=body | {"stream": True}) as response:
            assert response.status == 200, await response.text()
            assert response.content_type == "text/event-stream"
            events = (await response.read()).decode().split("\n\n")
        assert events[-2:] == ["data: [DONE]", ""]
        assert all(event.startswith("data: ") for event in events[:-1])
        return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]

    async def named_events(self, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        """POST a body and return the events of a response stream in which each has its type as its name."""
        async with self.session.post(self.url + path, json=body | {"stream": True}) as response:
            assert response.status == 200, await response.text()
            assert response.content_type == "text/event-stream"
            *events, rest = (await response.read()).decode().split("\n\n")
        assert rest == ""
        parsed = []
        for event in events:
            name, data = event.split("\n")
            parsed.append(json.loads(data.removeprefix("data: ")))
            assert name == f"event: {parsed[-1]['type']}"
        return parsed

    async def metrics(self) -> dict[str, float]:
        """Return the samples of /metrics by name, labels but for the reason of an end left out."""
        async with self.session.get(self.url + "/metrics") as response:
            text = await response.text()
        samples = {}
        for line in text.splitlines():
            if not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                reason = name.partition('finished_reason="')[2].rstrip('"}')
                samples[name.partition("{")[0] + (f":{reason}" if reason else "")] = float(value)
        return samples


@asynccontextmanager
async def simulated(answer: Any = None, **options: Any) -> AsyncIterator[Client]:
    """Run a simulator without waiting times and yield a client of it; `answer` is what its model says."""
    model = None if answer is None else ScriptedModel(_script(answer))
    async with (
        running_simulator(SimulatorOptions(**{"speed": 0.0} | options), model) as url,
        aiohttp.ClientSession() as session,
    ):
        yield Client(session, url)


@asynccontextmanager
async def openai_client(client: Client) -> AsyncIterator[openai.AsyncOpenAI]:
    """Yield the real client library for the same server."""
    async with openai.AsyncOpenAI(base_url=f"{client.url}/v1", api_key="none", max_retries=0) as real:
        yield real


def _script(answer: Any) -> Any:
    if not isinstance(answer, Answer):
        return answer

    def say(request: ModelRequest) -> Answer:
        return answer

    return say
