"""Claim: recording costs the gateway at most 2 times the CPU of a bare reverse proxy a request, and 1.5 times a chunk.

Both proxies run in processes of their own in front of one upstream, and take turns. The bare one is the shortest aiohttp
proxy that does the same on the wire: whole body read, pooled connections, the answer passed on as it comes.

- a request: one of a growing conversation of about 100 KB; its answer comes in one piece, or as a short response stream.
- a chunk: one of a long response stream; each is read alone, as the upstream sends it when the client has the last one.

Run: python -m benchmarks.gateway [ROUNDS]
"""

from __future__ import annotations

import asyncio
import itertools
import json
import multiprocessing
import ssl
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Protocol

import aiohttp
from aiohttp import web

from benchmarks.claims import holds, run

MOST_PER_REQUEST = 2.0
MOST_PER_CHUNK = 1.5

ROUNDS = 9
TURNS = 60
FIRST_OUTPUTS = 110
"""Tool outputs that a conversation begins with; about 80 KB, 120 KB at its end."""
EVENTS_A_TURN = 4
"""How many events a short response stream has."""
STREAMS = 4
EVENTS_A_STREAM = 400

WORD = " the quick answer"
HEAD = {"id": "chatcmpl-5f0c2e", "object": "chat.completion.chunk", "created": 1760000000, "model": "model"}

Start = Callable[[str, Path], AbstractAsyncContextManager[str]]
"""Runs a proxy in front of an upstream, with a folder for its files."""


class Measured(Protocol):
    """What stands between the client and the upstream, and costs CPU."""

    @property
    def origin(self) -> str:
        """Where the client finds the upstream."""

    def cpu_s(self) -> float:
        """Return the CPU seconds it has used since it started."""


@dataclass(frozen=True)
class Proxy:
    """A proxy in its own process."""

    origin: str
    pipe: Connection

    def cpu_s(self) -> float:
        """Return the CPU seconds it has used since it started."""
        self.pipe.send(None)
        used: float = self.pipe.recv()
        return used


class Upstream:
    """Answers in one piece, or with as many events as the request's header says, each when the client has the last."""

    def __init__(self) -> None:
        self._turns: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(0))

    def received(self, stream: str, events: int) -> None:
        """Let the upstream send as many more events."""
        for _ in range(events):
            self._turns[stream].release()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request."""
        body = await request.read()
        stream, events = request.headers["x-stream"], int(request.headers["x-events"])
        if not events:
            return web.Response(body=whole_answer(len(body) // 4), content_type="application/json")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number in range(events):
            await response.write(event({"content": WORD}, "stop" if number == events - 1 else None))
            await self._turns[stream].acquire()
        if b'"include_usage"' in body:
            await response.write(usage_event(len(body) // 4, events * 3))
        await response.write(b"data: [DONE]\n\n")
        del self._turns[stream]
        return response


def whole_answer(prompt_tokens: int) -> bytes:
    """Return an answer in one piece."""
    message = {"role": "assistant", "content": WORD * EVENTS_A_TURN, "tool_calls": []}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 12, "total_tokens": prompt_tokens + 12}
    return json.dumps(HEAD | {"choices": [choice], "usage": usage}).encode()


def event(delta: dict[str, str], finish_reason: str | None) -> bytes:
    """Return one event of a response stream."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return _sse({"choices": [choice]})


def usage_event(prompt_tokens: int, completion_tokens: int) -> bytes:
    """Return the event that tells usage."""
    total = prompt_tokens + completion_tokens
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "total_tokens": total}
    return _sse({"choices": [], "usage": usage})


def _sse(fields: dict[str, object]) -> bytes:
    return b"data: " + json.dumps(HEAD | fields).encode() + b"\n\n"


def conversation(seed: int, *, stream: bool) -> Iterator[bytes]:
    """Yield the bodies of a conversation that grows by an answer and a tool's output a turn."""
    messages = [{"role": "system", "content": f"You are agent {seed}. " + "Be careful and brief. " * 60}]
    messages += [_tool_output(seed, number) for number in range(FIRST_OUTPUTS)]
    while True:
        yield json.dumps({"model": "model", "stream": stream, "temperature": 0, "messages": messages}).encode()
        messages += [{"role": "assistant", "content": WORD * EVENTS_A_TURN}, _tool_output(seed, len(messages))]


def _tool_output(seed: int, number: int) -> dict[str, str]:
    return {"role": "user", "content": f"Output {number} of {seed}:\n" + "x = f(y)\n" * 60}


@asynccontextmanager
async def bare_proxy(upstream: str, _: Path) -> AsyncIterator[str]:
    """Run the bare reverse proxy; give its origin."""
    session = aiohttp.ClientSession(auto_decompress=False)
    dropped = {"host", "connection", "keep-alive", "transfer-encoding", "content-length", "upgrade", "te", "trailer"}

    async def forward(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in dropped}
        async with session.request(request.method, upstream + request.raw_path, data=body, headers=headers) as answer:
            kept = {name: value for name, value in answer.headers.items() if name.lower() not in dropped}
            response = web.StreamResponse(status=answer.status, reason=answer.reason, headers=kept)
            await response.prepare(request)
            async for data in answer.content.iter_any():
                await response.write(data)
            await response.write_eof()
            return response

    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{path:.*}", forward)
    async with session, listening(app) as origin:
        yield origin


@asynccontextmanager
async def recording_gateway(upstream: str, folder: Path) -> AsyncIterator[str]:
    """Run the gateway with a recorder as the command does, which lets texts be counted beside it; give its origin."""
    from rotoscope.proxy.standing import Standing, standing
    from rotoscope.proxy.upstream import upstream_given
    from rotoscope.recorder.campaigns import Campaign
    from rotoscope.recorder.recorded_run import Finished
    from rotoscope.recorder.token_counters import chosen_tokenizer

    ended: list[Finished] = []
    how = Standing(upstream_given(upstream), folder, Campaign(), tokenizer=chosen_tokenizer("auto"))
    async with standing(how, finished=lambda finished, _: ended.append(finished), notice=print) as stood:
        yield stood.gateway.origin
    if not ended or any(one.trace is None or one.run.recorder.trouble for one in ended):
        raise SystemExit("the gateway did not record what it passed, so its cost says nothing")


@asynccontextmanager
async def listening(app: web.Application, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Run a server on a free port; give its origin."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def serve(start: Start, upstream: str, folder: Path, pipe: Connection) -> None:
    """Run a proxy; send its origin, then the CPU seconds used so far whenever asked, until told to end."""

    async def main() -> None:
        ended = asyncio.Event()

        def answer() -> None:
            if pipe.recv() == "end":
                ended.set()
            else:
                pipe.send(time.process_time())

        async with start(upstream, folder) as origin:
            pipe.send(origin)
            asyncio.get_running_loop().add_reader(pipe.fileno(), answer)
            await ended.wait()

    asyncio.run(main())


@contextmanager
def process(start: Start, upstream: str, folder: Path) -> Iterator[Proxy]:
    """Run a proxy in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    child = spawn.Process(target=serve, args=(start, upstream, folder, theirs))
    child.start()
    try:
        yield Proxy(ours.recv(), ours)
    finally:
        ours.send("end")
        child.join()
    if child.exitcode:
        raise SystemExit(child.exitcode)


class Client:
    """Sends bodies and takes answers, event by event."""

    def __init__(self, session: aiohttp.ClientSession, upstream: Upstream) -> None:
        self._session = session
        self._upstream = upstream
        self._numbers = itertools.count()

    async def call(self, proxy: Measured, body: bytes, *, events: int) -> int:
        """Send one request; return how many chunks its answer came in."""
        stream = str(next(self._numbers))
        headers = {"Content-Type": "application/json", "x-stream": stream, "x-events": str(events)}
        chunks = 0
        async with self._session.post(f"{proxy.origin}/v1/chat/completions", data=body, headers=headers) as answer:
            async for data in answer.content.iter_any():
                chunks += 1
                self._upstream.received(stream, data.count(b"\n\n"))
        return chunks


async def request_cost_s(client: Client, proxy: Measured, seed: int, *, events: int) -> float:
    """Return the proxy's CPU seconds a request of a growing conversation, its first and unusual one left out."""
    bodies = conversation(seed, stream=events > 0)
    await client.call(proxy, next(bodies), events=events)
    before = proxy.cpu_s()
    for body in itertools.islice(bodies, TURNS):
        await client.call(proxy, body, events=events)
    return (proxy.cpu_s() - before) / TURNS


async def chunk_cost_s(client: Client, proxy: Measured, seed: int) -> float:
    """Return the proxy's CPU seconds a chunk of long response streams, several at once."""
    bodies = [
        json.dumps(
            {"model": "model", "stream": True, "messages": [{"role": "user", "content": f"{seed} {n}"}]}
        ).encode()
        for n in range(STREAMS)
    ]
    before = proxy.cpu_s()
    chunks = await asyncio.gather(*(client.call(proxy, body, events=EVENTS_A_STREAM) for body in bodies))
    return (proxy.cpu_s() - before) / sum(chunks)


async def measure(rounds: int, folder: Path) -> bool:
    """Measure both proxies in turn, print the costs and their ratios; return whether the claims hold."""
    upstream = Upstream()
    app = web.Application(client_max_size=1 << 30)
    app.router.add_post("/v1/chat/completions", upstream.answer)
    costs: dict[str, list[float]] = defaultdict(list)
    async with listening(app) as origin, aiohttp.ClientSession() as session:
        client, seeds = Client(session, upstream), itertools.count()
        with process(bare_proxy, origin, folder) as bare, process(recording_gateway, origin, folder) as gateway:
            for _ in range(rounds + 1):
                for name, proxy in (("bare", bare), ("gateway", gateway)):
                    for unit, events in (("request", 0), ("streamed request", EVENTS_A_TURN)):
                        cost = await request_cost_s(client, proxy, next(seeds), events=events)
                        costs[f"{name} {unit}"].append(cost)
                    costs[f"{name} chunk"].append(await chunk_cost_s(client, proxy, next(seeds)))
    medians = {name: statistics.median(values[1:]) for name, values in costs.items()}  # the first round warms up
    limits = {"request": MOST_PER_REQUEST, "streamed request": MOST_PER_REQUEST, "chunk": MOST_PER_CHUNK}
    verdicts = [
        holds(f"CPU a {unit}", {"bare proxy": medians[f"bare {unit}"], "gateway": medians[f"gateway {unit}"]}, most)
        for unit, most in limits.items()
    ]
    return all(verdicts)


if __name__ == "__main__":
    run(measure, ROUNDS)
