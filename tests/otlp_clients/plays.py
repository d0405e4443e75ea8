"""Real instrumentations of real clients, whose spans a receiver on this machine gets while the gateway records the run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web
from clients.recorded import record_command
from clients.script import Script
from clients.scripted_server import Seen, scripted_server
from clients.stage import run_each, stage

from rotoscope.traces import Trace
from rotoscope.traces.formats.recognise import open_traces

HERE = Path(__file__).parent
CLIENTS = HERE.parent / "clients"
WITH_CONTENT = {
    "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental",
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_ONLY",
}


@dataclass(frozen=True, slots=True)
class Play:
    """One agent with one instrumentation."""

    environment: str
    agent: Path
    variables: dict[str, str] = field(default_factory=dict)
    way: str = ""
    """In `instrumented.py`, where it is not called as the environment."""


PLAYS = {
    "genai": Play("genai", CLIENTS / "openai_agent.py"),
    "genai-content": Play("genai", CLIENTS / "openai_agent.py", WITH_CONTENT),
    "genai-agents": Play("genai", HERE / "agents_sdk_agent.py", WITH_CONTENT),
    "openinference": Play("openinference", CLIENTS / "openai_agent.py"),
    "openinference-langgraph": Play("openinference", CLIENTS / "langgraph_agent.py"),
    "traceloop": Play("traceloop", CLIENTS / "openai_agent.py"),
    "traceloop-langgraph": Play("traceloop", CLIENTS / "langgraph_agent.py"),
    "langfuse": Play("langfuse", HERE / "langfuse_agent.py"),
    "logfire": Play("logfire", CLIENTS / "pydantic_ai_agent.py"),
    "anthropic-genai": Play("anthropic", CLIENTS / "anthropic_agent.py", WITH_CONTENT, "anthropic_genai"),
    "anthropic-openinference": Play("anthropic", CLIENTS / "anthropic_agent.py", way="anthropic_openinference"),
    "anthropic-traceloop": Play("anthropic", CLIENTS / "anthropic_agent.py", way="anthropic_traceloop"),
}


@dataclass(frozen=True)
class Told:
    """One run: what the server saw, what the gateway recorded, and what was made of the spans."""

    name: str
    seen: Sequence[Seen] = field(repr=False)
    recorded: Trace
    traces: Sequence[Trace]
    spans: Path
    """The file of spans, which holds content."""
    written: Path
    """What `rotoscope convert` wrote, and nothing else."""
    said: str
    """What `rotoscope convert` said."""
    canaries: Sequence[str] = field(repr=False)


def play_all(environments: Path, names: Sequence[str], folder: Path) -> dict[str, Told | BaseException]:
    """Run the plays of these names, some at the same time; return the error where one failed."""
    return run_each(names, lambda name: _play(name, PLAYS[name], environments, folder / name))


async def _play(name: str, play: Play, environments: Path, folder: Path) -> Told:
    on = stage(folder)
    async with scripted_server(Script(on.words), says_in_errors=on.words.error) as server, _receiver() as (url, bodies):
        variables = {
            "PYTHONPATH": str(CLIENTS),
            "RECEIVER": url,
            "LANGFUSE_HOST": url,
            "LANGFUSE_PUBLIC_KEY": "public",
            "LANGFUSE_SECRET_KEY": "secret",
        }
        status, said = await record_command(
            [
                str(environments / play.environment / "bin/python"),
                str(HERE / "instrumented.py"),
                play.way or play.environment,
                str(play.agent),
            ],
            upstream=f"{server.url}/v1",
            folder=on.recordings,
            environment=on.environment | variables | play.variables,
        )
    recorded = on.trace(status, said)
    spans = folder / "spans.binpb"
    spans.write_bytes(b"".join(bodies))  # messages behind one another are one message
    told = await _convert(spans, folder / "written")
    traces = [one.trace for one in open_traces([folder / "written"])]
    return Told(name, server.seen, recorded, traces, spans, folder / "written", told, on.canaries)


async def _convert(spans: Path, folder: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "rotoscope", "convert", str(spans), f"{folder}/"),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert process.returncode == 0, said.decode()
    return said.decode()


@asynccontextmanager
async def _receiver() -> AsyncIterator[tuple[str, list[bytes]]]:
    """Give the URL of a server that keeps the bodies of exported traces, as they came."""
    bodies: list[bytes] = []

    async def take(request: web.Request) -> web.Response:
        body = await request.read()
        if request.path.endswith("/traces"):
            bodies.append(body)
        return web.Response(content_type="application/x-protobuf")

    app = web.Application(client_max_size=1 << 28)
    app.router.add_post("/{path:.*}", take)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", bodies
    finally:
        await runner.cleanup()
