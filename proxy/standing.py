"""A gateway with its runs for as long as a block runs: what `record` and `proxy` have in common."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from rotoscope.proxy.desk import desk_of
from rotoscope.proxy.door import Door
from rotoscope.proxy.gateway import Gateway, Notice
from rotoscope.proxy.loop_errors import kinds_of_errors_told
from rotoscope.proxy.measure import Measurer
from rotoscope.proxy.recording import Recording, beside, recording
from rotoscope.proxy.runs import Runs
from rotoscope.proxy.upstream import Upstream, open_session
from rotoscope.recorder.campaigns import Campaign
from rotoscope.recorder.names_file import NamesFile
from rotoscope.recorder.recorded_run import Finished, RecordedRun
from rotoscope.recorder.token_counters import Tokenizer

_log = logging.getLogger(__name__)

DRAIN_S = 2.0
"""How long requests that are open at the end may take; a process that was left behind may still be talking."""
MEASURING_S = 60.0
"""How long measuring may go on after a run's last answer."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a gateway stands before its upstream."""

    upstream: Upstream
    folder: Path
    """Where traces go."""
    campaign: Campaign
    """What its runs share."""
    measure: bool = False
    """Ask the upstream for the token ids of each prompt, which sends it a second time."""
    tokenizer: Tokenizer | None = None
    """What counts texts where the server does not."""
    by_session: bool = False
    """Give each session that a client names a run of its own."""
    idle_s: float | None = None
    """End runs for which nothing came for so long."""
    host: str = "127.0.0.1"
    ports: Sequence[int] = (0,)
    door: Door = field(default_factory=Door)
    drain_s: float = DRAIN_S
    names: NamesFile | None = None
    """Where the names of the runs are written, if they are asked for."""
    asks_usage: bool = True
    """Ask for the usage of response streams where the client does not."""

    @property
    def tokenizer_name(self) -> str | None:
        """What the tokenizer is called in traces."""
        return self.recording.tokenizer_name

    @property
    def recording(self) -> Recording:
        """How its runs are recorded."""
        return Recording(self.folder, self.campaign, self.tokenizer, self.by_session, self.idle_s, self.names)


@dataclass(frozen=True, slots=True)
class Stood:
    """A gateway that stands, and its runs."""

    gateway: Gateway
    runs: Runs
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    """Cuts open requests at once when the gateway ends."""


@contextlib.asynccontextmanager
async def standing(
    how: Standing,
    *,
    finished: Callable[[Finished, str], None],
    first: RecordedRun | None = None,
    notice: Notice = _log.warning,
) -> AsyncIterator[Stood]:
    """Run a gateway; at its end all traces are written. `first` is a run that has begun, `finished` is told of each.

    Raises UnusableInput when it cannot listen.
    """
    asyncio.get_running_loop().set_exception_handler(kinds_of_errors_told())
    async with (
        open_session(how.upstream) as session,
        _measuring(how, session, notice) as measurer,
        recording(how.recording, finished=finished, notice=notice, first=first, settle=lambda: _settle(measurer)) as (
            runs,
            counting,
        ),
    ):
        gateway = Gateway(
            how.upstream,
            runs,
            session=session,
            notice=notice,
            door=how.door,
            desk=lambda request, target, port: desk_of(gateway, runs)(request, target, port),
            measurer=measurer,
            counting=counting,
            asks_usage=how.asks_usage,
        )
        stood = Stood(gateway, runs)
        try:
            await gateway.start(how.host, how.ports)
            yield stood
        finally:
            await gateway.stop(drain_s=how.drain_s, hurry=stood.hurry)


@contextlib.asynccontextmanager
async def _measuring(how: Standing, session: aiohttp.ClientSession, notice: Notice) -> AsyncIterator[Measurer | None]:
    if not how.measure:
        yield None
        return
    measurer = Measurer(how.upstream, session, notice=notice)
    async with beside(measurer.run()):
        yield measurer


async def _settle(measurer: Measurer | None) -> None:
    """Wait for prompts that are still to be measured."""
    if measurer is not None:
        await measurer.settle(timeout_s=MEASURING_S)
