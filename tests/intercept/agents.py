"""Agents of the tests with real clients, recorded through the gateway and through an interception."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from aiohttp import web
from clients.recorded import AGENTS, Recorded, record_command
from clients.script import Script, Words
from clients.scripted_server import Handler, KeepingEngine, ScriptedServer, Seen, current_request, serving
from clients.stage import stage
from intercept.fronts import Front

from rotoscope.replayer.simulator.scheduler import Generation
from rotoscope.traces.model import Branch, Call, ParallelStart, Trace, TraceEvent

Way = Literal["gateway", "1.1", "2"]
TIMES = {"at_ms", "ttft_ms", "duration_ms"}
FIRST_SIDE, SECOND_SIDE = b"Where does the Leie end", b"Where does the Scheldt end"
LEFT = b"Count without end"
READ_TOKENS = {"/v1/chat/completions": 4, "/v1/messages": 5}
"""How many tokens a client reads of the stream that it leaves: five pieces, of which the first of chat has none."""
TWIN, SECOND_TURN = b"How far is it from Ghent", b"Are you sure?"
OVER_HTTP2 = Path(__file__).with_name("over_http2.py")


class _HoldingEngine(KeepingEngine):
    """An engine that generates as much as a client reads that leaves, and token by token."""

    async def generate(self, generations: Sequence[Generation]) -> AsyncGenerator[tuple[int, int, int], None]:
        asked = current_request()
        read = READ_TOKENS[asked.path] if LEFT in asked.body else None
        async for rank, first, end in super().generate(generations):
            if read is None:
                yield rank, first, end
                continue
            for token in range(first, min(end, read)):
                yield rank, token, token + 1
            if end >= read:
                await asyncio.Event().wait()


class OrderedServer(ScriptedServer):
    """Leaves nothing to chance that a trace tells, so that runs are alike.

    A client that leaves a stream gets no more of it than it reads. Of two equal conversations the second begins later,
    is waited for and waits for the second turn of the first. The one side question is answered when the recorder has
    heard the answer to the other whole.
    """

    engine_type = _HoldingEngine

    def __init__(self, words: Words, recordings: Path) -> None:
        super().__init__(Script(words), says_in_errors=words.error)
        self._recordings = recordings
        self._twins = 0
        self._both_are_here = asyncio.Event()
        self._first_went_on = asyncio.Event()
        self._is_answered: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    @web.middleware
    async def _keep(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await super()._keep(request, handler)
        if FIRST_SIDE in await request.read():
            self._is_answered[request.path].set()
        return response

    async def _meet(self, seen: Seen) -> None:
        await super()._meet(seen)
        if SECOND_SIDE in seen.body:
            await self._is_answered[seen.path].wait()
            while self._heard() < sum(one.is_call for one in self.seen) - 1:  # noqa: ASYNC110 - no event tells
                await asyncio.sleep(0.005)
        elif TWIN in seen.body and SECOND_TURN in seen.body:
            self._first_went_on.set()
        elif TWIN in seen.body:
            self._twins += 1
            if self._twins == 2:
                self._both_are_here.set()
                await self._first_went_on.wait()
            await self._both_are_here.wait()

    def _heard(self) -> int:
        """Return how many answers have ended by the journal, whose last line may be half written."""
        (journal,) = self._recordings.glob("run-*.journal.jsonl")
        return journal.read_bytes().count(b'"record":"end"')


async def record(
    name: str, way: Way, *, python: Path, front: Front, folder: Path, canaries: list[str], options: tuple[str, ...] = ()
) -> Recorded:
    """Record one run of an agent in front of a scripted server, which the front shows by TLS."""
    on, agent = stage(folder, canaries), AGENTS / f"{name}_agent.py"
    server = OrderedServer(on.words, on.recordings)
    async with serving(server):
        front.origin_file.write_text(server.url)
        status, said = await record_command(
            [str(python), *([str(OVER_HTTP2)] if way == "2" else []), str(agent)],
            upstream=f"{front.url}/v1" if way == "gateway" else None,
            folder=on.recordings,
            environment=on.environment | addresses(front),
            options=[*([] if way == "gateway" else intercepting(front)), *options],
        )
    return Recorded(name, on.trace(status, said), server.seen, on.recordings, said, on.canaries)


def addresses(front: Front) -> dict[str, str]:
    """Return variables by which an agent finds the front, and by which it is trusted."""
    return {
        "SSL_CERT_FILE": str(front.certificates.authority),
        "OPENAI_BASE_URL": f"{front.url}/v1",
        "ANTHROPIC_BASE_URL": front.url,
        "CLIENT_APART_S": "0.2",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def intercepting(front: Front) -> list[str]:
    """Return the options with which the front is opened."""
    return ["--intercept", "--intercept-host", f"localhost:{front.port}"]


def without_times_and_ids(trace: Trace) -> list[str]:
    """Return what two recordings of one run have in common, an event a line.

    Left out beside times and random ids is what is chance: in which order branches that run at the same time come to
    their turns.
    """
    told = {name: value for name, value in asdict(trace).items() if name not in ("trace_id", "campaign", "events")}
    events = list(_branch_by_branch(trace, None))
    calls = {event.call: number for number, event in enumerate(e for e in events if isinstance(e, Call))}
    regions = {event.region: number for number, event in enumerate(e for e in events if isinstance(e, ParallelStart))}
    return [repr(told), *(_of_event(event, calls, regions) for event in events)]


def _branch_by_branch(trace: Trace, branch: Branch | None) -> Iterator[TraceEvent]:
    """Yield the events of a branch in their order, those of the branches that begin on it behind where they begin."""
    for event in trace.events:
        if event.branch == branch:
            yield event
            if isinstance(event, ParallelStart):
                for index in range(event.num_branches):
                    yield from _branch_by_branch(trace, (event.region, index))


def _of_event(event: TraceEvent, calls: Mapping[int, int], regions: Mapping[int, int]) -> str:
    told = {name: value for name, value in asdict(event).items() if name not in TIMES and value is not None}
    for name, numbers in (("call", calls), ("region", regions)):
        if name in told:
            told[name] = numbers[told[name]]
    if event.branch is not None:
        told["branch"] = (regions[event.branch[0]], event.branch[1])
    if isinstance(event, Call):
        told["prefix"]["of"] = calls.get(told["prefix"]["of"], told["prefix"]["of"])
    return f"{type(event).__name__} {told}"
