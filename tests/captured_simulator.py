"""A simulator whose requests are kept as they arrive: what is checked is the bytes on the wire, nothing of ours between."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
from aiohttp import web
from numpy.typing import NDArray

from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.run import replay_async
from rotoscope.replayer.schedule import Gaps
from rotoscope.replayer.simulator.model import Answer, ModelRequest, random_ids
from rotoscope.replayer.simulator.server import Simulator, SimulatorOptions
from rotoscope.replayer.simulator.timing import JumpingClock
from rotoscope.replayer.simulator.tokenizer import word_ids
from rotoscope.traces import Call, Trace

Ids = NDArray[np.uint32]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Place(NamedTuple):
    """A call of a session."""

    session: int
    call: int


class UnlikeModel:
    """Says to no two requests what begins alike, as traces suppose of outputs (R4), also where the prompt is the same."""

    def __init__(self) -> None:
        self._numbers = count()

    def answer(self, request: ModelRequest) -> Answer:
        """Return words that begin with one that no other answer begins with."""
        words = word_ids()
        return Answer(token_ids=(words.start + next(self._numbers) % len(words), *random_ids(request, 255).tolist()))


class StridingClock(JumpingClock):
    """Lets others have their turn once in many steps, so that an output arrives in a few pieces."""

    STEPS = 64

    def __init__(self) -> None:
        super().__init__()
        self._steps = count(1)

    def call_at(self, moment_s: float, act: Callable[[], None]) -> asyncio.Handle:
        """Jump there, and rest only now and then."""
        if next(self._steps) % self.STEPS == 0:
            return super().call_at(moment_s, act)
        self._now_s = max(self._now_s, moment_s)
        act()
        return asyncio.Handle(act, (), asyncio.get_running_loop())


@asynccontextmanager
async def captured_simulator(keep: Callable[[bytes], None], **options: Any) -> AsyncIterator[str]:
    """Run a simulator that does not wait and give the body of each completion to `keep`; yield its URL."""

    @web.middleware
    async def capture(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path == "/v1/completions":
            keep(await request.read())  # aiohttp keeps what was read for the handler
        return await handler(request)

    simulator = Simulator(SimulatorOptions(**{"speed": 0.0, "blocks": 65536} | options), UnlikeModel())
    if simulator.options.speed == 0:
        for replica in simulator.fleet.replicas:
            replica.engine.clock = StridingClock()
    app = simulator.application()
    app.middlewares.append(capture)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    engine = asyncio.create_task(simulator.fleet.run())
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        engine.cancel()
        with suppress(asyncio.CancelledError):
            await engine
        await runner.cleanup()


async def replayed(
    traces: Sequence[Trace], folder: Path, keep: Callable[[Ids], Any], **options: Any
) -> dict[Place, Any]:
    """Replay each trace once, one after the other, and return what `keep` makes of each prompt that arrived.

    A request that arrived is the call that was sent in its turn with the same two lengths.
    """
    arrived: dict[tuple[int, int], deque[Any]] = defaultdict(deque)

    def take(data: bytes) -> None:
        body = orjson.loads(data)
        ids = np.array(body["prompt"], np.uint32)
        arrived[len(ids), body["max_tokens"]].append(keep(ids))

    async with captured_simulator(take) as url:
        settings = ReplayOptions(url=url, salt="pepper", preflight=False, gaps=Gaps(scale=0), folder=folder, **options)
        summary = await replay_async(traces, settings)
    assert summary.is_complete
    lines = map(orjson.loads, (folder / "results.jsonl").read_bytes().splitlines())
    kept = {}
    for line in sorted(lines, key=lambda line: line["start_s"]):
        lengths = line["planned_prompt_tokens"], line["asked_tokens"]
        kept[Place(line["session"], line["call"])] = arrived[lengths].popleft()
    return kept


def with_short_outputs(trace: Trace) -> Trace:
    """Return a trace of a format that does not know outputs with one token for each: no prompt depends on them."""
    assert trace.outputs == "unknown"
    events = tuple(
        replace(event, completion_tokens=1, reasoning_tokens=0) if isinstance(event, Call) else event
        for event in trace.events
    )
    return replace(trace, events=events)


def lengths_of(traces: Sequence[Trace]) -> Mapping[Place, int]:
    return {
        Place(session, call.call): call.prompt_tokens for session, trace in enumerate(traces) for call in trace.calls()
    }
