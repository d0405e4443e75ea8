"""Replay traces against a server: ask it what is not given, perform the sessions, sum up what was measured.

Results are written as they come; an interruption cancels what is in flight and the rest is summed up all the same.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import aiohttp

from rotoscope.replayer.backends.apis import Api
from rotoscope.replayer.backends.engines import ANY_ENGINE, Engine, engine_named
from rotoscope.replayer.backends.http import HttpBackend, Tell
from rotoscope.replayer.clock import LoopClock
from rotoscope.replayer.connection import client_session
from rotoscope.replayer.exchange import Backend
from rotoscope.replayer.interruption import until_interrupted
from rotoscope.replayer.lanes import Lanes, Progress
from rotoscope.replayer.load.plan import LoadPlan, plan_load
from rotoscope.replayer.notes import Notes, Say
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.preflight import NO_IDS, check_context
from rotoscope.replayer.prompting import Prompting
from rotoscope.replayer.prompts import PromptPlan
from rotoscope.replayer.results import ResultsFolder, make_folder
from rotoscope.replayer.schedule import plan_session
from rotoscope.replayer.server import Server, api_url, ask_server
from rotoscope.replayer.server_metrics.counts import Growth
from rotoscope.replayer.server_metrics.window import CountedWindow
from rotoscope.replayer.session import Part, Performed
from rotoscope.replayer.setup import Setup, choose_profile, setup_of
from rotoscope.replayer.summary import Summary, findings, summarise
from rotoscope.replayer.way import Ways
from rotoscope.traces.analysis.profiles import EngineProfile
from rotoscope.traces.errors import RunFailed, UnusableInput
from rotoscope.traces.model import Trace

Watch: TypeAlias = Callable[[Progress], None]

_NO_TEXT = "answers came whose tokens cannot be sent back as text: later prompts cannot take them up from the cache"
_ASK_S = 30.0
_WATCH_INTERVAL_S = 0.25


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
    load = plan_load(options, traces=len(traces))
    traces = traces[: load.numbered]
    parts = [_part(number, trace, options) for number, trace in enumerate(traces)]
    if not parts:
        raise UnusableInput("no trace to replay")
    server = await _ask(options)
    notes = Notes(say)
    if any(trace.outputs == "assumed" for trace in traces):
        notes.add(
            "that prompts which grew hold the answer before is assumed where the format of the trace cannot say it"
        )
    profile = choose_profile(options, server)
    check_context([call for part in parts for call in part.calls.values()], server, notes)
    async with _http_session(options, reuses_connections=not server.engine.closes_connections) as http:
        way = await Ways(options, server, notes, http, partial(_backend, http, options, server.model)).choose()
        prompting = way.prompting
        setup = setup_of(
            replace(options, api=way.api.name),
            replace(server, engine=way.engine),
            traces=len(traces),
            sessions=load.sessions,
            profile=profile,
            vocabulary=prompting.vocabulary,
            calibration=prompting.calibration,
        )
        plan = PromptPlan(
            traces,
            seed=setup.seed,
            salt=setup.salt,
            sessions=load.numbered,
            vocabulary=prompting.vocabulary,
            rendering=prompting.rendering,
        )
        folder = make_folder(options.folder)
        say(f"results go to {folder}")
        counted = await CountedWindow.opened(http, api_url(options.url), timeout_s=options.timeout_s)
        with ResultsFolder.opened(folder) as results:
            run = _Run(
                setup,
                plan,
                parts,
                load=load,
                profile=profile,
                backend=way.backend,
                results=results,
                notes=notes,
                counted=counted,
            )
            run.note_first(prompting)
            return await run.perform(watch)


class _Run:
    """One run, from its first session to its summary."""

    def __init__(
        self,
        setup: Setup,
        plan: PromptPlan,
        parts: Sequence[Part],
        *,
        load: LoadPlan,
        profile: EngineProfile,
        backend: Backend,
        results: ResultsFolder,
        notes: Notes,
        counted: CountedWindow,
    ) -> None:
        self._setup = setup
        self._plan = plan
        self._parts = parts
        self._load = load
        self._profile = profile
        self._results = results
        self._notes = notes
        self._counted = counted
        self._without_ids = 0
        self._lanes = Lanes(
            plan,
            parts,
            load=load,
            backend=backend,
            clock=LoopClock(),
            results=results,
            on_request=self._on_request,
            simulated=setup.simulated,
        )

    def note_first(self, prompting: Prompting) -> None:
        """Count what was asked before the run, to try the server, among what it may have in its cache."""
        first = prompting.first
        if first is not None:
            self._lanes.sent.add_first(prompting.first_ids, sent_s=first.sent_s, first_token_s=first.first_token_s)

    async def perform(self, watch: Watch | None) -> Summary:
        """Perform all sessions and write the summary; what was measured before an early end is summed up too."""
        try:
            with _without_pauses():
                async with _watched(self._lanes, watch):
                    interrupted = await until_interrupted(self._lanes.perform())
            duration_s = self._lanes.progress().elapsed_s
            used = sum(one.prompt_tokens or 0 for one in self._lanes.requests)
            counted = None if interrupted else await self._counted.growth(expected_tokens=used)
        except BaseException:  # an interruption too: what was measured by then is worth its summary
            with suppress(RunFailed):
                self._sum_up(interrupted=True, duration_s=self._lanes.progress().elapsed_s)
            raise
        return self._sum_up(interrupted=interrupted, duration_s=duration_s, counted=counted)

    def _on_request(self, performed: Performed) -> None:
        result = performed.result
        if result.failure:
            self._notes.hear(result.failure, "")
        if result.status == "ok" and result.planned_completion_tokens and not performed.has_ids:
            self._without_ids += 1
            self._notes.add(_NO_TEXT if self._setup.words else NO_IDS)

    def _sum_up(self, *, interrupted: bool, duration_s: float, counted: Growth | None = None) -> Summary:
        lanes = self._lanes
        has_end = self._setup.duration_s is not None
        planned = lanes.let_in if has_end else self._setup.sessions
        summary = summarise(
            self._setup,
            requests=lanes.requests,
            optimal_tokens=lanes.sent.optimal_tokens(lanes.requests, self._profile),
            sessions=lanes.sessions,
            planned_sessions=planned,
            planned_requests=_planned_requests(self._parts, self._load.numbers[:planned]),
            without_ids=self._without_ids,
            interrupted=interrupted,
            duration_s=duration_s,
            in_flight_at_end=lanes.in_flight_at_end if has_end else None,
            counted=counted,
        )
        for text in (*_findings_of_tokens(self._plan), *findings(summary)):
            self._notes.add(text)
        summary = replace(summary, notes=self._notes.kept)
        self._results.write_summary(summary.as_dict())
        return summary


def _part(number: int, trace: Trace, options: ReplayOptions) -> Part:
    calls = {call.call: call for call in trace.calls()}
    if not calls:
        raise UnusableInput(f"trace {number + 1} has no call to replay")
    return Part(calls, plan_session(trace, options.gaps))


def _planned_requests(parts: Sequence[Part], sessions: Sequence[int]) -> int:
    return sum(len(parts[number % len(parts)].calls) for number in sessions)


async def _ask(options: ReplayOptions) -> Server:
    async with _http_session(options, reuses_connections=False) as http:
        timeout_s = min(_ASK_S, options.timeout_s)
        url = api_url(options.url)
        return await ask_server(http, url, model=options.model, timeout_s=timeout_s, engine=options.engine)


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
        api_url(options.url),
        api=api,
        model=model,
        engine=engine,
        timeout_s=timeout_s,
        clock=LoopClock(),
        tell=tell,
    )


def _findings_of_tokens(plan: PromptPlan) -> list[str]:
    found = []
    if plan.crowded:
        found.append(f"{plan.crowded} streams need more than one token to part: the vocabulary is small")
    if plan.too_short:
        found.append(f"{plan.too_short} prompts are longer than recorded: the server's template and a word are longer")
    if plan.lost_tokens:
        found.append(
            f"{plan.lost_tokens} prompt tokens cannot be shared as recorded: the server's template is in the way"
        )
    if plan.unseparated:
        found.append(
            f"{plan.unseparated} streams went on like another one where they should part: "
            "usually the server answered a repeated prompt as before"
        )
    return found


@contextmanager
def _without_pauses() -> Iterator[None]:
    """Spare the garbage collector what was there before the run: looking through it stops all sessions for 70 ms."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@asynccontextmanager
async def _watched(lanes: Lanes, watch: Watch | None) -> AsyncIterator[None]:
    """Tell the progress now and then, and once at the end."""
    if watch is None:
        yield
        return
    task = asyncio.create_task(_watch(lanes, watch))
    try:
        yield
    finally:
        task.cancel()
        watch(lanes.progress())


async def _watch(lanes: Lanes, watch: Watch) -> None:
    while True:
        watch(lanes.progress())
        await asyncio.sleep(_WATCH_INTERVAL_S)
