"""The simulator as an OpenAI-compatible server: its options, its routes, and where it says that it is a simulator.

It says so in the model's name and metadata, in each answer's `system_fingerprint` and in the header
`x-rotoscope-simulated`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from traceback import format_tb
from typing import Any

import orjson
from aiohttp import web

from rotoscope import __version__
from rotoscope.replayer.simulator import metrics, wire
from rotoscope.replayer.simulator.api_generate import GENERATE_FORM, GenerateBody
from rotoscope.replayer.simulator.api_messages import MESSAGES_FORM, MessagesBody, refusal_body
from rotoscope.replayer.simulator.api_responses import RESPONSES_FORM, ResponsesBody
from rotoscope.replayer.simulator.block_cache import BlockCache
from rotoscope.replayer.simulator.bodies import read_body
from rotoscope.replayer.simulator.constants import LLAMA_SERVER_TINY
from rotoscope.replayer.simulator.engine import Engine
from rotoscope.replayer.simulator.fleet import Fleet, Replica, router_named
from rotoscope.replayer.simulator.host_tier import HostTier
from rotoscope.replayer.simulator.model import Message, Model, ModelRequest, RandomModel
from rotoscope.replayer.simulator.responses import CHAT_FORM, FINGERPRINT, TEXT_FORM
from rotoscope.replayer.simulator.scheduler import Scheduler
from rotoscope.replayer.simulator.serving import Desk
from rotoscope.replayer.simulator.template import render
from rotoscope.replayer.simulator.timing import Clock, Timing, clock_of_speed
from rotoscope.replayer.simulator.tokenizer import decode, encode, vocabulary_size
from rotoscope.replayer.simulator.wire import Refusal
from rotoscope.traces.analysis.profiles import profile_named
from rotoscope.traces.errors import RunFailed, UnusableInput

SIMULATED_HEADER = "x-rotoscope-simulated"
DEFAULT_MODEL_NAME = "rotoscope-simulator"
MOST_BLOCKS = 100_000_000
"""Of all replicas: each takes 33 bytes of memory before anything is in it."""
MOST_REPLICAS = 1000

_MESSAGES_PATH = "/v1/messages"
_LARGEST_BODY_BYTES = 256 << 20
_SHUTDOWN_S = 1.0
_CLIENT_GONE = 499
"""As nginx calls it."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SimulatorOptions:
    """What is simulated and where it listens."""

    host: str = "127.0.0.1"
    port: int = 0
    """0 takes any free port."""
    model: str = DEFAULT_MODEL_NAME
    blocks: int = 8192
    """Capacity of the KV cache, and with it the longest context: blocks times block size."""
    host_blocks: int = 0
    """Capacity of the tier in host memory behind it; 0 is none."""
    block_size: int | None = None
    """Tokens a block; None takes the profile's."""
    replicas: int = 1
    """Engines, each with caches of these sizes."""
    router: str = "round-robin"
    """What deals requests to them, by its name."""
    profile: str = "vllm"
    max_batch: int = 16
    speed: float = 1.0
    """How many times faster than modelled; 0 does not wait at all."""
    seed: int = 0
    timing: Timing = LLAMA_SERVER_TINY

    def __post_init__(self) -> None:
        if self.blocks < 1:
            raise UnusableInput(f"{self.blocks} blocks are not a cache: give at least 1")
        if self.host_blocks < 0:
            raise UnusableInput(f"{self.host_blocks} blocks are no host tier: give 0 for none, or more")
        if self.max_batch < 1:
            raise UnusableInput(f"a batch of {self.max_batch} runs nothing: give at least 1")
        if self.replicas < 1:
            raise UnusableInput(f"{self.replicas} replicas compute nothing: give at least 1")
        if self.replicas > MOST_REPLICAS:
            raise UnusableInput(
                f"{self.replicas} replicas are more than {MOST_REPLICAS:,}, the most that are simulated"
            )
        if self.blocks * self.replicas > MOST_BLOCKS:
            raise UnusableInput(f"{self.blocks} blocks of each replica: all of them may have {MOST_BLOCKS:,} at most")


@asynccontextmanager
async def running_simulator(options: SimulatorOptions | None = None, model: Model | None = None) -> AsyncIterator[str]:
    """Run a simulator inside this event loop and yield its URL, without the /v1."""
    simulator = Simulator(options or SimulatorOptions(), model)
    runner = web.AppRunner(
        simulator.application(),
        access_log=None,
        auto_decompress=False,  # bodies.py does it: aiohttp lets go of the connection where one is not what it says
        handler_cancellation=True,
        shutdown_timeout=_SHUTDOWN_S,
    )
    await runner.setup()
    engines = asyncio.create_task(simulator.fleet.run())
    try:
        yield await _listen(runner, simulator.options)
    finally:
        engines.cancel()
        with suppress(asyncio.CancelledError):
            await engines
        await runner.cleanup()


class Simulator:
    """One simulated server: its parts and its routes."""

    def __init__(self, options: SimulatorOptions, model: Model | None = None) -> None:
        self.options = options
        self.profile = profile_named(options.profile, block_size=options.block_size)
        # a clock each: one that jumps would add their times up
        self.fleet = fleet_of(options, lambda: clock_of_speed(options.speed))
        self.context_tokens = options.blocks * self.profile.block_size
        self._desk = Desk(self.fleet, model or RandomModel(), name=options.model, context_tokens=self.context_tokens)
        self._started_at = int(time.time())

    def application(self) -> web.Application:
        """Return the web application with all routes."""
        app = web.Application(client_max_size=_LARGEST_BODY_BYTES, middlewares=[_errors_as_json])
        app.on_response_prepare.append(_say_simulated)
        app.add_routes(
            [
                web.get("/", self._front),
                web.get("/health", self._health),
                web.get("/version", self._version),
                web.get("/metrics", self._metrics),
                web.get("/v1/models", self._models),
                web.get("/v1/models/{name:.+}", self._one_model),
                web.post("/v1/completions", self._completions),
                web.post("/v1/chat/completions", self._chat_completions),
                web.post("/v1/responses", self._responses),
                web.post(_MESSAGES_PATH, self._messages),
                web.post("/generate", self._generate),
                web.post("/tokenize", self._tokenize),
                web.post("/detokenize", self._detokenize),
                web.post("/apply-template", self._apply_template),
            ]
        )
        return app

    async def _front(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"server": FINGERPRINT, "simulated": True, "model": self.options.model})

    async def _health(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"status": "ok"})

    async def _version(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"version": __version__})

    async def _metrics(self, request: web.Request) -> web.StreamResponse:
        engines = [(replica.engine.at_this_moment(), replica.latencies) for replica in self.fleet.replicas]
        text = metrics.render(engines, self.options.model)
        return web.Response(body=text.encode(), headers={"content-type": metrics.CONTENT_TYPE})

    async def _models(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"object": "list", "data": [self._model_card()]})

    async def _one_model(self, request: web.Request) -> web.StreamResponse:
        self._desk.check_model(request.match_info["name"])
        return web.json_response(self._model_card())

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        body = wire.parse(wire.CompletionBody, wire.parse_json(await read_body(request)))
        prompts = [ModelRequest(ids, seed=self._seed(body)) for ids in body.prompts()]
        return await self._desk.serve(request, body, prompts, TEXT_FORM)

    async def _chat_completions(self, request: web.Request) -> web.StreamResponse:
        body = wire.parse(wire.ChatBody, wire.parse_json(await read_body(request)))
        prompt = self._chat_prompt(body, wire.messages_of(body), tuple(body.tools or ()))
        return await self._desk.serve(request, body, [prompt], CHAT_FORM)

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        body = wire.parse(ResponsesBody, wire.parse_json(await read_body(request)))
        prompt = self._chat_prompt(body, body.messages(), body.chat_tools())
        return await self._desk.serve(request, body, [prompt], RESPONSES_FORM)

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        body = wire.parse(MessagesBody, wire.parse_json(await read_body(request)))
        prompt = self._chat_prompt(body, body.conversation(), body.chat_tools())
        return await self._desk.serve(request, body, [prompt], MESSAGES_FORM)

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body = wire.parse(GenerateBody, wire.parse_json(await read_body(request)))
        limits = body.generation()
        return await self._desk.serve(
            request, limits, [ModelRequest(body.prompt(), seed=self._seed(limits))], GENERATE_FORM
        )

    async def _tokenize(self, request: web.Request) -> web.StreamResponse:
        data = wire.parse_json(await read_body(request))
        if "messages" in data:
            ids = encode(_prompt_text(wire.parse(wire.TemplateBody, data)))
        else:
            ids = encode(wire.parse(wire.TokenizeBody, data).text())
        return _json({"count": len(ids), "max_model_len": self.context_tokens, "tokens": ids.tolist()})

    async def _detokenize(self, request: web.Request) -> web.StreamResponse:
        body = wire.parse(wire.DetokenizeBody, wire.parse_json(await read_body(request)))
        return _json({"prompt": decode(wire.token_ids(body.tokens)) if body.tokens else ""})

    async def _apply_template(self, request: web.Request) -> web.StreamResponse:
        body = wire.parse(wire.TemplateBody, wire.parse_json(await read_body(request)))
        return _json({"prompt": _prompt_text(body)})

    def _chat_prompt(
        self, body: wire.GenerationBody, messages: tuple[Message, ...], tools: tuple[dict[str, Any], ...]
    ) -> ModelRequest:
        return ModelRequest(encode(render(messages, tools)), messages, tools, seed=self._seed(body))

    def _seed(self, body: wire.GenerationBody) -> int:
        return self.options.seed if body.seed is None else body.seed

    def _model_card(self) -> dict[str, Any]:
        return model_card(self.options, created_at=self._started_at)


def model_card(options: SimulatorOptions, *, created_at: int = 0) -> dict[str, Any]:
    """Return what `/v1/models` tells of a simulator."""
    profile = profile_named(options.profile, block_size=options.block_size)
    return {
        "id": options.model,
        "object": "model",
        "created": created_at,
        "owned_by": FINGERPRINT,
        "max_model_len": options.blocks * profile.block_size,
        "meta": {
            "simulated": True,
            "n_vocab": vocabulary_size(),
            "profile": profile.name,
            "block_size": profile.block_size,
            "blocks": options.blocks,
            "host_blocks": options.host_blocks,
            "max_batch": options.max_batch,
            "replicas": options.replicas,
            "router": options.router,
            "timing": options.timing.source,
        },
    }


def fleet_of(options: SimulatorOptions, new_clock: Callable[[], Clock]) -> Fleet:
    """Return the replicas of a simulator, each on a clock of its own."""
    replicas = [Replica(_engine(options, new_clock())) for _ in range(options.replicas)]
    return Fleet(replicas, router_named(options.router))


def _engine(options: SimulatorOptions, clock: Clock) -> Engine:
    profile = profile_named(options.profile, block_size=options.block_size)
    host = HostTier(options.host_blocks) if options.host_blocks else None
    scheduler = Scheduler(BlockCache(options.blocks, host), options.timing, profile, max_batch=options.max_batch)
    return Engine(scheduler, clock)


async def _listen(runner: web.AppRunner, options: SimulatorOptions) -> str:
    try:
        await web.TCPSite(runner, options.host, options.port).start()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise RunFailed(f"cannot listen on {options.host} port {options.port}: {reason}") from error
    host, port = runner.addresses[0][:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _prompt_text(body: wire.TemplateBody) -> str:
    generation = body.add_generation_prompt is not False
    return render(wire.messages_of(body), body.tools or (), add_generation_prompt=generation)


def _json(body: dict[str, Any], status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=status, content_type="application/json")


async def _say_simulated(request: web.Request, response: web.StreamResponse) -> None:
    response.headers[SIMULATED_HEADER] = "true"


@web.middleware
async def _errors_as_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    try:
        return await handler(request)
    except Refusal as refusal:
        return _refused(request, refusal)
    except web.HTTPException as error:
        return _refused(request, Refusal(f"{request.method} {request.path}: {error.reason}", status=error.status))
    except ConnectionError:  # the client has gone: nobody gets this, but of what is raised aiohttp logs a traceback
        return web.Response(status=_CLIENT_GONE)
    except Exception as error:  # noqa: BLE001 - the client gets an answer whatever a scripted model or we do wrong
        # where it failed, but not its message: that may hold what somebody said
        _log.error("request failed: %s\n%s", type(error).__name__, "".join(format_tb(error.__traceback__)))
        return _refused(request, Refusal(f"the simulator failed: {type(error).__name__}", status=500))


def _refused(request: web.Request, refusal: Refusal) -> web.Response:
    body = refusal_body(refusal) if request.path == _MESSAGES_PATH else refusal.body
    return _json(body, refusal.status)
