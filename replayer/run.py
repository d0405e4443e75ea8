"""Replay traces against a server: ask it what is not given, choose how it is asked, and perform the sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import aiohttp

from rotoscope.replayer.backends.apis import Api
from rotoscope.replayer.backends.engines import ANY_ENGINE, Engine, engine_named
from rotoscope.replayer.backends.http import HttpBackend, Tell
from rotoscope.replayer.client_load import ClientMeter
from rotoscope.replayer.clock import LoopClock
from rotoscope.replayer.connection import client_session
from rotoscope.replayer.gpu_telemetry.readings import GpuSource
from rotoscope.replayer.gpu_telemetry.source import gpu_source
from rotoscope.replayer.notes import Notes, Say
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.performing import Target, Watch, perform_run, work_of
from rotoscope.replayer.preflight import check_context
from rotoscope.replayer.server import Server, ask_server
from rotoscope.replayer.server_metrics.window import CountedWindow
from rotoscope.replayer.server_version import ask_version
from rotoscope.replayer.setup import choose_profile
from rotoscope.replayer.summary import Summary
from rotoscope.replayer.way import Ways
from rotoscope.traces.model import Trace

_ASK_S = 30.0


def replay(
    traces: Sequence[Trace], options: ReplayOptions, *, say: Say = lambda text: None, watch: Watch | None = None
) -> Summary:
    """Replay traces and return the summary, which is in the folder too; raise RunFailed where none could be started.

    `say` takes lines for people, `watch` the progress, four times a second. SIGINT and SIGTERM end the run early and
    the summary says so.
    """
    return asyncio.run(replay_async(traces, options, say=say, watch=watch))


async def replay_async(
    traces: Sequence[Trace], options: ReplayOptions, *, say: Say = lambda text: None, watch: Watch | None = None
) -> Summary:
    """Do the same inside a running event loop; when cancelled, write the summary and pass the cancellation on."""
    notes = Notes(say)
    work = work_of(traces, options, notes)
    server = await _ask(options)
    profile = choose_profile(options, server)
    check_context(work.calls(), server, notes)
    async with (
        _http_session(options, reuses_connections=not server.engine.closes_connections) as http,
        gpu_source(options.dcgm, options.server_url, simulated=server.simulated) as gpus,
    ):
        options = _with_gpus(options, gpus, notes)
        way = await Ways(options, server, notes, http, partial(_backend, http, options, server.model)).choose()
        counted = await CountedWindow.opened(http, options.server_url, timeout_s=options.timeout_s)
        target = Target(
            server=replace(server, engine=way.engine),
            api=way.api.name,
            prompting=way.prompting,
            backend=way.backend,
            profile=profile,
            counted=counted,
            source=counted.source,
            gpus=gpus,
            meter=ClientMeter(LoopClock()),
        )
        return await perform_run(work, target, options, notes=notes, say=say, watch=watch)


def _with_gpus(options: ReplayOptions, gpus: GpuSource | None, notes: Notes) -> ReplayOptions:
    """Return the options with the number of GPUs that an exporter tells of, where none is given."""
    if options.gpus is not None or gpus is None or gpus.teller != "dcgm":
        return options
    told = len(gpus.start)
    notes.add(f"jobs/h/GPU takes the {told} GPUs that the DCGM exporter tells of: give --gpus if the server has others")
    return replace(options, gpus=told)


async def _ask(options: ReplayOptions) -> Server:
    async with _http_session(options, reuses_connections=False) as http:
        timeout_s = min(_ASK_S, options.timeout_s)
        url = options.server_url
        server = await ask_server(http, url, model=options.model, timeout_s=timeout_s, engine=options.engine)
        return replace(server, version=await ask_version(http, url, engine=server.engine, timeout_s=timeout_s))


def _http_session(options: ReplayOptions, *, reuses_connections: bool) -> aiohttp.ClientSession:
    engine = engine_named(options.engine) if options.engine else ANY_ENGINE
    return client_session(
        api_key=options.api_key, engine=engine, timeout_s=options.timeout_s, reuses_connections=reuses_connections
    )


def _backend(
    http: aiohttp.ClientSession,
    options: ReplayOptions,
    model: str,
    engine: Engine,
    api: Api,
    tell: Tell,
    timeout_s: float,
) -> HttpBackend:
    return HttpBackend(
        http,
        options.server_url,
        api=api,
        model=model,
        engine=engine,
        timeout_s=timeout_s,
        clock=LoopClock(),
        tell=tell,
    )
