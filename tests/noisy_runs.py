"""Runs of closed loops in virtual time against a server that is shared, and now and then slower: results of known truth."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from replay_doubles import FIRST_ID, VOCABULARY

from rotoscope.replayer.exchange import Exchange
from rotoscope.replayer.failures import Failure
from rotoscope.replayer.notes import Notes
from rotoscope.replayer.options import ReplayOptions
from rotoscope.replayer.performing import Target, perform_run, work_of
from rotoscope.replayer.prompting import Prompting
from rotoscope.replayer.rendering import TOKEN_LISTS
from rotoscope.replayer.server import Server
from rotoscope.replayer.server_metrics.counts import Growth
from rotoscope.replayer.simulator.modelled_time import run_modelled
from rotoscope.replayer.summary import Summary
from rotoscope.testing import make_trace
from rotoscope.traces import Trace
from rotoscope.traces.analysis.profiles import profile_named

TRACES = [make_trace(turns=turns, osl=osl, tool_ms=tool_ms) for turns, osl, tool_ms in ((2, 40, 900.0), (4, 15, 300.0))]
CONCURRENCY = 4


@dataclass(frozen=True)
class Machine:
    """How fast a server is and what changes its speed; a share is the standard deviation of a logarithm."""

    slowness: float = 1.0
    """Factor on all of its times."""
    spell_share: float = 0.05
    """Of spells in which the whole server is slower or faster."""
    spell_s: float = 5.0
    """How long they last: after so long, 1/e of the correlation is left."""
    request_share: float = 0.2
    """Of what differs from request to request."""
    run_share: float = 0.0
    """Of what differs from run to run, and stays the same within one."""


@dataclass
class NoisyServer:
    """Answers more slowly the more requests are in flight."""

    machine: Machine
    random: np.random.Generator
    in_flight: int = 0
    _spells: list[float] = field(default_factory=lambda: [0.0])
    _run_factor: float = 1.0

    def __post_init__(self) -> None:
        self._run_factor = float(np.exp(self.machine.run_share * self.random.normal()))
        self._spells = [float(self.random.normal())]

    async def perform(self, exchange: Exchange) -> Failure | None:
        loop = asyncio.get_running_loop()
        own = float(np.exp(self.machine.request_share * self.random.normal()))
        self.in_flight += 1
        exchange.sent_s = exchange.answered_s = loop.time()
        exchange.prompt_tokens = exchange.prompt.count(b",") + 1
        exchange.cached_tokens = 0 if self.random.random() < 0.05 else exchange.prompt_tokens // 2
        try:
            await self._work(own * 0.002 * (exchange.prompt_tokens - exchange.cached_tokens))
            self._tell(exchange, 1, loop.time())
            for half in (exchange.output_tokens // 2, exchange.output_tokens - 1 - exchange.output_tokens // 2):
                await self._work(own * 0.02 * half)
                self._tell(exchange, half, loop.time())
            exchange.completion_tokens = exchange.output_tokens
            return None
        finally:
            exchange.ended_s = loop.time()
            self.in_flight -= 1

    async def _work(self, alone_s: float) -> None:
        busy = 1 + 0.25 * (self.in_flight - 1)
        factor = busy * self._run_factor * self.machine.slowness * self._spell(asyncio.get_running_loop().time())
        await asyncio.sleep(alone_s * factor)

    def _spell(self, now_s: float) -> float:
        """Return the factor of the moment, an autoregressive process of a step a second."""
        keeps = float(np.exp(-1 / self.machine.spell_s))
        while len(self._spells) <= now_s:
            self._spells.append(keeps * self._spells[-1] + (1 - keeps**2) ** 0.5 * float(self.random.normal()))
        return float(np.exp(self.machine.spell_share * self._spells[int(now_s)]))

    def _tell(self, exchange: Exchange, tokens: int, now_s: float) -> None:
        if tokens:
            exchange.output_ids += range(FIRST_ID, FIRST_ID + tokens)
            exchange.note_tokens(tokens, now_s)


class _CountsNothing:
    async def begin(self, *, expected_tokens: int) -> None:
        pass

    async def growth(self, *, expected_tokens: int = 0) -> Growth | None:
        return None


def replay_on(
    machine: Machine, folder: Path, *, noise: int, traces: list[Trace] | None = None, **options: Any
) -> Summary:
    """Replay on such a machine in virtual time; `noise` is the seed of all that is left to chance there."""
    load: dict[str, Any] = {
        "concurrency": CONCURRENCY,
        "sessions": 48,
        "ramp_s": 4.0,
        "seed": noise,
        "salt": str(noise),
        "skipped_gates": ("above-optimum", "jobs"),  # what it says is cached is made up, and few sessions are of use
    }
    given = ReplayOptions(url="http://127.0.0.1:1", folder=folder, **load | options)

    async def perform() -> Summary:
        notes = Notes(lambda text: None)
        target = Target(
            server=Server("m", simulated=True),
            api="completions",
            prompting=Prompting(TOKEN_LISTS, VOCABULARY),
            backend=NoisyServer(machine, np.random.default_rng(noise)),
            profile=profile_named("token"),
            counted=_CountsNothing(),
        )
        work = work_of(TRACES if traces is None else traces, given, notes)
        return await perform_run(work, target, given, notes=notes, say=lambda text: None, watch=None)

    return run_modelled(perform())
