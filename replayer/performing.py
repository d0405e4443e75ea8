"""One run of sessions against a backend, from what is to be performed to the summary; what the backend is does not matter.

Results are written as they come; an interruption cancels what is in flight and the rest is summed up all the same.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from rotoscope.replayer.client_load import ClientMeter
from rotoscope.replayer.clock import LoopClock
from rotoscope.replayer.exchange import Backend
from rotoscope.replayer.gates.checking import check_gates
from rotoscope.replayer.gates.evidence import Evidence
from rotoscope.replayer.gates.gate import Validity
from rotoscope.replayer.gpu_telemetry.readings import GpuSource
from rotoscope.replayer.gpu_telemetry.series import gpu_series_of
from rotoscope.replayer.interruption import until_interrupted
from rotoscope.replayer.lanes import Lanes, Progress
from rotoscope.replayer.load.order import order_of
from rotoscope.replayer.load.plan import LoadPlan, plan_load
from rotoscope.replayer.load.warm_up import Times, Warmed, warm_up
from rotoscope.replayer.notes import Notes, Say
from rotoscope.replayer.options import MOST, ReplayOptions
from rotoscope.replayer.polling import Interval, sampling
from rotoscope.replayer.preflight import NO_IDS
from rotoscope.replayer.prompting import Prompting, fewest_output_tokens
from rotoscope.replayer.prompts import PromptPlan
from rotoscope.replayer.results import TIMELINE_FILE, ResultsFolder, make_folder
from rotoscope.replayer.schedule import plan_session
from rotoscope.replayer.server import Server
from rotoscope.replayer.server_metrics.counts import Growth
from rotoscope.replayer.server_metrics.series import Source, series_of
from rotoscope.replayer.session import Part, Performed
from rotoscope.replayer.setup import Identity, Setup, identity_of, setup_of
from rotoscope.replayer.summary import Summary, findings, summarise
from rotoscope.traces.analysis.profiles import EngineProfile
from rotoscope.traces.errors import RunFailed, UnusableInput
from rotoscope.traces.model import Call, Trace

Watch: TypeAlias = Callable[[Progress], None]

_NO_TEXT = "answers came whose tokens cannot be sent back as text: later prompts cannot take them up from the cache"
_ALL_AFTER = 1_000
"""Collections of what is new, of some 7,000 objects each, before the collector looks through everything."""


class Counted(Protocol):
    """Tells what a server has counted since the run began."""

    async def begin(self, *, expected_tokens: int) -> None:
        """Count from here on; at least `expected_tokens` prompt tokens were sent before."""
        ...

    async def growth(self, *, expected_tokens: int = 0) -> Growth | None:
        """Return it; None where the server does not tell. At least `expected_tokens` prompt tokens are to come."""
        ...


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be performed, whoever serves it."""

    load: LoadPlan
    traces: Sequence[Trace]
    parts: Sequence[Part]
    identity: Identity

    def calls(self) -> list[Call]:
        """Return the calls of all traces."""
        return [call for part in self.parts for call in part.calls.values()]


@dataclass(frozen=True, slots=True)
class Target:
    """The server of a run and how it is asked."""

    server: Server
    api: str
    prompting: Prompting
    backend: Backend
    profile: EngineProfile
    """Of the optimum."""
    counted: Counted
    meter: ClientMeter | None = None
    """Measures this client; None where time is modelled."""
    source: Source | None = None
    """Of samples of the server over the run; None takes none."""
    gpus: GpuSource | None = None
    """Of samples of the GPUs behind it."""
    watch_interval: Interval = lambda elapsed_s: 0.25
    """After how many seconds the progress is told anew, by how far the run is."""


def work_of(
    traces: Sequence[Trace], options: ReplayOptions, notes: Notes, *, simulated: Mapping[str, str] | None = None
) -> Work:
    """Return what a replay of these traces performs; raise UnusableInput where that is nothing.

    `simulated` are the settings of the simulator that serves it in modelled time; None is a server.
    """
    load = plan_load(options, traces=len(traces))
    identity = identity_of(traces, options, simulated=simulated)
    traces = traces[: load.numbered]
    parts = [_part(number, trace, options) for number, trace in enumerate(traces)]
    if not parts:
        raise UnusableInput("no trace to replay")
    if any(trace.outputs == "assumed" for trace in traces):
        notes.add(
            "that prompts which grew hold the answer before is assumed where the format of the trace cannot say it"
        )
    return Work(load, traces, parts, identity)


async def perform_run(
    work: Work, target: Target, options: ReplayOptions, *, notes: Notes, say: Say, watch: Watch | None
) -> Summary:
    """Perform the work in a new folder of results and return the summary, which is in it too."""
    prompting = target.prompting
    setup = setup_of(
        replace(options, api=target.api),
        target.server,
        traces=len(work.traces),
        sessions=work.load.sessions,
        profile=target.profile,
        vocabulary=prompting.vocabulary,
        calibration=prompting.calibration,
        identity=work.identity,
    )
    plan = PromptPlan(
        work.traces,
        seed=setup.seed,
        salt=setup.salt,
        sessions=work.load.numbered,
        vocabulary=prompting.vocabulary,
        rendering=prompting.rendering,
    )
    folder = make_folder(options.folder)
    say(f"results go to {folder}")
    with ResultsFolder.opened(folder) as results:
        warmed = await _warm_up(plan, target, options.warm_up, notes)
        run = _Run(setup, plan, work, target=target, results=results, notes=notes, warmed=warmed)
        return await run.perform(watch)


async def _warm_up(plan: PromptPlan, target: Target, times: Times | None, notes: Notes) -> Warmed | None:
    """Preload shared prefixes where that was asked for; the server's counters count from then on."""
    if times is None:
        return None
    warmed = await warm_up(
        plan.shared_prompts(),
        target.backend,
        times=(target.server.replicas or 1) if times == "auto" else times,
        output_tokens=fewest_output_tokens(target.api),
        notes=notes,
    )
    await target.counted.begin(expected_tokens=sum(one.counted_tokens for one in warmed.preloaded))
    return warmed


class _Run:
    """One run, from its first session to its summary."""

    def __init__(
        self,
        setup: Setup,
        plan: PromptPlan,
        work: Work,
        *,
        target: Target,
        results: ResultsFolder,
        notes: Notes,
        warmed: Warmed | None,
    ) -> None:
        self._setup = setup
        self._plan = plan
        self._work = work
        self._target = target
        self._results = results
        self._notes = notes
        self._warmed = warmed
        self._without_ids = 0
        self._lanes = Lanes(
            plan,
            work.parts,
            load=work.load,
            backend=target.backend,
            clock=LoopClock(),
            results=results,
            on_request=self._on_request,
            simulated=setup.simulated,
        )
        self._series = series_of(target.source, elapsed_s=self._elapsed_s, results=results)
        self._gpus = gpu_series_of(target.gpus, elapsed_s=self._elapsed_s, results=results)
        self._note_first(target.prompting)

    async def perform(self, watch: Watch | None) -> Summary:
        """Perform all sessions and write the summary; what was measured before an early end is summed up too."""
        with _without_pauses():
            return await self._perform(watch)

    async def _perform(self, watch: Watch | None) -> Summary:
        try:
            if self._gpus:
                await self._gpus.begin()
            async with (
                _watched(self._lanes, watch, interval=self._target.watch_interval),
                _measured(self._target.meter),
                sampling(self._series),
                sampling(self._gpus),
            ):
                interrupted = await until_interrupted(self._lanes.perform())
            duration_s = self._elapsed_s()
            counted = None if interrupted else await self._look_at_end(duration_s)
        except BaseException:  # an interruption too: what was measured by then is worth its summary
            with suppress(RunFailed):
                self._sum_up(interrupted=True, duration_s=self._elapsed_s())
            raise
        return self._sum_up(interrupted=interrupted, duration_s=duration_s, counted=counted)

    async def _look_at_end(self, ended_s: float) -> Growth | None:
        """Return what the server has counted in the whole run."""
        if self._gpus:
            await self._gpus.look_at_end()
        used = sum(one.prompt_tokens or 0 for one in self._lanes.requests)
        counted = await self._target.counted.growth(expected_tokens=used)
        if self._series:
            await self._series.look_at_end(ended_s)
        return counted

    def _elapsed_s(self) -> float:
        return self._lanes.progress().elapsed_s

    def _note_first(self, prompting: Prompting) -> None:
        """Count what was asked before the run, to try the server, among what it may have in its cache."""
        first = prompting.first
        if first is not None:
            self._lanes.sent.add_first(prompting.first_ids, sent_s=first.sent_s, first_token_s=first.first_token_s)
        for preloaded in self._warmed.preloaded if self._warmed else ():
            self._lanes.sent.add_preloaded(preloaded)

    def _on_request(self, performed: Performed) -> None:
        result = performed.result
        if result.failure:
            self._notes.hear(result.failure, "")
        if result.status == "ok" and result.planned_completion_tokens and not performed.has_ids:
            self._without_ids += 1
            self._notes.add(_NO_TEXT if self._setup.words else NO_IDS)

    def _sum_up(self, *, interrupted: bool, duration_s: float, counted: Growth | None = None) -> Summary:
        lanes = self._lanes
        may_end_early = self._work.load.is_open_ended
        planned = lanes.let_in if may_end_early else self._setup.sessions
        summary = summarise(
            self._setup,
            requests=lanes.requests,
            optimal_tokens=lanes.sent.optimal_tokens(lanes.requests, self._target.profile),
            sessions=lanes.sessions,
            planned_sessions=planned,
            planned_requests=_planned_requests(self._work.parts, self._work.load.numbers[:planned]),
            without_ids=self._without_ids,
            interrupted=interrupted,
            duration_s=duration_s,
            ended_by="interruption" if interrupted else lanes.ended_by,
            in_flight_at_end=lanes.in_flight_at_end if may_end_early else None,
            counted=counted,
            series=self._series,
            gpus=self._gpus,
            meter=self._target.meter,
            order=order_of(self._work.load, self._work.parts, lanes.requests),
            warm_up=self._warmed.told if self._warmed else None,
        )
        summary = replace(summary, validity=self._validity(summary))
        for text in (*_findings_of_tokens(self._plan), *findings(summary)):
            self._notes.add(text)
        summary = replace(summary, notes=self._notes.kept)
        for part in summary.timeline:
            self._results.write_line(TIMELINE_FILE, part)
        self._results.write_summary(summary.as_dict())
        return summary

    def _validity(self, summary: Summary) -> Validity:
        sent, source = self._lanes.sent, self._target.source
        evidence = Evidence(
            summary=summary,
            server=source.start if source else None,
            origins=sent.origins(),
            shared_tokens=sent.shared_tokens,
        )
        return check_gates(evidence, skipped=self._setup.skipped_gates)


def _part(number: int, trace: Trace, options: ReplayOptions) -> Part:
    calls = {call.call: call for call in trace.calls()}
    if not calls:
        raise UnusableInput(f"trace {number + 1} has no call to replay")
    schedule = plan_session(trace, options.gaps)
    longest_s = max(step.seconds for step in schedule.steps)
    if longest_s > MOST:
        raise UnusableInput(f"trace {number + 1} has a gap of {longest_s:.3g} s: give a --gap-cap or less --gap-scale")
    return Part(calls, schedule)


def _planned_requests(parts: Sequence[Part], sessions: Sequence[int]) -> int:
    return sum(len(parts[number % len(parts)].calls) for number in sessions)


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
    """Keep the garbage collector from looking through everything, which stops all sessions.

    What was there before the run takes 70 ms, what 10,000 sessions hold seconds. A session is freed as it ends, without
    the collector; what is not, as cycles of exceptions, is looked for among what is new, and among everything once the
    run has allocated some million objects more than it has freed.
    """
    thresholds = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*thresholds[:2], _ALL_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


def _measured(meter: ClientMeter | None) -> AbstractAsyncContextManager[None]:
    return nullcontext() if meter is None else meter.measuring()


@asynccontextmanager
async def _watched(lanes: Lanes, watch: Watch | None, *, interval: Interval) -> AsyncIterator[None]:
    """Tell the progress now and then, and once at the end."""
    if watch is None:
        yield
        return
    task = asyncio.create_task(_watch(lanes, watch, interval=interval))
    try:
        yield
    finally:
        task.cancel()
        watch(lanes.progress())


async def _watch(lanes: Lanes, watch: Watch, *, interval: Interval) -> None:
    while True:
        watch(lanes.progress())
        await asyncio.sleep(interval(lanes.progress().elapsed_s))
