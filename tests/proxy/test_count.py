from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from event_loops import in_jumping_loop
from tokenizer_files import word_tokenizer

from rotoscope.proxy.count import PAUSE_S, CounterProcess, Counting, Uncountable
from rotoscope.recorder.counting import Counted, Uncounted
from rotoscope.recorder.token_counters import Tokenizer, chosen_tokenizer

PATIENCE_S = 30.0


@dataclass
class Texts:
    """A recorder with texts."""

    batches: list[list[Uncounted]] = field(default_factory=list)
    counts: list[Counted] = field(default_factory=list)

    @property
    def waiting_texts(self) -> int:
        return sum(map(len, self.batches))

    @property
    def waiting_chars(self) -> int:
        return sum(text.chars for batch in self.batches for text in batch)

    def uncounted(self) -> list[Uncounted]:
        return self.batches.pop(0) if self.batches else []

    def counted(self, counts: Sequence[Counted]) -> None:
        self.counts.extend(counts)


class Gone(CounterProcess):
    """A process that cannot be started."""

    asked = 0

    def __init__(self) -> None:
        super().__init__(Tokenizer("gone"))

    async def start(self) -> None:
        raise Uncountable

    async def count(self, texts: Sequence[Uncounted]) -> list[Counted]:
        self.asked += 1
        raise Uncountable


class Stuck(CounterProcess):
    """A process that never answers."""

    def __init__(self) -> None:
        super().__init__(Tokenizer("stuck"))
        self.is_asked = asyncio.Event()

    async def start(self) -> None:
        pass

    async def count(self, texts: Sequence[Uncounted]) -> list[Counted]:
        self.is_asked.set()
        await asyncio.Event().wait()
        return []


class Clocked(CounterProcess):
    """A process that answers at once; keeps when it was asked."""

    def __init__(self) -> None:
        super().__init__(Tokenizer("clocked"))
        self.asked_s: list[float] = []

    async def start(self) -> None:
        pass

    async def count(self, texts: Sequence[Uncounted]) -> list[Counted]:
        self.asked_s.append(asyncio.get_running_loop().time())
        return []


@contextlib.asynccontextmanager
async def counting_with(process: CounterProcess) -> AsyncIterator[tuple[Counting, list[str]]]:
    """Run a counting; give it and what it says."""
    notices: list[str] = []
    counting = Counting(process, notice=notices.append)
    task = asyncio.create_task(counting.run())
    try:
        yield counting, notices
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
def process(tmp_path: Path) -> CounterProcess:
    tokenizer = chosen_tokenizer(str(word_tokenizer(tmp_path / "tokenizer.json")))
    assert tokenizer is not None
    return CounterProcess(tokenizer)


def test_texts_of_several_recorders_are_counted_by_another_process(process: CounterProcess) -> None:
    first = Texts([[Uncounted(0, "one two")], [Uncounted(1, "three")]])
    second = Texts([[Uncounted(0, "four five six", "seven")]])

    async def run() -> list[str]:
        async with counting_with(process) as (counting, notices):
            for recorder in (first, second, first):
                counting.submit(recorder)
            await counting.finish(timeout_s=PATIENCE_S)
            return notices

    assert asyncio.run(run()) == []
    assert first.counts == [Counted(0, 2), Counted(1, 1)]
    assert second.counts == [Counted(0, 3, 1)]


def test_texts_that_are_not_counted_yet_can_be_told() -> None:
    several = Texts([[Uncounted(0, "one"), Uncounted(1, "two")], [Uncounted(2, "three")]])
    other = Texts([[Uncounted(0, "four")]])

    async def run() -> list[int]:
        process = Stuck()
        async with counting_with(process) as (counting, _):
            told = [counting.waiting]
            counting.submit(several)
            counting.submit(other)
            told.append(counting.waiting)
            await process.is_asked.wait()
            return [*told, counting.waiting]

    assert asyncio.run(run()) == [0, 4, 4]


def test_what_comes_on_top_of_the_texts_of_all_recorders_stays_uncounted_and_that_is_told_once() -> None:
    waiting = [Texts([[Uncounted(0, "x" * 60)]]) for _ in range(4)]

    async def run() -> list[str]:
        notices: list[str] = []
        counting = Counting(Stuck(), notice=notices.append, most_chars=100)
        for texts in waiting:
            counting.submit(texts)
        return notices

    notices = asyncio.run(run())

    assert [texts.waiting_chars for texts in waiting] == [60, 60, 0, 0]
    assert notices == ["texts come faster than they can be counted: sizes of those on top are estimates"]


def test_no_process_runs_until_there_is_a_call(process: CounterProcess) -> None:
    async def run() -> None:
        async with counting_with(process) as (counting, _):
            await counting.finish(timeout_s=PATIENCE_S)
            assert process.pid is None

    asyncio.run(run())


def test_the_process_ends_with_the_counting(process: CounterProcess) -> None:
    async def run() -> int:
        async with counting_with(process) as (counting, _):
            counting.submit(Texts([[Uncounted(0, "one")]]))
            await counting.finish(timeout_s=PATIENCE_S)
            assert process.pid is not None
            return process.pid

    pid = asyncio.run(run())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_signals_that_end_the_group_of_the_gateway_leave_the_process_to_count_the_last_texts(
    process: CounterProcess,
) -> None:
    texts = Texts([[Uncounted(0, "one")]])

    async def run() -> list[str]:
        async with counting_with(process) as (counting, notices):
            counting.submit(texts)
            await counting.finish(timeout_s=PATIENCE_S)
            assert process.pid is not None
            for signum in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
                os.kill(process.pid, signum)
            texts.batches = [[Uncounted(1, "two")]]
            counting.submit(texts)
            await counting.finish(timeout_s=PATIENCE_S)
            return notices

    assert asyncio.run(run()) == []
    assert texts.counts == [Counted(0, 1), Counted(1, 1)]


def test_a_process_that_is_killed_is_told_once_and_texts_are_dropped_from_then_on(process: CounterProcess) -> None:
    texts = Texts([[Uncounted(0, "one")]])

    async def run() -> list[str]:
        async with counting_with(process) as (counting, notices):
            counting.submit(texts)
            await counting.finish(timeout_s=PATIENCE_S)
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            texts.batches = [[Uncounted(part, "two")] for part in range(1, 5)]
            counting.submit(texts)
            await counting.finish(timeout_s=PATIENCE_S)
            return notices

    assert asyncio.run(run()) == ["the tokenizer could not be loaded or broke: sizes that it would count are estimates"]
    assert texts.counts == [Counted(0, 1)]
    assert texts.batches == []


def test_a_tokenizer_that_cannot_be_loaded_is_told_once(tmp_path: Path) -> None:
    texts = Texts([[Uncounted(0, "one")], [Uncounted(1, "two")]])

    async def run() -> list[str]:
        async with counting_with(CounterProcess(Tokenizer("file-0", tmp_path / "none"))) as (counting, notices):
            counting.submit(texts)
            await counting.finish(timeout_s=PATIENCE_S)
            return notices

    assert len(asyncio.run(run())) == 1
    assert texts.batches == []
    assert texts.counts == []


def test_a_process_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    tokenizer = chosen_tokenizer(str(word_tokenizer(tmp_path / "tokenizer.json")))
    assert tokenizer is not None
    texts = Texts([[Uncounted(0, "one")], [Uncounted(1, "two")]])

    async def run() -> list[str]:
        async with counting_with(CounterProcess(tokenizer, timeout_s=0)) as (counting, notices):
            counting.submit(texts)
            await counting.finish(timeout_s=PATIENCE_S)
            return notices

    assert len(asyncio.run(run())) == 1
    assert (texts.counts, texts.batches) == ([], [])


def test_a_process_that_cannot_be_started_is_told_once_and_never_asked() -> None:
    process, texts = Gone(), Texts([[Uncounted(0, "one")]])

    async def run() -> list[str]:
        async with counting_with(process) as (counting, notices):
            for part in range(3):
                texts.batches.append([Uncounted(part, "two")])
                counting.submit(texts)
                await counting.finish(timeout_s=PATIENCE_S)
            return notices

    assert len(asyncio.run(run())) == 1
    assert process.asked == 0
    assert texts.batches == []


def test_what_comes_later_is_not_waited_for() -> None:
    class Busy(Texts):
        """A recorder that has more texts whenever it is asked."""

        def uncounted(self) -> list[Uncounted]:
            counting.submit(self)
            return []

    counting: Counting

    async def run() -> list[str]:
        nonlocal counting
        async with counting_with(Stuck()) as (counting, notices):
            counting.submit(Busy())
            await counting.finish(timeout_s=PATIENCE_S)
            return notices

    assert asyncio.run(run()) == []


def test_what_is_not_counted_in_time_stays_uncounted_and_is_told() -> None:
    texts = Texts([[Uncounted(0, "one")]])

    async def run() -> list[str]:
        async with counting_with(Stuck()) as (counting, notices):
            counting.submit(texts)
            await counting.finish(timeout_s=0)
            return notices

    [notice] = asyncio.run(run())
    assert notice.startswith("some messages were not counted")
    assert texts.counts == []


@in_jumping_loop
async def test_texts_gather_for_a_moment_before_the_next_batch_is_counted() -> None:
    process = Clocked()
    async with counting_with(process) as (counting, _):
        counting.submit(Texts([[Uncounted(0, "one")]]))
        await asyncio.sleep(PAUSE_S / 2)
        counting.submit(Texts([[Uncounted(1, "two")]]))
        await asyncio.sleep(PAUSE_S)

    assert process.asked_s == [0.0, PAUSE_S]


@in_jumping_loop
async def test_who_waits_for_the_end_of_counting_is_not_kept_waiting() -> None:
    process = Clocked()
    async with counting_with(process) as (counting, _):
        counting.submit(Texts([[Uncounted(0, "one")]]))
        await asyncio.sleep(PAUSE_S / 2)
        counting.submit(Texts([[Uncounted(1, "two")]]))
        await counting.finish(timeout_s=PATIENCE_S)
        ended_s = asyncio.get_running_loop().time()

    assert process.asked_s == [0.0, PAUSE_S / 2]
    assert ended_s == PAUSE_S / 2
