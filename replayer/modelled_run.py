"""Replay traces on simulated engines in this process and in modelled time, which takes no longer than to compute it.

The run is that of `run.py`, but for the backend: the same sessions, prompts, load, results and summary. What would be
seen over HTTP beside the server's own times is missing: connections, JSON, a client that is late.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from rotoscope import __version__
from rotoscope.replayer.lanes import Progress
from rotoscope.replayer.notes import Notes, Say
from rotoscope.replayer.options import AUTO_API, ReplayOptions
from rotoscope.replayer.performing import Target, Watch, perform_run, work_of
from rotoscope.replayer.polling import sparse_interval_s
from rotoscope.replayer.preflight import check_context
from rotoscope.replayer.prompting import Prompting
from rotoscope.replayer.rendering import TOKEN_ARRAYS
from rotoscope.replayer.server import server_of_card
from rotoscope.replayer.server_metrics.counts import Growth, ServerMetrics, growth
from rotoscope.replayer.server_metrics.series import Source
from rotoscope.replayer.setup import choose_profile, choose_vocabulary
from rotoscope.replayer.simulator.fleet import Fleet
from rotoscope.replayer.simulator.modelled_backend import ModelledBackend
from rotoscope.replayer.simulator.modelled_metrics import told
from rotoscope.replayer.simulator.modelled_time import ModelledClock, run_modelled
from rotoscope.replayer.simulator.server import SimulatorOptions, fleet_of, model_card
from rotoscope.replayer.summary import Summary
from rotoscope.replayer.sweep.simulated import settings_of
from rotoscope.traces.errors import UnusableInput
from rotoscope.traces.model import Trace

_API = "completions"
_WATCH_PAUSE_S = 0.25


def replay_modelled(
    traces: Sequence[Trace],
    options: ReplayOptions,
    simulator: SimulatorOptions,
    *,
    say: Say = lambda text: None,
    watch: Watch | None = None,
) -> Summary:
    """Replay traces on engines with these options and return the summary, which is in the folder of results too.

    Times are modelled seconds. `speed`, `host` and `port` of the simulator have no meaning here, nor has what the replay
    would ask a server over HTTP with. `watch` takes the progress, four times a second of real time at most.
    """
    return run_modelled(_replay(traces, options, simulator, say=say, watch=watch))


async def _replay(
    traces: Sequence[Trace], options: ReplayOptions, simulator: SimulatorOptions, *, say: Say, watch: Watch | None
) -> Summary:
    _refuse_what_is_of_servers(options)
    notes = Notes(say)
    work = work_of(traces, options, notes, simulated=settings_of(simulator))
    card = model_card(simulator)
    server = replace(server_of_card(simulator.model, card), version=__version__)
    check_context(work.calls(), server, notes)
    async with _running(fleet_of(simulator, ModelledClock)) as fleet:
        counted = _CountedInside(fleet)
        target = Target(
            server=server,
            api=_API,
            prompting=Prompting(TOKEN_ARRAYS, choose_vocabulary(options, server, notes)),
            backend=ModelledBackend(
                fleet,
                context_tokens=card["max_model_len"],
                seed=simulator.seed,
                timeout_s=options.timeout_s,
                tell=notes.hear,
            ),
            profile=choose_profile(options, server),
            counted=counted,
            source=counted.source,
            meter=None,
            watch_interval=watch_interval_s,
        )
        watch = None if watch is None else now_and_then(watch)
        return await perform_run(work, target, options, notes=notes, say=say, watch=watch)


def _refuse_what_is_of_servers(options: ReplayOptions) -> None:
    if options.api not in (AUTO_API, _API):
        raise UnusableInput(f"a simulation takes token ids: leave --api {options.api} out")
    asking = {"model": options.model, "engine": options.engine, "tokenizer": options.tokenizer, "dcgm": options.dcgm}
    for name, value in asking.items():
        if value is not None:
            raise UnusableInput(f"a simulation asks no server: leave --{name} out")
    if options.max_batch is not None:
        raise UnusableInput("a simulation knows its batch: leave --max-batch out, or give --set max_batch")


def watch_interval_s(elapsed_s: float) -> float:
    """Return the modelled time between two looks at whether it is time to tell the progress: 12,500 looks in 31 years."""
    return max(10.0, elapsed_s / 1000)


def now_and_then(watch: Watch, *, monotonic: Callable[[], float] = time.monotonic) -> Watch:
    """Return what watches four times a second of real time at most, and all that is over."""
    next_s = monotonic()

    def seldom(progress: Progress) -> None:
        nonlocal next_s
        if monotonic() >= next_s or progress.sessions_ended == progress.sessions:
            next_s = monotonic() + _WATCH_PAUSE_S
            watch(progress)

    return seldom


@asynccontextmanager
async def _running(fleet: Fleet) -> AsyncIterator[Fleet]:
    engines = asyncio.create_task(fleet.run())
    try:
        yield fleet
    finally:
        engines.cancel()
        with suppress(asyncio.CancelledError):
            await engines


class _CountedInside:
    """What the engines have counted, as it would be told by a server's metrics."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.source = Source(self._metrics(), self._read, sparse_interval_s)

    async def begin(self, *, expected_tokens: int) -> None:
        """Count from here on."""
        self.source.start = self._metrics()

    async def growth(self, *, expected_tokens: int = 0) -> Growth | None:
        """Return what was counted since the run began."""
        return growth(self.source.start, self._metrics())

    async def _read(self) -> ServerMetrics | None:
        return self._metrics()

    def _metrics(self) -> ServerMetrics:
        return told([(replica.engine.at_this_moment(), replica.latencies) for replica in self._fleet.replicas])
