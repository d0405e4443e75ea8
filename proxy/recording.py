"""Runs that are recorded and what is counted of them, for as long as a block runs: what gateway and interception share."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rotoscope.proxy.count import CounterProcess, Counting
from rotoscope.proxy.runs import Runs
from rotoscope.recorder.campaigns import Campaign
from rotoscope.recorder.names_file import NamesFile
from rotoscope.recorder.numbered_files import Numbers
from rotoscope.recorder.recorded_run import Finished, RecordedRun, begin_in
from rotoscope.recorder.token_counters import Tokenizer

COUNTING_S = 10.0
"""How long counting may go on after a run's last answer."""


@dataclass(frozen=True, slots=True)
class Recording:
    """How runs are recorded."""

    folder: Path
    """Where traces go."""
    campaign: Campaign
    """What the runs share."""
    tokenizer: Tokenizer | None = None
    """What counts texts where the server does not."""
    by_session: bool = False
    """Give each session that a client names a run of its own."""
    idle_s: float | None = None
    """End runs for which nothing came for so long."""
    names: NamesFile | None = None
    """Where the names of the runs are written, if they are asked for."""

    @property
    def tokenizer_name(self) -> str | None:
        """What the tokenizer is called in traces."""
        return None if self.tokenizer is None else self.tokenizer.name


@contextlib.asynccontextmanager
async def recording(
    how: Recording,
    *,
    finished: Callable[[Finished, str], None],
    notice: Callable[[str], None],
    first: RecordedRun | None = None,
    settle: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[tuple[Runs, Counting | None]]:
    """Have runs; at the end of the block all traces are written.

    `first` is a run that has begun, `finished` is told of each that ended, with the name that the person gave it, and
    `settle` waits for what else is to be learnt of calls that have ended.
    """
    async with _counting(how, notice) as counting:

        async def settled() -> None:
            if settle is not None:
                await settle()
            if counting is not None:
                await counting.finish(timeout_s=COUNTING_S)

        runs = _runs(how, _noted(how.names, finished), settled)
        if first is not None:
            runs.adopt(first)
        try:
            async with _ending_idle_ones(how, runs):
                yield runs, counting
        finally:
            await runs.end_all()


def _runs(how: Recording, finished: Callable[[Finished, str], None], settle: Callable[[], Awaitable[None]]) -> Runs:
    numbers = Numbers(how.folder)

    def begin() -> RecordedRun:
        return begin_in(
            how.folder,
            how.campaign,
            tokenizer=how.tokenizer_name,
            keeps_names=how.names is not None,
            numbers=numbers,
        )

    return Runs(begin, finished=finished, settle=settle, by_session=how.by_session, idle_s=how.idle_s)


@contextlib.asynccontextmanager
async def _ending_idle_ones(how: Recording, runs: Runs) -> AsyncIterator[None]:
    if how.idle_s is None:
        yield
        return
    async with beside(runs.end_idle_ones()):
        yield


@contextlib.asynccontextmanager
async def _counting(how: Recording, notice: Callable[[str], None]) -> AsyncIterator[Counting | None]:
    if how.tokenizer is None:
        yield None
        return
    counting = Counting(CounterProcess(how.tokenizer), notice=notice)
    async with beside(counting.run()):
        yield counting


def _noted(names: NamesFile | None, finished: Callable[[Finished, str], None]) -> Callable[[Finished, str], None]:
    """Let the names of each run be written down before it is told."""
    if names is None:
        return finished

    def noted(one: Finished, name: str) -> None:
        names.add(one)
        finished(one, name)

    return noted


@contextlib.asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Do something beside the block for as long as it runs."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
