"""What a gateway records of a run, the SDK records alone: the same calls, prefixes, tokens, reasons and attempts.

Nobody tells who sends, so that all but times is the same; what agents tell besides is evidence that a gateway lacks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import aiohttp
import httpx2
import pytest
import requests
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import PATIENCE_S, recording, serving
from sdk_worlds import recorded_alone, traces_in, without_times
from transcripts import TRANSCRIPTS, Transcript

from rotoscope.traces.model import Trace

Ending = Literal["whole", "left", "broken"]


@dataclass(frozen=True)
class Step:
    """A request, and how its answer ends."""

    transcript: Transcript
    ending: Ending = "whole"
    more: int = 0
    """How many messages are said behind those of the transcript."""

    @property
    def body(self) -> bytes:
        asked = json.loads(self.transcript.body)
        if self.more and isinstance(asked.get("messages"), list):
            said = {"role": "user", "content": "go on"}
            asked["messages"] = [*asked["messages"], *[said] * self.more]
            return json.dumps(asked).encode()
        return self.transcript.body

    @property
    def first(self) -> bytes:
        """The first event of the answer."""
        event, border, _ = self.transcript.forwarded.partition(b"\n\n")
        return event + border

    @property
    def can_end_early(self) -> bool:
        is_stream = self.transcript.content_type.startswith("text/event-stream")
        return is_stream and self.transcript.answer.startswith(self.first) and b"\n\n" in self.first


def in_order(steps: Sequence[Step]) -> Callable[[web.Request], Any]:
    """Return a server that answers requests by the number of the step that they name."""

    async def answer(request: web.Request) -> web.StreamResponse:
        step, body = steps[int(request.headers["x-step"])], await request.read()
        transcript = step.transcript
        whole = transcript.answer if b'"include_usage"' in body else transcript.forwarded
        response = web.StreamResponse(status=transcript.status, headers={"Content-Type": transcript.content_type})
        await response.prepare(request)
        if step.ending == "whole":
            await response.write(whole)
            return response
        await response.write(step.first)
        if step.ending == "left":
            await asyncio.Event().wait()  # until the client leaves
        assert request.transport is not None
        request.transport.abort()
        return response

    return answer


def by_httpx(url: str, step: Step, headers: dict[str, str]) -> None:
    try:
        with httpx2.stream("POST", url, content=step.body, headers=headers, verify=False) as response:
            _take(response.iter_bytes(), step)
    except httpx2.TransportError:
        assert step.ending == "broken"


def by_requests(url: str, step: Step, headers: dict[str, str]) -> None:
    try:
        with requests.post(url, data=step.body, headers=headers, stream=True) as response:
            _take(response.iter_content(chunk_size=None), step)
    except requests.RequestException:
        assert step.ending == "broken"


def by_aiohttp(url: str, step: Step, headers: dict[str, str]) -> None:
    async def ask() -> None:
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.post(url, data=step.body, headers=headers) as response,
            ):
                taken = 0
                async for data in response.content.iter_any():
                    taken += len(data)
                    if step.ending == "left" and taken >= len(step.first):
                        return
        except aiohttp.ClientError:
            assert step.ending == "broken"

    asyncio.run(ask())


def _take(pieces: Iterator[bytes], step: Step) -> None:
    taken = 0
    for data in pieces:
        taken += len(data)
        if step.ending == "left" and taken >= len(step.first):
            return


CLIENTS = [by_httpx, by_requests, by_aiohttp]
Client = Callable[[str, Step, dict[str, str]], None]


def play(origin: str, steps: Sequence[Step], client: Client) -> None:
    for number, step in enumerate(steps):
        headers = {"x-step": str(number), "content-type": "application/json"}
        client(origin + step.transcript.path, step, headers)


async def by_gateway(upstream: str, steps: Sequence[Step], client: Client, folder: Path) -> Trace | None:
    async with recording(upstream, folder / "journal") as gateway:
        await asyncio.to_thread(play, gateway.origin, steps, client)
        await gateway.gateway.stop(drain_s=PATIENCE_S)
        return gateway.recorder.close()


async def alone(upstream: str, steps: Sequence[Step], client: Client, folder: Path) -> Trace | None:
    def run() -> list[Trace]:
        with recorded_alone(folder):
            play(upstream, steps, client)
        return traces_in(folder)

    traces = await asyncio.to_thread(run)
    return traces[0] if traces else None


def both(steps: Sequence[Step], client: Client) -> tuple[Any, Any]:
    """Return what a gateway records and what the SDK records alone."""

    async def record(folder: Path) -> tuple[Trace | None, Trace | None]:
        async with serving(in_order(steps)) as upstream:
            heard = await by_gateway(upstream, steps, client, folder)
            return heard, await alone(upstream, steps, client, folder / "alone")

    with TemporaryDirectory() as name:
        first, second = asyncio.run(record(Path(name)))
        return without_times(first, Path(name)), without_times(second, Path(name))


@pytest.mark.parametrize("number", range(len(CLIENTS)))
def test_every_transcript_is_recorded_alike(number: int) -> None:
    in_turn = sorted(TRANSCRIPTS, key=lambda transcript: transcript.dialect)[number :: len(CLIENTS)]
    steps = [Step(transcript) for transcript in in_turn]
    gateway, sdk = both(steps, CLIENTS[number])

    assert sdk == gateway
    assert sum("call" in event for event in sdk["events"]) > len(steps) // 2


STEPS = st.builds(
    Step,
    transcript=st.sampled_from(TRANSCRIPTS),
    ending=st.sampled_from(["whole", "whole", "left", "broken"]),
    more=st.integers(0, 2),
).map(lambda step: step if step.can_end_early else replace(step, ending="whole"))


@settings(max_examples=10)
@given(steps=st.lists(STEPS, min_size=1, max_size=6), client=st.sampled_from(CLIENTS))
def test_every_run_is_recorded_alike(steps: list[Step], client: Client) -> None:
    gateway, sdk = both(steps, client)

    assert sdk == gateway
