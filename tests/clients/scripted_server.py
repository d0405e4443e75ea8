"""A server for real clients: the simulator's dialects and tokens, a script for its answers, and faults on demand.

It keeps, in memory, what only a server knows: the token ids of every prompt and output. A recording is held against
them. Beside what the simulator speaks it counts tokens for Anthropic's clients, embeds, and stores responses.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field

import orjson
from aiohttp import web

from rotoscope.replayer.simulator import wire
from rotoscope.replayer.simulator.api_messages import MessagesBody
from rotoscope.replayer.simulator.api_responses import RESPONSES_FORM, ResponsesBody
from rotoscope.replayer.simulator.constants import LLAMA_SERVER_TINY
from rotoscope.replayer.simulator.engine import Engine
from rotoscope.replayer.simulator.model import Answer, ModelRequest, ScriptedModel
from rotoscope.replayer.simulator.scheduler import Generation
from rotoscope.replayer.simulator.server import Simulator, SimulatorOptions
from rotoscope.replayer.simulator.serving import Desk
from rotoscope.replayer.simulator.template import render
from rotoscope.replayer.simulator.timing import Timing
from rotoscope.replayer.simulator.tokenizer import encode

MODEL = "scripted-model"
SPEED = 20.0
"""A token takes about 0.2 ms, so that a long answer is still going on when its client leaves."""
REFUSE = re.compile(rb"refuse this twice, please: [0-9]+")
"""A request that holds this is answered with each of REFUSALS, then as any other."""
REFUSALS = {429: "rate_limit_error", 500: "api_error"}
MEET = re.compile(rb"Where does the (Leie|Scheldt) end")
"""The first requests of a dialect that hold the one and the other wait for each other, however slow the client is."""
CALLS = (
    *("/chat/completions", "/completions", "/responses", "/messages"),
    *(":generateContent", ":streamGenerateContent"),
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Script = Callable[[ModelRequest], Answer]


@dataclass
class Seen:
    """One request as the server saw it."""

    path: str
    body: bytes = field(repr=False)
    headers: dict[str, str] = field(repr=False)
    status: int = 0
    generations: Sequence[Generation] = ()
    """Prompt and output of each choice; none where it was refused."""
    tool_ids: Sequence[str] = ()
    """Of the tool calls in the answer, where the server keeps them."""
    embedded: Sequence[int] = ()
    """How many tokens were embedded."""

    @property
    def is_call(self) -> bool:
        return self.path.endswith(CALLS)


_current: ContextVar[Seen] = ContextVar("the request that is being answered")


def current_request() -> Seen:
    """Return the request that is being answered."""
    return _current.get()


class KeepingEngine(Engine):
    """An engine that tells which request it generates for."""

    def generate(self, generations: Sequence[Generation]) -> AsyncGenerator[tuple[int, int, int], None]:
        _current.get().generations = generations
        return super().generate(generations)


class ScriptedServer(Simulator):
    """The simulator with a script; `seen` is what came, in the order in which it came."""

    url = ""
    refusals: Mapping[int, str] = REFUSALS
    timing: Timing = LLAMA_SERVER_TINY
    engine_type: type[KeepingEngine] = KeepingEngine

    def __init__(self, script: Script, *, says_in_errors: str) -> None:
        super().__init__(SimulatorOptions(model=MODEL, speed=SPEED, blocks=65536, timing=self.timing))
        (replica,) = self.fleet.replicas
        replica.engine = self.engine_type(replica.engine.scheduler, replica.engine.clock)
        self._desk = Desk(self.fleet, ScriptedModel(script), name=MODEL, context_tokens=self.context_tokens)
        self.seen: list[Seen] = []
        self._says_in_errors = says_in_errors
        self._refused: Counter[bytes] = Counter()
        self._stored: dict[str, list[object]] = {}
        self._met: defaultdict[str, dict[bytes, asyncio.Event]] = defaultdict(
            lambda: {name: asyncio.Event() for name in (b"Leie", b"Scheldt")}
        )

    def application(self) -> web.Application:
        """Return the web application with all routes."""
        app = super().application()
        app.middlewares.append(self._keep)
        app.add_routes(
            [web.post("/v1/messages/count_tokens", self._count_tokens), web.post("/v1/embeddings", self._embeddings)]
        )
        return app

    @web.middleware
    async def _keep(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        seen = Seen(request.path, await request.read(), dict(request.headers))
        self.seen.append(seen)
        _current.set(seen)
        await self._meet(seen)
        response = self._fault(seen) or await handler(request)
        seen.status = response.status
        return response

    async def _meet(self, seen: Seen) -> None:
        found = MEET.search(seen.body) if seen.is_call else None
        if found is not None:
            both = self._met[seen.path]
            both[found[1]].set()
            for met in both.values():
                await met.wait()

    def _fault(self, seen: Seen) -> web.Response | None:
        found = REFUSE.search(seen.body) if seen.is_call else None
        if found is None or self._refused[found[0]] == len(self.refusals):
            return None
        status, kind = list(self.refusals.items())[self._refused[found[0]]]
        self._refused[found[0]] += 1
        error = {"type": kind, "message": f"not now: {self._says_in_errors}", "code": kind, "param": None}
        return web.json_response({"type": "error", "error": error}, status=status, headers={"retry-after-ms": "20"})

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        """Answer a response that may go on from a stored one; what is streamed is not stored."""
        data = wire.parse_json(await request.read())
        asked = data["input"] if isinstance(data["input"], list) else [{"role": "user", "content": data["input"]}]
        items = [*self._stored.get(data.pop("previous_response_id", None) or "", ()), *asked]
        body = wire.parse(ResponsesBody, data | {"input": items})
        response = await self._desk.serve(
            request, body, [self._chat_prompt(body, body.messages(), body.chat_tools())], RESPONSES_FORM
        )
        if isinstance(response, web.Response) and isinstance(response.body, bytes):
            said = orjson.loads(response.body)
            self._stored[said["id"]] = [*items, *said["output"]]
        return response

    async def _count_tokens(self, request: web.Request) -> web.StreamResponse:
        body = wire.parse(MessagesBody, wire.parse_json(await request.read()) | {"max_tokens": 1})
        return web.json_response({"input_tokens": len(encode(render(body.conversation(), body.chat_tools())))})

    async def _embeddings(self, request: web.Request) -> web.StreamResponse:
        inputs = wire.parse_json(await request.read())["input"]
        texts = inputs if isinstance(inputs, list) and not isinstance(inputs[0], int) else [inputs]
        tokens = sum(len(encode(text)) if isinstance(text, str) else len(text) for text in texts)
        _current.get().embedded = [tokens]
        data = [{"object": "embedding", "index": index, "embedding": [0.25, -0.5]} for index in range(len(texts))]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return web.json_response({"object": "list", "model": MODEL, "data": data, "usage": usage})


@asynccontextmanager
async def scripted_server(script: Script, *, says_in_errors: str = "busy") -> AsyncIterator[ScriptedServer]:
    """Run a scripted server; `says_in_errors` stands in the messages of its faults."""
    server = ScriptedServer(script, says_in_errors=says_in_errors)
    async with serving(server):
        yield server


@asynccontextmanager
async def serving(server: ScriptedServer) -> AsyncIterator[None]:
    """Let a server listen on a free port, which its URL then names."""
    runner = web.AppRunner(server.application(), access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    engine = asyncio.create_task(server.fleet.run())
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield
    finally:
        engine.cancel()
        with suppress(asyncio.CancelledError):
            await engine
        await runner.cleanup()
